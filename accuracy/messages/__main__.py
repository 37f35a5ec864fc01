"""``python -m accuracy.messages``: 300 plans on cards that are too small; writes docs/messages.md.

Plans of ``accuracy/pinned`` by lot, without the first :data:`LOOKED_AT`, which were looked at while
the reader was written. About five minutes.
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
INTRODUCTION = """# Out-of-memory messages, read and diagnosed

`python -m accuracy.messages` writes this page ({plans} random plans of [pinned](pinned.md) by lot, seed
{seed}; none of them was looked at while the reader was written). Each plan's phases are played in their order, twice,
through the simulated allocator on a card that is too small; the first allocation that fails is put into the sentence
that torch prints. `planner/importer/` reads the sentence and compares it with the plan's estimate. A hit is what it
names first: the phase, and the tensor in it. The estimate adds terms up; the simulation has blocks, cached ones and
broken ones, so that the two agree to some MiB and not to the byte.
"""


def plans() -> Iterator[tuple[int, Plan]]:
    """Plans by lot, with their numbers in the table."""
    rows = table.read()
    for number in random.Random(SEED).sample(range(LOOKED_AT, len(rows)), len(rows) - LOOKED_AT):
        plan = from_query_string(rows[number].link).plan
        if plan is not None:
            yield number, plan


def run(variant: str, most: int) -> dict[int, Said]:
    """What is said of the first plans whose trainer runs out of memory, by their numbers."""
    found: dict[int, Said] = {}
    for number, plan in plans():
        if len(found) == most:
            break
        try:
            said = judged(plan, variant, random.Random(number))
        except ValueError:
            continue
        if said is not None:
            found[number] = said
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
    lines += ["", "## Misses a few bytes short", ""]
    lines += ["| plan | failed | said first |", "|---|---|---|"]
    for number, one in found["a few bytes short"].items():
        if (one.phase, one.term) != (one.said_phase, one.said_term):
            true, first = f"{one.phase}: {one.term}", f"{one.said_phase}: {one.said_term}"
            lines.append(f"| {number} | {true} | {first} ({one.sure}) |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    everything = {name: run(name, PLANS) for name in VARIANTS}
    for name, said in everything.items():
        print(name, len(said), *hits(said))
    DOCUMENT.write_text(text(everything), "utf-8")
