"""Sampling plan → what it needs: memory through its stages, disk, seconds, and the mode to choose.

No torch, no files, milliseconds. Numbers of a calibrated run take the place of assumptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from planner.catalog import gpu
from planner.formulas import sampling
from planner.numeric import Num, maximum
from planner.sampling.derived import width_of
from planner.sampling.durations import Duration, durations_of
from planner.sampling.measured import COMPRESSED_SHARES, NOTHING, Measured
from planner.sampling.model import embedder_of
from planner.sampling.plan import SamplingPlan, try_sampling_plan
from planner.sampling.stages import STAGES, Held, stages_of
from planner.term import Term
from planner.totals.limits import MARGIN
from planner.units import read_gib, read_seconds
from planner.values.dtypes import BYTES

Word = Literal["fits", "tight", "out of memory", "unknown"]
MODES = ("online", "offline", "streaming")
WAIT_SECONDS = 600
"""A start of training that waits longer than this is better paid once, offline. Our choice."""
LARGEST = 10**9
"""Prompts that a plan can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One stage: what it holds at its peak, and how long it takes where that is known."""

    name: str
    label: str
    terms: tuple[Term, ...]
    host_bytes: int
    gpu_bytes: int | None
    """None where the model that it holds is not known."""
    duration: Duration | None

    @property
    def seconds(self) -> float | None:
        """Seconds; None where nobody knows them."""
        return None if self.duration is None else float(self.duration.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The mode to choose, and why; None where none fits or nobody said what there is."""

    mode: str | None
    plan: SamplingPlan | None
    reason: str


class Disk(NamedTuple):
    """All embeddings in fp32, in fp16, and in the plan's dtype compressed; neighbours and weights.

    Nothing compresses what a run writes: it maps its chunks, and reads rows of them.
    """

    raw: Term
    half: Term
    compressed: Term
    result: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingEstimate:
    """The answer to a sampling plan. What is not known is None, never 0."""

    plan: SamplingPlan
    dimensions: int
    stages: tuple[Stage, ...]
    worst: Stage
    """The stage with the most host RAM."""
    gpu_bytes: int | None
    disk: Disk
    disk_bytes: int
    """What the plan's mode and dtype write."""
    word: Word
    sentence: str
    online_prompts: int | None
    """The most prompts that fit online; None where host RAM is unknown, 0 where none do."""
    advice: Advice
    warnings: tuple[str, ...]

    @property
    def host_bytes(self) -> int:
        """Anonymous host RAM at the worst stage."""
        return self.worst.host_bytes

    @property
    def seconds(self) -> float | None:
        """Of embedding and search; None where one of them is not known."""
        computing = [one for one in self.stages if one.name in COMPUTING]
        known = [one.seconds for one in computing if one.seconds is not None]
        return sum(known) if len(known) == len(computing) else None


COMPUTING = ("embed", "read", "train", "assign", "search")
"""Stages whose time is predicted; the others load and write little."""


def estimate(plan: SamplingPlan, known: Measured = NOTHING) -> SamplingEstimate:
    """What a sampling plan needs; ``known`` is what a run has measured."""
    held = stages_of(plan, known)
    durations = durations_of(plan, known)
    gives_gpu = bool(plan.model)
    stages = tuple(_stage(one, durations, gives_gpu) for one in held)
    worst = max(stages, key=lambda one: one.host_bytes)
    gpu_bytes = max(one.gpu_bytes or 0 for one in stages) if gives_gpu else None
    disk, disk_bytes = disk_of(plan, known)
    word, sentence = _verdict(plan, worst, gpu_bytes, disk_bytes)
    return SamplingEstimate(
        plan=plan,
        dimensions=width_of(plan),
        stages=stages,
        worst=worst,
        gpu_bytes=gpu_bytes,
        disk=disk,
        disk_bytes=disk_bytes,
        word=word,
        sentence=sentence,
        online_prompts=online_prompts(plan, known),
        advice=advice(plan, known),
        warnings=tuple(_warnings(plan, durations)),
    )


