"""Use the free memory: what the memory left over buys in time, or in money.

Numbers that a sweep can vary as arrays (micro-batches, sequences at once) are judged all together
by a sweep; only the best of them is estimated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from planner.advice import share
from planner.advice.edits import Edit, Kind
from planner.advice.suggestion import Suggestion, Trying, merged
from planner.plan import Plan, try_plan
from planner.sweeps.grid import FOLLOWERS
from planner.sweeps.table import rows
from planner.units import read_count

FASTER: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "Turn off gradient checkpointing",
        {"gradient_checkpointing": "none", "activation_offload": False},
    ),
    ("Keep checkpointed activations on the GPU", {"activation_offload": False}),
    ("Keep weights and optimizer on the GPU", {"offload": "none"}),
    ("Keep the reference on the GPU", {"reference": "copy"}),
    ("Keep gathered weights until the backward", {"reshard_after_forward": False}),
    ("Use CUDA graphs in the engine", {"enforce_eager": False}),
    ("Let the engine schedule its next step beside the card", {"async_scheduling": True}),
    ("Use flash attention", {"attention": "flash"}),
    ("Use FlashAttention-3", {"attention": "flash_attention_3"}),
    ("Use Liger kernels", {"liger": True}),
    ("Use fused linear cross-entropy", {"logits": "fused"}),
    ("Compute logits for responses only", {"logits": "response"}),
    ("Let the engine stay awake", {"vllm_sleep_level": 0}),
    ("Let the engine keep its weights in host RAM asleep (level 1)", {"vllm_sleep_level": 1}),
    ("Keep what training cached between phases", {"empty_cache": "never"}),
)
"""What may be faster where there is room for it."""

DOUBLED = {
    "micro_batch_size": "Raise the micro-batch to {:,}",
    "logprob_micro_batch_size": "Raise the log-prob micro-batch to {:,}",
    "max_tokens_per_micro_batch": "Raise the token budget to {:,}",
    "max_num_seqs": "Let the engine run {:,} sequences at once",
    "max_num_batched_tokens": "Prefill up to {:,} tokens at once",
}
"""Sizes that may be larger where there is room for it."""
OF_ENGINE = ("max_num_seqs", "max_num_batched_tokens")
TIMES = (2, 4, 8, 16)
MOST_SEQUENCES = 1024
"""vLLM's largest default of sequences at once."""


def faster(trying: Trying) -> tuple[Suggestion, ...]:
    """Single changes with which the plan still fits and a step is shorter, the best first.

    Two with the same effect stand once: an engine's share and spread are one change.
    """
    found = [
        *share.choices(trying),
        *(trying.edited(edit) for edit in _edits(trying.before.plan)),
    ]
    better = [one for one in found if one is not None and _better(one)]
    return tuple(sorted(better, key=_seconds))


def beyond(trying: Trying) -> tuple[Suggestion, ...]:
    """Single changes with which a step would be shorter and the plan does not fit any more."""
    plan = trying.before.plan
    edits = [
        *(Edit(title=title, kind="memory", changes=changes) for title, changes in FASTER),
        *(
            _sized(field, getattr(plan, field) * times)
            for field in DOUBLED
            for times in TIMES[:2]
            if getattr(plan, field)
        ),
    ]
    found = (trying.edited(edit) for edit in edits)
    return tuple(
        one
        for one in found
        if one is not None
        and not (one.fits or one.after.blockers)
        and one.seconds.sign == "less"
    )


def _sized(field: str, value: int) -> Edit:
    kind: Kind = "engine" if field in OF_ENGINE else "memory"
    return Edit(title=DOUBLED[field].format(value), kind=kind, changes={field: value})


def _better(one: Suggestion) -> bool:
    return one.fits and one.seconds.sign == "less"


def _seconds(one: Suggestion) -> float:
    return one.step_seconds or 0.0


def _edits(plan: Plan) -> Iterator[Edit]:
    for title, changes in FASTER:
        yield Edit(title=title, kind="memory", changes=changes)
    yield from _larger(plan)


def _larger(plan: Plan) -> Iterator[Edit]:
    """Of each size the one that is fastest of those that fit, alone."""
    for field in DOUBLED:
        value = getattr(plan, field)
        sizes = [value * times for times in TIMES] if value else []
        if field == "max_num_seqs":
            sizes = [size for size in sizes if size <= MOST_SEQUENCES]
        best = fastest(plan, {field: sizes, **_alone(plan, field)}) if sizes else None
        if best is not None:
            yield _sized(field, best[field])


def _alone(plan: Plan, field: str) -> dict[str, list[int]]:
    """What would move along with the field in a sweep, kept where it is."""
    return {other: [getattr(plan, other)] for other, led in FOLLOWERS.items() if led == field}


def fastest(plan: Plan, over: dict[str, Sequence[int]]) -> dict[str, int] | None:
    """The values of these axes with the shortest step of all that fit; None where none does."""
    [(_, columns)] = rows(plan, [{}], over)
    able = (columns["valid"] & (columns["verdict"].codes == 0))[0]
    every = zip(columns["step_seconds"][0], able, product(*over.values()), strict=True)
    found = [(float(seconds), values) for seconds, fits, values in every if fits]
    return dict(zip(over, min(found)[1], strict=True)) if found else None


def used(trying: Trying, made: Sequence[Suggestion]) -> Suggestion | None:
    """The single changes put together, as far as the plan still fits and each makes it faster."""
    best: Suggestion | None = None
    for one in made:
        if best is not None and set(merged(best.edits)) & set(one.changes):
            continue
        edits = (*(() if best is None else best.edits), *one.edits)
        found = trying.edited(*edits)
        if found is None or not _better(found):
            continue
        if best is None or _seconds(found) < _seconds(best):
            best = found
    return best


def cheaper(trying: Trying) -> tuple[Suggestion, ...]:
    """Fewer GPUs of the same kind on which the plan still fits for less money, cheapest first."""
    plan, found = trying.before.plan, []
    for gpus in (plan.gpus // 2, plan.gpus // 4, plan.gpus // 8):
        if gpus and plan.gpus % gpus == 0:
            title = f"Use {read_count(gpus, 'GPU')}"
            found.append(trying.edited(Edit(title=title, kind="GPUs", changes=_on(plan, gpus))))
    able = [one for one in found if one is not None and one.fits and one.usd.sign == "less"]
    return tuple(sorted(able, key=lambda one: one.after.usd_run or 0.0))


def _on(plan: Plan, gpus: int) -> dict[str, Any]:
    """The changes that put a plan on so many GPUs, its engine's in proportion."""
    changes: dict[str, Any] = {"gpus": gpus}
    if plan.rollout_gpus:
        changes["rollout_gpus"] = plan.rollout_gpus * gpus // plan.gpus
    return changes if try_plan({**plan.model_dump(), **changes})[0] else {"gpus": gpus}
