"""What every export of a plan is made of: files, obstacles, safe shell text. No torch.

What one framework writes stands in ``planner/frameworks/<framework>/exporter.py``.
"""
