"""How fields, their values and numbers are said to people: on pages, in reports, in a shell.

No part of it imports Streamlit.
"""
