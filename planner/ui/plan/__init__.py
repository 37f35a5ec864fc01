"""The Plan page: phases, advice and what can be shared. No torch."""
