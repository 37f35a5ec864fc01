"""A number that moves is noticed, and explained."""

from __future__ import annotations

import json

from golden import FILE, current


def test_presets_estimate_what_they_did() -> None:
    before, now = json.loads(FILE.read_text(encoding="utf-8")), current()
    assert list(now) == list(before)
    for key, answer in now.items():
        assert answer == before[key], f"{key} moved: scripts/golden, and say why"
