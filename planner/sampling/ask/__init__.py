"""Asks for a run of density-aware sampling and reads what came of it. No torch, no FAISS."""
