"""Small facts that plans are built of, each told once and asked for by no name."""
