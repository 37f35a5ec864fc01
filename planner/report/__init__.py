"""A plan on one page of HTML, for whoever approves the run: what it is, what is known, its cost.

``content.py`` says what stands on it, ``page.py`` writes it. No torch, no Streamlit.
"""

from planner.report.content import Advice, Content, content_of
from planner.report.page import html_of

__all__ = ["Advice", "Content", "content_of", "html_of"]
