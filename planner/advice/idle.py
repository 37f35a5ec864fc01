"""What people try and what does nothing here: the edit is made, and the peak stays where it was.

Both ways: what a plan has not, and what it has on. Why is read off the phase that decides: which
phase the edit does lower, what fills the one that peaks, and whether what was offloaded is back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from planner.advice.ablation import switches
from planner.advice.edits import Edit, without_use
from planner.advice.outcome import SAME, Level, Outcome
from planner.advice.suggestion import Read, Suggestion, Trying
from planner.plan import Plan, references
from planner.plan.fields import ENGINE_FIELDS
from planner.units import read_bytes

BETWEEN = "-between-phases"


class Idle(NamedTuple):
    """An edit that leaves the peak where it is, and why; ``on`` where the plan has it already."""

    title: str
    reason: str
    on: bool
    suggestion: Suggestion


def idle(trying: Trying, read: Read = read_bytes) -> tuple[Idle, ...]:
    """What does nothing to the peak of the plan at hand, by the judgement of every suggestion."""
    plan, found = trying.before.plan, []
    without = without_use(plan)
    for title, changes, on in {str(each[1]): each for each in _tried(plan)}.values():
        if without >= changes.keys():
            continue  # pages do not show such a field
        one = trying.edited(Edit(title=title, kind="memory", changes=changes))
        if one is None or one.unblocks or one.peak != "same":
            continue
        if one.after.blockers and one.after.blockers != one.before.blockers:
            continue  # not enough, and not nothing
        why = one.after.blockers[0].partition(";")[0] if one.after.blockers else ""
        found.append(Idle(title, why or _reason(one, on, read), on, one))
    return tuple(found)


def together(found: Sequence[Idle]) -> tuple[tuple[str, str], ...]:
    """What has one reason in one line: the titles, and that reason."""
    lines: dict[tuple[str, bool], list[str]] = {}
    for one in found:
        lines.setdefault((one.reason, one.on), []).append(one.title)
    return tuple(
        (", ".join(titles), f"on in this plan; {reason}" if on else reason)
        for (reason, on), titles in lines.items()
    )


def _tried(plan: Plan) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Every optimization the other way round, whether it is on, and what else people advise."""
    for one in switches(plan):
        small = one.name.partition(" ")[0][1:].islower()  # "Gradient checkpointing", and not "LoRA"
        title = one.name[0].lower() + one.name[1:] if small else one.name
        yield title, dict(one.off if one.own else one.on), one.own
    if plan.finetuning == "full":
        base = {"reference": "adapter-disabled"} if references.compares(plan) else {}
        yield "LoRA", {"finetuning": "lora", **base}, False
    elif plan.lora_rank > 1:
        yield "a smaller LoRA rank", {"lora_rank": max(plan.lora_rank // 2, 1)}, False
    for title, field, value in POPULAR:
        if getattr(plan, field) != value:
            yield title, {field: value}, False
    if plan.micro_batch_size > 1:
        yield "a smaller micro-batch", {"micro_batch_size": 1}, False


POPULAR: tuple[tuple[str, str, Any], ...] = (
    ("optimizer offload between phases", "offload", f"optimizer{BETWEEN}"),
    ("offload of weights and optimizer between phases", "offload", f"all{BETWEEN}"),
    ("fused linear cross-entropy", "logits", "fused"),
    ("flash attention", "attention", "flash"),
    ("an fp8 KV cache", "kv_cache_dtype", "fp8"),
    ("fewer sequences at once", "max_num_seqs", 64),
)
"""Title, field and value of what threads about running out of memory advise besides."""


FILLED = "vLLM fills what it reserves with KV cache: more sequences, not less memory"


def _reason(one: Suggestion, on: bool, read: Read) -> str:
    before, after = one.before, one.after
    if all(old.own_bytes == new.own_bytes for old, new in _pairs(before, after)):
        filled = any(field in ENGINE_FIELDS for field in one.changes)
        return FILLED if filled else "every phase keeps its peak to the byte"
    peak = before.level(before.worst)
    assert peak is not None
    said = [_why(one, peak, after.level(peak.name), read)]
    sign = -1 if on else 1
    most, name = max(
        (sign * (old.own_bytes - new.own_bytes), old.name)
        for old, new in _pairs(before, after)
        if old.name != peak.name
    )
    if most > SAME * before.device_bytes:
        said.append(f"it saves {read(most)} in {name}, which does not set the peak")
    return "; ".join(said)


def _why(one: Suggestion, peak: Level, after: Level | None, read: Read) -> str:
    """What fills the phase that decides, and stays."""
    left = {} if after is None else after.categories
    offload = str(one.changes.get("offload", ""))
    held = peak.categories.get("optimizer", 0)
    if offload.endswith(BETWEEN) and held and left.get("optimizer", 0) >= held:
        return f"it is back on the GPU in {peak.name}, which sets the peak"
    stays = {
        name: size
        for name, size in peak.categories.items()
        if abs(size - left.get(name, 0)) <= SAME * size
    }
    if not stays:
        return f"{peak.name} needs as much either way"
    name = max(stays, key=lambda each: stays[each])
    return f"{peak.name} sets the peak, and {read(stays[name])} of {OF.get(name, name)} stay there"


OF = {"engine": "vLLM", "device": "CUDA context and libraries", "kv-cache": "KV cache"}


def _pairs(before: Outcome, after: Outcome) -> list[tuple[Level, Level]]:
    """The phases that both have."""
    new = {(one.name, one.rank): one for one in after.levels}
    keyed = (((one.name, one.rank), one) for one in before.levels)
    return [(one, new[key]) for key, one in keyed if key in new]
