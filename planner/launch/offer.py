"""What a page may offer by a button: the nearest plan that a framework runs, on the planned card.

What a framework needs may take more memory than the plan had. Such a plan is made to fit with it,
or is not offered: no button leads from a plan to one that is judged worse, or that does not run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from planner.advice.fitting import kept
from planner.advice.outcome import Judge, outcome_of
from planner.advice.suggestion import Trying
from planner.footprint import Verdict
from planner.launch.export import changed_for, in_the_way
from planner.plan import Plan
from planner.totals.limits import worse


def refuses(after: Verdict, before: Verdict) -> bool:
    """Whether a button must not lead there: out of memory, or judged worse than before."""
    return after.word == "out of memory" or worse(after.word, before.word)


def offered(
    plan: Plan,
    framework: str,
    chosen: Collection[str],
    judge: Judge,
    progress: Callable[[], None] = lambda: None,
) -> tuple[Plan, Plan | None]:
    """The nearest plan that a framework runs, and what may be offered: it, or it made to fit.

    What makes it fit keeps model, lengths and GPUs, and puts nothing in the framework's way. None
    where nothing does.

    Raises:
        CannotExpress: as :func:`planner.launch.export.changed_for` does.
    """
    near = changed_for(plan, framework, chosen)
    after = judge(near)
    if not refuses(after.verdict, judge(plan).verdict):
        return near, near
    refused = partial(in_the_way, framework=framework)
    way = kept(Trying(outcome_of(after), judge, progress, refused))
    return near, None if way is None else way.after.plan
