"""What people have already, read into a plan: scripts, configurations, logs, error messages.

Every text here is hostile: it is parsed within bounds, and nothing of it is ever run.
"""
