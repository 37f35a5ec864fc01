"""What stored trials prove of predictions: corrections and stated errors. No torch."""
