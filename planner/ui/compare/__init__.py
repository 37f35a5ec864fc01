"""The Compare page: plans that were pinned, beside each other and beside the one on the page."""
