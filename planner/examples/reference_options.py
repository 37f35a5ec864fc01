"""Where reference log-probs can come from, side by side: document 004's options and the plan's.

Every row is an estimate of the same plan with another ``reference``. The document's option 2,
"cache intermediate activations", is no value of a plan: its rows add what it would keep to the plan
whose reference is the policy with its adapters disabled, as the document claims it and as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from planner.cost import NOTICED_SECONDS, UNNOTICED
from planner.estimate import estimate
from planner.examples import doc_004
from planner.examples.claim import GB, Working
from planner.footprint import Footprint
from planner.formulas.activations.layers import layer_saved
from planner.formulas.activations.model import model_saved
from planner.phases.scene import scene_of
from planner.plan import Plan, try_plan
from planner.plan.facts import facts_of
from planner.units import read_bytes, read_seconds
from planner.values.step_phases import POLICY_FORWARD, REFERENCE_LOG_PROBS, StepPhase

Kind = Literal["planned", "as claimed", "as it is"]

OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "copy": "Copy",
        "offloaded": "Offloaded copy",
        "adapter-disabled": "Adapters disabled",
        "cached-logprobs": "Cached log-probs",
        "cached-activations": "Cached hidden states",
        "dual-output": "Dual output",
        "frozen-adapter": "Frozen second adapter",
    }
)
"""Values of ``reference`` in the order of the rows, and what people call them."""

GPU, OTHERS, HOST = "GPU peak", "Other GPUs: the reference's weights", "Host RAM"
DISK, BEFORE, STEP = "Disk", "Before training", "Each step: what the reference adds"
MEASURES = (GPU, OTHERS, HOST, DISK, BEFORE, STEP)
"""What the rows compare; the reference's part of a step counts wherever it runs."""
BASIS = "adapter-disabled"
"""What the document's option 2 is added to."""
CLAIMED_BYTES = 2.4 * GB
"""Document 004, option 2: "Memory cost: ~2.4 GB", for its two rows of 512 tokens."""
WHY: Mapping[str, str] = MappingProxyType(
    {
        "planned": "this plan with the reference so",
        "as claimed": "adapters disabled, and the 2.4 GB that the document names for a cached pass",
        "as it is": "adapters disabled, and all that a pass makes; the pass itself is not spared",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """One bar: an option by one measure."""

    measure: str
    """One of ``MEASURES``."""
    option: str
    kind: Kind
    value: float | None
    """Bytes or seconds; None where nobody knows it, or the document says nothing."""
    text: str
    """The value as a person reads it."""
    why: str


def reference_options(
    plan: Plan, read: Callable[[float], str] = read_bytes
) -> tuple[OptionRow, ...]:
    """Rows for :func:`planner.charts.options.option_bars`, measure by measure.

    Args:
        plan: any plan whose loss compares with a reference, such as the preset
            ``doc-004-activations@1``; its own ``reference`` does not matter. Options that it
            refuses are left out. With another number of rows or tokens than the document's the
            row "as claimed" is left out, since it claims nothing there.
        read: bytes as the reader wants them.
    """
    found: dict[str, Footprint] = {}
    for value in OPTIONS:
        other, _ = try_plan({**plan.model_dump(), "reference": value})
        if other is not None:
            found[value] = estimate(other)
    return tuple(row for measure in MEASURES for row in _rows(measure, found, read))


def _rows(
    measure: str, found: Mapping[str, Footprint], read: Callable[[float], str]
) -> Iterator[OptionRow]:
    bare = _least_forward(found)
    for value, footprint in found.items():
        yield _row(measure, OPTIONS[value], "planned", _value(measure, footprint, bare), read)
    basis = found.get(BASIS)
    if basis is None:
        return
    known = _value(measure, basis, bare)
    gpu = measure == GPU and known is not None
    if _is_the_documents(basis.plan):
        claimed = known + CLAIMED_BYTES if gpu and known is not None else None
        yield _row(measure, "Option 2 as claimed", "as claimed", claimed, read)
    truth = known + kept_of_a_pass_bytes(basis.plan) if gpu and known is not None else known
    yield _row(measure, "Option 2 as it is", "as it is", truth, read)


def _row(
    measure: str, option: str, kind: Kind, value: float | None, read: Callable[[float], str]
) -> OptionRow:
    text = "not known" if kind != "as claimed" else "not said"
    if value is not None:
        timed = measure in (BEFORE, STEP)
        text = "none" if not value else _seconds_text(value) if timed else read(value)
    return OptionRow(
        measure=measure, option=option, kind=kind, value=value, text=text, why=WHY[kind]
    )


def _seconds_text(seconds: float) -> str:
    return UNNOTICED if seconds < NOTICED_SECONDS else read_seconds(seconds)


def _value(measure: str, footprint: Footprint, bare: float | None) -> float | None:
    cache = footprint.reference_cache
    if measure == GPU:
        return footprint.device_bytes
    if measure == HOST:
        return footprint.host_bytes
    if measure == STEP:
        forward = _seconds(footprint, POLICY_FORWARD)
        own = _seconds(footprint, REFERENCE_LOG_PROBS)
        if bare is None or forward is None or own is None:
            return None
        return forward - bare + own
    if measure == OTHERS:
        return cache.weight_bytes if cache and cache.each_step else 0
    if cache is None or cache.each_step:
        return 0
    return cache.disk_bytes if measure == DISK else cache.seconds


def _seconds(footprint: Footprint, kind: StepPhase) -> float | None:
    """Of a phase; 0 where the plan has none."""
    return next((phase.seconds for phase in footprint.phases if phase.kind == kind), 0.0)


def _least_forward(found: Mapping[str, Footprint]) -> float | None:
    """The policy's forward alone: that of the options whose loss makes nothing in it."""
    seconds = [_seconds(footprint, POLICY_FORWARD) for footprint in found.values()]
    known = [value for value in seconds if value is not None]
    return min(known) if known else None


def _is_the_documents(plan: Plan) -> bool:
    rows = plan.prompts_per_step * plan.responses_per_prompt
    tokens = plan.prompt_tokens + plan.response_tokens
    return (rows, tokens) == (doc_004.ROWS, doc_004.TOKENS)


def kept_of_a_pass_bytes(plan: Plan) -> int:
    """Every intermediate activation of one GPU's rows of a step, and their logits in bf16.

    What autograd would keep of the model without adapters if all of it trained; the logits are
    the document's tensor ``[rows, tokens, vocabulary]``.
    """
    scene = scene_of(plan, facts_of(plan))
    policy, rows = scene.policy, scene.q.sequences_per_gpu_step
    workload = replace(
        scene.training_workload(policy), sequences=rows, trains="all", lora_rank=0, lora_targets=()
    )
    layers = layer_saved(policy.arch, workload, role="reference", layers=policy.arch.layers)
    around = model_saved(policy.arch, workload, role="reference")
    tokens, vocabulary = plan.prompt_tokens + plan.response_tokens, policy.arch.vocab
    logits = Working(doc_004.LOGITS, {"rows": rows, "tokens": tokens, "vocabulary": vocabulary})
    return sum(int(term.bytes) for term in (*layers, *around)) + int(logits.value)