def _stage(held: Held, durations: dict[str, Duration], gives_gpu: bool) -> Stage:
    return Stage(
        name=held.name,
        label=STAGES[held.name],
        terms=tuple(term for term in held.terms if term.bytes),
        host_bytes=int(held.host_bytes),
        gpu_bytes=int(held.gpu_bytes) if gives_gpu else None,
        duration=durations.get(held.name),
    )


def disk_of(plan: SamplingPlan, known: Measured = NOTHING) -> tuple[Disk, int]:
    """What embeddings and result take on a disk, and what this plan writes there."""
    sizes: dict[str, Any] = {"prompts": plan.prompts, "dimensions": width_of(plan)}
    raw, half = sampling.RAW_DISK("disk", **sizes), sampling.HALF_DISK("disk", **sizes)
    share = known.compressed_share or COMPRESSED_SHARES[plan.dtype]
    compressed = sampling.COMPRESSED_DISK(
        "disk", value_bytes=BYTES[plan.dtype], kept_thousandths=round(1000 * share), **sizes
    )
    result = sampling.RESULT_DISK("disk", prompts=plan.prompts, neighbours=plan.neighbours)
    found = Disk(raw, half, compressed, result)
    if plan.assembly == "concatenate":
        return found, 0
    return found, int((half if plan.dtype == "fp16" else raw).bytes + result.bytes)


def host_bytes_of(plan: SamplingPlan, known: Measured = NOTHING) -> Num:
    """Host RAM at the worst stage; an array where the plan's prompts are one."""
    return maximum(*(one.host_bytes for one in stages_of(plan, known)))


def at(plan: SamplingPlan, **changes: Any) -> Any:
    """The plan's values with others in their place, arrays too; nothing is validated."""
    return SimpleNamespace(**{**plan.model_dump(), **changes})


def online_prompts(plan: SamplingPlan, known: Measured = NOTHING) -> int | None:
    """The most prompts whose host RAM fits online: solved by bisection, memory rises with them."""
    if not plan.host_ram:
        return None
    low, high = 0, LARGEST + 1

    def fits(prompts: int) -> bool:
        return bool(host_bytes_of(at(plan, mode="online", prompts=prompts), known) <= plan.host_ram)

    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def curve(
    plan: SamplingPlan, prompts: npt.NDArray[np.int64], known: Measured = NOTHING
) -> dict[str, npt.NDArray[np.int64]]:
    """Host RAM by mode over numbers of prompts, each in one pass: shape of ``prompts``."""
    found = {}
    for mode in MODES:
        index = "faiss-flat" if mode == "streaming" and plan.index == "faiss-ivf" else ""
        own = plan if mode == plan.mode else other_mode(plan, mode, index)
        if own is not None:
            found[mode] = np.asarray(host_bytes_of(at(own, prompts=prompts), known))
    return found


def other_mode(plan: SamplingPlan, mode: str, index: str = "") -> SamplingPlan | None:
    """The plan in another mode, with what that needs; None where it cannot be."""
    changes: dict[str, Any] = {"mode": mode}
    if mode != "online":
        changes["assembly"] = "in-place"
    if index:
        changes |= {"index": index, "lists": 0, "probes": 0, "training_prompts": 0}
    return try_sampling_plan({**plan.model_dump(), **changes})[0]


def advice(plan: SamplingPlan, known: Measured = NOTHING) -> Advice:
    """The first mode that fits: online unless every start would wait long, offline, streaming.

    Streaming with an IVF index still holds every vector in its lists; where that is too much, an
    exact search that reads chunk against chunk is the last to try.
    """
    if not plan.host_ram:
        return Advice(mode=None, plan=None, reason="Set host_ram to get a recommendation.")
    last = ("streaming", "faiss-flat") if plan.index == "faiss-ivf" else ("streaming", "")
    needs: list[str] = []
    for mode, index in (("online", ""), ("offline", ""), last):
        other = other_mode(plan, mode, index)
        if other is None:
            continue
        size = int(host_bytes_of(other, known))
        if size > MARGIN * plan.host_ram:
            needs.append(f"{mode} needs {read_gib(size)} GiB")
            continue
        seconds = _seconds(other, known)
        if mode == "online" and seconds is not None and seconds > WAIT_SECONDS:
            needs.append(f"online takes {read_seconds(seconds)} at every start")
            continue
        return Advice(mode=mode, plan=other, reason=_reason(other, size, seconds, needs))
    return Advice(
        mode=None,
        plan=None,
        reason=f"No mode fits {read_gib(plan.host_ram)} GiB: {', '.join(needs)}. "
        "Use hidden states instead of logits, fp16, or fewer tokens per prompt.",
    )


