"""What the methods' real steps are made of: models, batches, losses, optimizers. Imports torch."""
