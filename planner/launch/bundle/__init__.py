"""What goes with every export: a preflight, variables, what to expect, and a scheduler's job."""
