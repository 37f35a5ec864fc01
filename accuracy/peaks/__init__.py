"""Memory that others measured on real GPUs, row by row, beside the estimate of each row's plan."""
