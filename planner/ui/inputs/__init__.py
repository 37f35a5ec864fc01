"""A plan's fields as widgets: the sidebar's groups, labels and choices. No torch."""
