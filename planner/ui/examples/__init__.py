"""The Examples page: documents with their claims, and GRADE's dry runs. No torch."""
