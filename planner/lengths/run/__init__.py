"""What needs a tokenizer's library: a process of the command line."""
