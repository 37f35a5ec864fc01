"""A bundle of ours whose files were changed: what describes its plan is written anew.

The preflight compares a node with the plan's peak, and ``expected.md`` has it by phase: of another
plan both would be wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePosixPath

from planner.launch.bundle.places import SHELL, nodes_of
from planner.launch.export import export
from planner.plan import Plan
from planner.plan.query import to_query_string
from planner.units import read_count

DESCRIBING = ("preflight.py", "expected.md", "plan.json")
"""Files that hang on nothing but the plan, and the framework that runs it."""


def described_anew(
    texts: Mapping[str, str], before: Plan, plan: Plan
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The files with those as another plan has them, and sentences about what is as it was.

    Args:
        texts: all files of a run, by name; without the ``plan.json`` of a bundle they stay.
        before: the plan that the files said.
        plan: the one that they say now.
    """
    own = {PurePosixPath(name).name: name for name in texts}
    link = _link(texts[own["plan.json"]]) if "plan.json" in own else None
    if link is None or plan == before:
        return texts, ()
    now = f"{link.partition('?')[0]}?{to_query_string(plan, short=True)}" if link else ""
    try:
        made = export(plan, plan.framework, link=now, on=SHELL)
    except ValueError as error:
        kept = " and ".join(name for name in DESCRIBING if name in own)
        return texts, (f"{kept} are of the plan as it was: {error}",)
    machines = (
        f"The scripts start {read_count(nodes_of(before), 'machine')}, and the plan has "
        f"{nodes_of(plan)}: export it for scripts of as many."
    )
    same = {f"# {link}": f"# {now}"} if link else {}
    written = {
        name: "\n".join(same.get(line, line) for line in text.split("\n"))
        for name, text in texts.items()
    }
    files = {file.name: file.text for file in made.files if file.name in DESCRIBING}
    described = {own[name]: text for name, text in files.items() if name in own}
    return {**written, **described}, (machines,) if nodes_of(plan) != nodes_of(before) else ()


def _link(text: str) -> str | None:
    """The link in a bundle's ``plan.json``; None where the text is none of a bundle."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    told = isinstance(found, dict) and found.keys() == {"v", "link", "plan"} and found["link"]
    return told if isinstance(told, str) else None