def _seconds(plan: SamplingPlan, known: Measured) -> float | None:
    durations = durations_of(plan, known)
    names = [one.name for one in stages_of(plan, known) if one.name in COMPUTING]
    if not all(name in durations for name in names):
        return None
    return float(sum(durations[name].seconds for name in names))


def _reason(plan: SamplingPlan, size: int, seconds: float | None, others: Sequence[str]) -> str:
    room = f"{read_gib(size)} of {read_gib(plan.host_ram)} GiB host RAM"
    time = "" if seconds is None else f", about {read_seconds(seconds)}"
    if plan.mode == "online":
        start = " at each start" if seconds is not None else ""
        return f"{room}{time}{start}; nothing is stored, so nothing gets out of date."
    because = f"{', '.join(others)}; " if others else ""
    what = (
        "computed once and kept on disk"
        if plan.mode == "offline"
        else f"chunk by chunk ({plan.index}), never all embeddings at once,"
    )
    return f"{because}{what} it takes {room}{time}."


def _verdict(
    plan: SamplingPlan, worst: Stage, gpu_bytes: int | None, disk_bytes: int
) -> tuple[Word, str]:
    what = f"{plan.prompts:,} prompts of {width_of(plan):,} values, {plan.mode}"
    peak = f"{read_gib(worst.host_bytes)} GiB host RAM at {worst.label.lower()}"
    if gpu_bytes and plan.device != "cpu":
        card = gpu(plan.device)
        budget = card.budget_bytes
        if budget is not None and gpu_bytes > budget:
            return "out of memory", (
                f"Out of memory on {card.name}: the model needs {read_gib(gpu_bytes)} of "
                f"{read_gib(budget)} GiB"
            )
    if plan.disk and disk_bytes > plan.disk:
        return "out of memory", (
            f"Out of disk: {what} writes {read_gib(disk_bytes)} of {read_gib(plan.disk)} GiB"
        )
    if not plan.host_ram:
        return "unknown", f"{what} needs {peak}; set host_ram to see whether it fits"
    of = f"{read_gib(worst.host_bytes)} of {read_gib(plan.host_ram)} GiB host RAM"
    stage = f"peak: {worst.label.lower()}"
    if worst.host_bytes > plan.host_ram:
        return "out of memory", f"Out of memory: {what}, {of}, {stage}"
    if worst.host_bytes > MARGIN * plan.host_ram:
        return "tight", f"Tight: {what}, {of}, {stage}"
    return "fits", f"Fits: {what}, {of}, {stage}"


def _warnings(plan: SamplingPlan, durations: dict[str, Duration]) -> Sequence[str]:
    found: list[str] = []
    embedder = embedder_of(plan)
    if embedder is None:
        found.append("No embedding model is chosen, so its memory and time are not counted.")
    elif plan.dimensions:
        own = embedder.arch.vocab if plan.embedding == "logits" else embedder.arch.hidden
        if own != plan.dimensions:
            found.append(
                f"Embeddings of {plan.model} have {own:,} values, not {plan.dimensions:,}; set "
                "dimensions to 0 to use the model's number."
            )
    if plan.assembly == "concatenate":
        found.append("As in document 003's code, all embeddings are copied twice.")
    if plan.favour == "common":
        found.append("This plan favours common prompts; density-aware sampling favours rare "
        "prompts.")
    if plan.index == "faiss-ivf":
        found.append("The recall of an IVF index is unknown until a run measures it.")
    if any(one.assumed for one in durations.values()):
        found.append(
            "These times assume typical rates. A run first measures your machine for ten seconds."
        )
    return found
