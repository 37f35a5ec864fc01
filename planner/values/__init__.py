"""What plans are built of, as plain values: each told once and asked for by no name."""
