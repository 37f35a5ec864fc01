"""The verdict of the plan and its figures: what an edit is made for, so they come before inputs.

Drawn after the inputs, it is seen half as long again after the key (benchmarks/README.md).
"""

from __future__ import annotations

from planner.ui import compute, messages, verdict
from planner.ui.state import session


def show() -> None:
    """Say it, and let a browser draw it; nothing while the inputs make no plan."""
    draft = session.draft()
    if draft.plan is None:
        return
    footprint = compute.shown(draft.plan)
    verdict.sentence(footprint)
    verdict.figures(footprint, compute.price(draft.plan))
    messages.about_the_edit(draft)  # below them: they stay where the eye is
    compute.let_it_show()
