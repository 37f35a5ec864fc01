"""The files of a made-up framework, as docs/adding.md has somebody write them."""

from __future__ import annotations

from recipes import recipes

RECIPE = recipes()["A framework"]
