"""What transformers' Trainer has for a method, a file each, named as the method's folder is."""
