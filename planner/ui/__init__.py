"""What the app's pages are built of: a folder each page, the inputs, the state. No torch.

Streamlit is imported here alone; ``pages/`` calls in, and every answer comes from the core.
"""
