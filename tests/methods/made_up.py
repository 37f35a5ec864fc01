"""The files of a made-up method, as docs/adding.md has somebody write them: a teacher's scores."""

from __future__ import annotations

from recipes import recipes

RECIPE = recipes()["A method"]
