"""The Trial page: what would run, progress, measured beside predicted, history. No torch."""
