"""``python -m accuracy.messages``: 300 plans on cards that are too small; writes docs/messages.md.

Plans of ``accuracy/pinned`` by lot, without the first :data:`LOOKED_AT`, which were looked at while
the reader was written. About ten minutes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from accuracy.messages.proof import Said, judged
from accuracy.pinned import table
from planner.plan import Plan
from planner.plan.link import from_query_string

DOCUMENT = Path(__file__).parents[2] / "docs" / "messages.md"
SEED = 42
PLANS = 300
LOOKED_AT = 1000
VARIANTS = {
    "a few bytes short": "the largest card that is too small; the sentence alone",
    "with a traceback": "the same, with one call of the phase's own code before it",
    "any shortage": "a card of 60 to 100% of what just fits; the sentence alone",
    "other order": "the first again, with the tensors of every instant in another order than the "
    "plan lists them",
}
FIRST = "a few bytes short"
INTRODUCTION = """# Out-of-memory messages, read and diagnosed

`python -m accuracy.messages` writes this page: {plans} plans of the random ones of
[pinned](pinned.md), by lot (seed {seed}). None of them was looked at while the reader was written.
Each plan's phases are played in their order, a load and two steps, through the simulated allocator
on a card that is too small. The first allocation that fails is put into the sentence that torch
prints; `planner/importer/` reads the sentence and compares it with the plan's estimate. A hit is
what it names first: the phase, and the tensor in it. The estimate adds terms up. The simulation has
blocks, cached ones and broken ones, so that both agree to some MiB and not to the byte, and a last
tensor of at most 1 MiB that needs a new segment may be any of many.

Tensors of one size are told apart by what is allocated when each is asked for, and by four facts of
the allocator: segments are whole multiples of 2 MiB, so that the unallocated figure, which is
printed finer than the others, says which sum it belongs to; small tensors share segments, and those
that fill more of them buy one more likely; no more memory lies in pieces than was given back;
and what needs more of the card would have failed earlier. Where two moments of a step ask for the
same while the same is allocated, as a rollout and a validation do, or the updates of a policy and a
critic of one size, the sentence says nothing that tells them apart: how much lies in pieces at each
is not in the plan.
"""


def plans() -> Iterator[tuple[int, Plan]]:
    """Plans by lot, with their numbers in the table."""
    rows = table.read()
    for number in random.Random(SEED).sample(range(LOOKED_AT, len(rows)), len(rows) - LOOKED_AT):
        plan = from_query_string(rows[number].link).plan
        if plan is not None:
            yield number, plan


def run(most: int) -> dict[str, dict[int, Said]]:
    """By variant, what is said of the first plans whose trainer runs out, by their numbers."""
    found: dict[str, dict[int, Said]] = {name: {} for name in VARIANTS}
    first = found[FIRST]
    for number, plan in plans():
        if len(first) == most:
            break
        try:
            said = judged(plan, VARIANTS, random.Random(number))
        except ValueError:
            continue
        for name, one in (said or {}).items():
            found[name][number] = one
        if said and len(first) % 50 == 0:
            print(len(first), {name: hits(each) for name, each in found.items()}, flush=True)
    return found


def hits(found: Mapping[int, Said]) -> tuple[int, int]:
    """Phases that are right, and tensors in them."""
    phases = sum(one.phase == one.said_phase for one in found.values())
    both = sum((one.phase, one.term) == (one.said_phase, one.said_term) for one in found.values())
    return phases, both


def text(found: Mapping[str, Mapping[int, Said]]) -> str:
    """The page."""
    lines = [
        INTRODUCTION.format(plans=PLANS, seed=SEED),
        "| card | what | plans | phase | phase and tensor | said of the tensors |",
        "|---|---|---|---|---|---|",
    ]
    for name, said in found.items():
        phases, both = hits(said)
        sure = Counter(one.sure for one in said.values())
        told = ", ".join(f"{count} {what}" for what, count in sure.most_common())
        share = f"{phases / len(said):.1%} | {both / len(said):.1%}"
        lines.append(f"| {name} | {VARIANTS[name]} | {len(said)} | {share} | {told} |")
    alone = [one for one in found[FIRST].values() if one.sure == "one tensor"]
    right = sum((one.phase, one.term) == (one.said_phase, one.said_term) for one in alone)
    lines += ["", f"Of {len(alone)} told as the only one ({FIRST}), {right} are right."]
    lines += ["", "## Misses a few bytes short", ""]
    lines += ["| plan | failed | said first |", "|---|---|---|"]
    for number, one in found[FIRST].items():
        if (one.phase, one.term) != (one.said_phase, one.said_term):
            true, first = f"{one.phase}: {one.term}", f"{one.said_phase}: {one.said_term}"
            lines.append(f"| {number} | {true} | {first} ({one.sure}) |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(text(run(PLANS)), "utf-8")
