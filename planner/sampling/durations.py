"""Seconds of the stages that compute; None where no rate is known and none is assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.catalog.efficiencies import typical
from planner.formulas import sampling
from planner.formulas.duration import Rate
from planner.numeric import Num, ceil_div
from planner.sampling.derived import lists_of, part_of, probes_of, training_of, width_of
from planner.sampling.measured import (
    ADDED_BYTES_PER_SECOND,
    ASSUMED,
    CALIBRATED,
    CORE_FLOPS_PER_SECOND,
    READ_BYTES_PER_SECOND,
    Measured,
)
from planner.sampling.model import Embedder, embedder_of
from planner.sampling.plan import SamplingPlan
from planner.values.dtypes import BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """Seconds with what they come from; ``assumed`` where a rate is nobody's of this machine."""

    seconds: Num
    formula: str
    inputs: Mapping[str, Num]
    source: str
    assumed: bool


def durations_of(plan: SamplingPlan, known: Measured) -> dict[str, Duration]:
    """Seconds of embedding and search by stage; a stage that is not there is not known."""
    found: dict[str, Duration] = {}
    embedder = embedder_of(plan)
    # As floats: pairs of prompts and dimensions exceed 64-bit numbers.
    prompts, width = 1.0 * plan.prompts, float(width_of(plan))
    if known.prompt_seconds is not None:
        found["embed"] = _known(
            sampling.EMBED_SECONDS, prompts=prompts, seconds_a_prompt=known.prompt_seconds
        )
    elif embedder is not None:
        forward = _forward(plan, prompts, embedder)
        if forward is not None:
            found["embed"] = forward
    pair = known.pair_seconds or 2 / (plan.cores * CORE_FLOPS_PER_SECOND)
    assumed = known.pair_seconds is None
    rest = {"dimensions": width, "seconds_a_product": pair}
    reading = {"seconds_a_read_byte": known.read_seconds or 1 / READ_BYTES_PER_SECOND}
    read = {"read_bytes": 1.0 * _read_rows(plan) * width * BYTES[plan.dtype], **reading}
    if plan.index != "faiss-ivf":
        if plan.mode == "offline":
            found["read"] = _of(
                sampling.READ_SECONDS, assumed,
                prompts=prompts, dimensions=width, value_bytes=BYTES[plan.dtype], **reading,
            )  # fmt: skip
        found["search"] = _of(sampling.PAIRS_SECONDS, assumed, prompts=prompts, **rest, **read)
        return found
    lists = 1.0 * lists_of(plan)
    found["train"] = _of(
        sampling.KMEANS_SECONDS, assumed, training_prompts=training_of(plan), lists=lists, **rest
    )
    found["assign"] = _of(
        sampling.ASSIGN_SECONDS,
        assumed,
        prompts=prompts,
        lists=lists,
        seconds_an_added_byte=known.add_seconds or 1 / ADDED_BYTES_PER_SECOND,
        value_bytes=BYTES[plan.dtype],
        **reading,
        **rest,
    )
    if known.scan_seconds is not None:
        found["search"] = _of(
            sampling.PROBES_SECONDS,
            assumed,
            prompts=prompts,
            lists=lists,
            probes=probes_of(plan),
            seconds_a_scanned_product=known.scan_seconds,
            **read,
            **rest,
        )
    return found


def _read_rows(plan: SamplingPlan) -> Num:
    """Rows of chunks that a search reads; what is held is not read.

    Each prompt is read once as a query, and streamed all are read for each part of the queries.
    """
    if plan.mode == "online" or (plan.mode == "offline" and plan.index != "faiss-ivf"):
        return 0
    parts = 0 if plan.index == "faiss-ivf" else ceil_div(plan.prompts, part_of(plan))
    return plan.prompts * (1 + parts)


def _of(rate: Rate, assumed: bool, **inputs: Num) -> Duration:
    source = ASSUMED if assumed else CALIBRATED
    return Duration(
        seconds=rate(**inputs),
        formula=rate.expression,
        inputs=inputs,
        source=f"{rate.source}. Rate {source}",
        assumed=assumed,
    )


def _known(rate: Rate, **inputs: Num) -> Duration:
    return _of(rate, False, **inputs)


def _forward(plan: SamplingPlan, prompts: Num, embedder: Embedder) -> Duration | None:
    """A forward's FLOPs at the card's typical share of its peak, or at the cores' assumed rate."""
    if embedder.gpu is None:
        rate, source = plan.cores * CORE_FLOPS_PER_SECOND, f"Rate {ASSUMED}"
        if BYTES[plan.model_dtype] != 4:
            return None
    else:
        peak = embedder.gpu.flops_per_second(plan.model_dtype)
        if peak is None:
            return None
        rate = peak * typical("forward-compute", embedder.gpu)
        source = f"Rate of {embedder.gpu.name}: its dense peak times the share published runs reach"
    formula = sampling.EMBED_FORWARD_SECONDS
    inputs = {
        "prompts": prompts,
        "prompt_tokens": plan.prompt_tokens,
        "flops_a_token": embedder.flops_a_token(),
        "flops_per_second": rate,
    }
    return Duration(
        seconds=formula(**inputs),
        formula=formula.expression,
        inputs=inputs,
        source=f"{formula.source}. {source}",
        assumed=True,
    )
