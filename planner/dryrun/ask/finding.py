"""What a dry run shows, in sentences for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from planner.dryrun.ask.answer import DryRun
from planner.estimate import estimate
from planner.footprint import Phase, worst_of
from planner.plan import Plan, try_plan
from planner.plan.loss import names_anew
from planner.plan.methods import method_of
from planner.term import OUTSIDE
from planner.units import read_count, read_gib
from planner.values.method import Switch

SMALL = 0.001
"""Differences up to this share are not worth a sentence of their own."""

KINDS: Mapping[str, str] = {
    "allocator": "cached but unused memory",
    "optimizer": "optimizer states",
    "kv-cache": "KV cache",
}
"""Categories that need more words than their name."""

Read = Callable[[float], str]
"""Bytes as the reader wants them, with the unit."""
SWITCHES: tuple[Switch, ...] = (
    (
        "gradient checkpointing",
        "keeping every layer's activations",
        {"gradient_checkpointing": "full"},
        {"gradient_checkpointing": "none", "activation_offload": False},
    ),
    (
        "using fused linear cross-entropy",
        "holding all logits",
        {"logits": "fused"},
        {"logits": "full"},
    ),
    (
        "the fused optimizer",
        "the foreach optimizer",
        {"optimizer": "adamw-fused"},
        {"optimizer": "adamw-foreach"},
    ),
)


def _gib(size_bytes: float) -> str:
    return f"{read_gib(size_bytes)} GiB"


def finding(found: DryRun, read: Read = _gib) -> tuple[str, ...]:
    """What the peak is made of, how far the closed form was off, what would change it.

    Args:
        found: a dry run's answer.
        read: bytes as the reader wants them, with the unit.

    Returns:
        Sentences, the dry run's verdict first, with what it judges otherwise than the estimate.
    """
    own, estimated = found.footprint.verdict, found.estimate.verdict
    verdict, lines = own.sentence, (each for each in own.lines if each not in estimated.lines)
    ran = [phase for phase in found.footprint.phases if phase.source == "dry run"]
    if not ran:
        return (verdict, *lines, "The dry run executed no phase of this plan.")
    worst = worst_of(ran)
    led = "The dry run's verdict" if not found.otherwise else "With this dry run's figures"
    return (
        f"{led}: {verdict}",
        *(
            f"It only checks, and the closed form stays the verdict: {why}"
            for why in found.otherwise[:1]
        ),
        *lines,
        *_totals(worst, found, read),
        _made_of(worst, found, read),
        *_on_the_card(found),
        _largest(worst, found, read),
        *_furthest(worst, found),
        *_switches(found.footprint.plan, read),
    )


TOTALS = (
    ("requested", "requested_bytes"),
    ("allocated", "allocated_bytes"),
    ("reserved by PyTorch", "reserved_bytes"),
    ("on the GPU", "device_bytes"),
)
"""The four totals as a sentence names them."""


def _totals(worst: Phase, found: DryRun, read: Read) -> Iterator[str]:
    """The worst phase by each total, closed form beside dry run; nothing where only one has it."""
    closed = next((one for one in found.estimate.phases if one.name == worst.name), None)
    if closed is None:
        return
    parts = []
    for name, total in TOTALS:
        was, now = getattr(closed, total), getattr(worst, total)
        off = was / max(now, 1) - 1
        beside = (
            "closed form the same" if abs(off) <= SMALL else f"closed form {read(was)}, {off:+.1%}"
        )
        parts.append(f"{name} {read(now)} ({beside})")
    yield f"In {worst.name}: {', '.join(parts)}."


def _made_of(worst: Phase, found: DryRun, read: Read) -> str:
    sums: dict[tuple[str, str], int] = {}
    for term in worst.terms:
        if not term.host and term.category not in OUTSIDE:
            who = term.role, term.category
            sums[who] = sums.get(who, 0) + int(term.bytes)
    ranked = sorted(sums.items(), key=lambda pair: -pair[1])[:2]
    whole = max(worst.reserved_bytes, 1)
    parts = [
        f"{size / whole:.0%} {'' if place else 'of it is '}{_whose(*who)}"
        for place, (who, size) in enumerate(ranked)
    ]
    plan: Plan = found.footprint.plan
    method = method_of(plan)
    unrolled = method.generates and not method.engines
    over = f" over {plan.response_tokens} unrolled steps" if unrolled else ""
    return (
        f"The step that ran peaks in {worst.name}, where PyTorch holds "
        f"{read(worst.reserved_bytes)}{over}: {' and '.join(parts)}."
    )


def _on_the_card(found: DryRun) -> Iterator[str]:
    """What the allocator had to do because the card is no larger."""
    times = found.alloc_retries
    if found.out_of_memory:
        yield (
            "The step runs out of memory even after PyTorch frees its cache; the figures assume a "
            "GPU of unlimited memory."
        )
    elif times:
        yield (
            f"PyTorch frees its cache {read_count(times, 'time')} a step to stay within the card "
            "(num_alloc_retries), and each time waits for the GPU."
        )


def _whose(role: str, category: str) -> str:
    kind = KINDS.get(category, category)
    return kind if role in ("", "process") else f"the {role}'s {kind}"


def _largest(worst: Phase, found: DryRun, read: Read) -> str:
    data = next(phase for phase in found.phases if phase["phase"] == worst.name)
    if not data["alive"]:
        return "No tensor is alive at the peak."
    top = data["alive"][0]
    shape = " × ".join(f"{size:,}" for size in top["shape"]) or "one value"
    where = f" in {top['module']}" if top["module"] and top["category"] != "optimizer" else ""
    many = top["count"] > 1
    return (
        f"The largest tensor{'s' if many else ''} at the peak: "
        f"{str(top['count']) + ' of ' if many else ''}{shape} in {top['dtype']} "
        f"({_whose(top['role'], top['category'])}, made by {top['op']}{where}), "
        f"{read(top['bytes'] * top['count'])}{' together' if many else ''}."
    )


def _furthest(worst: Phase, found: DryRun) -> Iterator[str]:
    """How far apart the requested bytes are elsewhere: where they are furthest."""
    off = [one for one in found.comparisons if one.difference is not None]
    furthest = max(off, key=lambda one: abs(one.difference or 0.0), default=None)
    if furthest is None or furthest.difference is None:
        return
    if abs(furthest.difference) <= SMALL:
        yield "Requested memory agrees with the estimate within 0.1% in every phase that ran."
    elif furthest.phase != worst.name:
        yield (
            f"Requested memory differs most in {furthest.phase}: the estimate has "
            f"{abs(furthest.difference):.1%} {'more' if furthest.difference > 0 else 'less'} "
            "than the dry run."
        )


def _switches(plan: Plan, read: Read) -> Iterator[str]:
    """What turning one thing on or off would change, by the closed form."""
    now = estimate(plan).device_bytes
    for on_name, off_name, on, off in (*method_of(plan).switches, *SWITCHES):
        is_on = all(getattr(plan, field) == value for field, value in on.items())
        changes = off if is_on else on
        other, _ = try_plan({**plan.model_dump(), **changes})
        if other is None or other == plan or names_anew(plan, changes):
            continue
        change = estimate(other).device_bytes - now
        if abs(change) < 0.002 * now:
            continue
        name = off_name if is_on else on_name
        verb = "would add" if change > 0 else "would save"
        yield f"{name[0].upper()}{name[1:]} {verb} {read(abs(change))} (closed form)."
