"""Plans of which none should be slower than the one before, and those that are.

With a benchmark's shares nothing but the changed thing decides (tests/timings), but for what CUDA
graphs and token budgets do to a batch (:func:`beyond_shares`). With measured kernels, larger
products can be slower than smaller ones, too: ``python -m accuracy.timings.chains`` looks at cards
and models and writes what it finds to ``accuracy/measured/timing-exceptions.json``, which the page
shows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from planner.catalog.gpu_catalog import Gpu
from planner.estimate import phase_plans
from planner.phases.phase import Decoding
from planner.phases.scene import scene_of
from planner.plan import Plan, try_plan
from planner.plan.facts import facts_of
from planner.plan.lengths import lengths_of
from planner.speeds import Speeds
from planner.timing import rollout
from planner.timing.engine_step import padded
from planner.timing.phase import phase_seconds

FILE = Path(__file__).parents[1] / "measured" / "timing-exceptions.json"

Fields = Mapping[str, Any]
Chain = list[dict[str, float]]
"""Seconds of plans by kind of phase."""

FASTER = {
    "compute": "bf16_flops_per_second",
    "bandwidth": "bandwidth_bytes_per_second",
    "links": "interconnect_bytes_per_second",
}
SIZES = (1, 2, 4, 8)
SEQUENCES = (1, 16, 256)


def seconds(fields: Fields, speeds: Speeds | None = None, **faster: float) -> dict[str, float]:
    """Seconds by kind of phase; ``faster`` has factors on the card's rates by their field."""
    plan = Plan(**fields)
    facts = facts_of(plan, speeds)
    rates = {key: getattr(facts.gpu, key) for key in faster}
    if faster:
        card: Gpu = replace(
            facts.gpu, **{key: rate and rate * faster[key] for key, rate in rates.items()}
        )
        facts = replace(facts, gpu=card)
    scene = scene_of(plan, facts)
    found: dict[str, float] = {}
    for phase in phase_plans(scene):
        took = phase_seconds(scene, phase) if phase.per_step else None
        if took is not None:
            kind = str(phase.kind.published)
            found[kind] = found.get(kind, 0.0) + float(took)
    return found


def faster(fields: Fields, what: str, speeds: Speeds | None = None) -> Chain:
    """The plan on its card and on three with more of one rate."""
    return [seconds(fields, speeds, **{FASTER[what]: times}) for times in (1.0, 1.01, 1.3, 4.0)]


def larger(fields: Fields, field: str, speeds: Speeds | None = None) -> Chain:
    """The plan with larger and larger micro-batches."""
    return [seconds({**fields, field: size}, speeds) for size in SIZES]


def captured(fields: Fields, sequences: int, speeds: Speeds | None = None) -> Chain:
    """The plan's engine eager, then with graphs."""
    base = {**fields, "max_num_seqs": sequences}
    return [seconds({**base, "enforce_eager": eager}, speeds) for eager in (True, False)]


def shorter(fields: Fields, sequences: int, speeds: Speeds | None = None) -> Chain:
    """The plan with its longest responses cut shorter and shorter."""
    base = {**fields, "max_num_seqs": sequences}
    return [seconds({**base, "length_distribution": tail}, speeds) for tail in TAILS]


def beyond_shares(before: Fields, after: Fields) -> set[str]:
    """Why a plan may be slower than the one before it whatever its kernels take; mostly nothing."""
    (plan, was), (then, now) = _decoded(before), _decoded(after)
    found = set()
    if was and now:
        if now.cache < was.cache:
            found.add("cache: graphs take memory that the cache then lacks")
        if now.rows > was.rows or now.rows > now.at_once:
            found.add("captured: a step is padded to the next captured size")
    even = not then.length_distribution or len(lengths_of(then).bins) == 1
    if even and plan.length_distribution and then.max_tokens_per_micro_batch:
        found.add("budget: rows of one length fill a token budget by whole rows")
    return found


class Decoded(NamedTuple):
    """An engine's batch."""

    cache: float
    at_once: float
    rows: float
    """That a step computes: the captured size."""


def _decoded(fields: Fields) -> tuple[Plan, Decoded | None]:
    plan = Plan(**fields)
    scene = scene_of(plan, facts_of(plan))
    for row in (row for phase in phase_plans(scene) for row in phase.work):
        if isinstance(row, Decoding):
            group = min(row.group, row.sequences)
            each = rollout.held(row.lengths, row.prompt_tokens, group).mean
            at_once = rollout.running(row.sequences, row.max_num_seqs, row.cache_tokens, each)
            graphs = row.engine == "vllm" and not row.eager
            cache = math.inf if row.cache_tokens is None else float(row.cache_tokens)
            return plan, Decoded(cache, at_once, padded(at_once) if graphs else at_once)
    return plan, None


