"""The dry run on the Plan page: its button, its job and its answer. No torch."""
