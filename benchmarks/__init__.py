"""What is timed or counted and no test: see README.md."""
