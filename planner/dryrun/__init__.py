"""The real step on tensors without data: what it holds, instant by instant."""
