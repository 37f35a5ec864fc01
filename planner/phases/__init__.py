"""What methods' closed forms are made of: phases as instants of terms, and their work. No torch.

A method's ``memory.py`` puts them in order; real steps are made of :mod:`planner.steps`.
"""
