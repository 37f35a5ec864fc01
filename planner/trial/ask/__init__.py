"""Asks for a trial and reads its answer: request, queue, supervisor, result. No torch."""