def slower(chain: Chain) -> dict[str, float]:
    """Phases that some step of the chain makes slower, and by how much at most."""
    found: dict[str, float] = {}
    for before, after in pairwise(chain):
        for kind, took in before.items():
            if after[kind] > took * (1 + 1e-9):
                found[kind] = max(found.get(kind, 0.0), after[kind] / took - 1)
    return found


def _hist(*counts: tuple[int, int]) -> str:
    return "1~hist_" + "_".join(f"{tokens}~{count}" for tokens, count in counts)


TAILS = (
    _hist((128, 4), (512, 8), (1024, 3), (2048, 1)),
    _hist((128, 4), (512, 8), (1024, 3), (1900, 1)),
    _hist((128, 4), (512, 8), (1024, 4)),
    _hist((128, 4), (512, 12)),
    _hist((128, 16)),
)
"""Each is the one before with its longest responses cut shorter."""

RUN: Fields = {
    "method": "grpo",
    "model": "Qwen/Qwen2.5-1.5B",
    "gpus": 8,
    "prompts_per_step": 64,
    "responses_per_prompt": 8,
    "prompt_tokens": 256,
    "response_tokens": 2048,
    "batch_shape": "packed",
    "attention": "flash",
}
"""A run whose rows have no padding."""

GPUS = ("a100-80gb", "h100-80gb", "b200-180gb", "h20-96gb", "rtx-4090", "l40s", "a100-40gb-pcie")
MODELS = ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B")


class Found(NamedTuple):
    """A chain that measured kernels or memory make slower somewhere."""

    change: str
    gpu: str
    model: str
    phase: str
    slower: float


def exceptions() -> Iterator[Found]:
    """Every exception over cards and models."""
    for gpu in GPUS:
        for name in MODELS:
            fields = {**RUN, "gpu": gpu, "model": name}
            plan, _ = try_plan(fields)
            if plan is None:
                continue
            chains = {
                **{f"more {what}": faster(fields, what) for what in FASTER},
                "larger micro-batch": larger(fields, "micro_batch_size"),
                "larger scoring batch": larger(fields, "logprob_micro_batch_size"),
            }
            for sequences in SEQUENCES:
                at_once = f", {sequences} sequences"
                chains[f"graphs{at_once}"] = captured(fields, sequences)
                chains[f"shorter tail{at_once}"] = shorter(fields, sequences)
            for change, chain in chains.items():
                for phase, by in slower(chain).items():
                    yield Found(change, gpu, name, phase, round(by, 5))


def text() -> str:
    """The exceptions that were written, as a table."""
    found = [Found(*one) for one in json.loads(FILE.read_text("utf-8"))]
    shown = [one for one in found if one.slower >= SHOWN]
    lines = [
        f"{len(GPUS)} cards × {len(MODELS)} models, a run without padding: more compute, bandwidth "
        "or link, larger micro-batches, graphs and shorter tails make something slower in these "
        "cases, and by less than a thousandth in "
        f"{len(found) - len(shown)} more. Larger batches: the measured GEMM at the larger size "
        "reaches a smaller share of the peak. CUDA graphs: their memory reduces the KV cache.",
        "",
        DRAWN,
        "",
        "| change | card | model | phase | slower by |",
        "|---|---|---|---|---:|",
    ]
    return "\n".join(
        lines
        + [
            f"| {one.change} | {one.gpu} | {one.model} | {one.phase} | {one.slower:.1%} |"
            for one in shown
        ]
    )


SHOWN = 1e-3
DRAWN = (
    "Of 1,984 plans drawn at random (seven models and cards, all methods and frameworks, rows "
    "without padding; 2026-11-26) every exception is of one of these kinds. More compute, "
    "bandwidth or link: none. Larger micro-batches: 350 of 2,898 comparisons, at most 17 % "
    "slower, all because GEMMs or experts reach a smaller share of the peak at the larger size; "
    "with fixed shares there are 0 of 2,079. CUDA graphs: 73 of 2,848 comparisons. In 45 the "
    "graphs' memory reduces the KV cache (nine times as slow where graphs take nearly all of the "
    "cache). In 28 a step is at most 25 % slower because it is padded to the next captured size, "
    "and a mixture's experts also process the padding rows. Shorter tails: 2 of 660 comparisons, "
    "1.4 % slower (7.6 % with fixed shares), where more responses fit at once and the captured "
    "size doubles. One more kind, in 1 of 1,435 plans with fixed shares: under a token budget, "
    "rows of one length are packed as whole rows, and rows of other lengths by their sum as verl "
    "does; a tail cut to one length was 36 % slower."
)

if __name__ == "__main__":
    FILE.write_text(json.dumps(list(exceptions()), indent=0) + "\n", "utf-8")
    print(text())
