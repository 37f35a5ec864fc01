"""Embeds prompts, finds neighbours, weighs: processes of their own, and the only ones that load
torch, scikit-learn, FAISS and PyArrow.
"""
