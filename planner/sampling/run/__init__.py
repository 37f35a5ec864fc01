"""Embeds, searches and weighs in processes of their own: torch and FAISS are loaded here."""
