"""Five hundred plans drawn at random: how often they are tight, and how wide their bounds are.

``python -m accuracy.cases --draw`` draws them anew with the seed below and writes ``drawn.json``
with what the estimate of the commit at hand says of them; docs/cases.md holds today's words
against those. Caution is to be paid for by plans of kinds that nobody measured, not by all.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from planner.estimate import estimate
from planner.footprint import Footprint
from planner.plan import Plan, try_plan
from planner.trial.evidence.stated_error import stated

FILE = Path(__file__).with_name("drawn.json")
SEED = 39
COUNT = 500
SET = 0.5
"""How often a field is set, of those whose default is a choice like others."""

ALWAYS: Mapping[str, Sequence[Any]] = {
    "model": (
        *("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-32B"),
        *("Qwen/Qwen3-4B", "Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B", "google/gemma-3-4b-pt"),
        *("Qwen/Qwen3-30B-A3B", "mistralai/Mixtral-8x7B-v0.1", "openai/gpt-oss-20b"),
    ),
    "method": ("sft", "dpo", "grpo", "grpo", "rloo", "ppo", "intuitor", "grade"),
    "framework": ("plain", "trl", "verl"),
    "gpu": ("h100-80gb", "h200-141gb", "a100-80gb", "a100-40gb", "rtx-4090", "l40s-48gb"),
    "gpus": (1, 2, 4, 8, 8, 16, 64),
    "prompt_tokens": (128, 512, 2048),
    "response_tokens": (256, 1024, 4096, 8192),
    "prompts_per_step": (64, 128, 512),
}
SOMETIMES: Mapping[str, Sequence[Any]] = {
    "micro_batch_size": (1, 2, 4, 8),
    "responses_per_prompt": (4, 8, 16),
    "sharding": ("none", "ddp", "zero2", "zero3", "fsdp1", "fsdp2"),
    "finetuning": ("full", "lora", "qlora"),
    "gradient_checkpointing": ("none", "full", "selective"),
    "attention": ("eager", "sdpa", "flash"),
    "logits": ("full", "response", "chunked", "fused"),
    "offload": ("none", "optimizer", "all", "all-between-phases"),
    "batch_shape": ("full", "padded", "packed"),
    "optimizer": ("adamw-fused", "adamw-foreach", "adamw-8bit"),
    "rollout": ("hf", "vllm-colocated", "vllm-separate"),
    "gpu_memory_utilization": (0.3, 0.5, 0.8),
    "kl": ("none", "loss", "reward"),
    "entropy": (False, True),
    "expandable_segments": (False, True),
}


class Drawn(NamedTuple):
    """What an estimate says of a drawn plan."""

    plan: Mapping[str, Any]
    word: str
    width: float
    """Upper less lower bound, of device bytes."""
    measured: bool
    """Whether an error of such plans is stated."""


def plans(count: int = COUNT, seed: int = SEED) -> list[dict[str, Any]]:
    """Fields of valid plans: what the rules blame of a draw is left to its default."""
    dice, found = random.Random(seed), []
    while len(found) < count:
        values = {name: dice.choice(some) for name, some in ALWAYS.items()}
        for name, some in SOMETIMES.items():
            if dice.random() < SET:
                values[name] = dice.choice(some)
        repaired = _repaired(values)
        if repaired is not None:
            found.append(repaired)
    return found


def _repaired(values: dict[str, Any]) -> dict[str, Any] | None:
    while True:
        plan, problems = try_plan(values)
        if plan is not None:
            return values
        blamed = {problem.field for problem in problems} & (values.keys() - {"method", "framework"})
        if not blamed:
            return None
        values = {name: value for name, value in values.items() if name not in blamed}


def said(fields: Mapping[str, Any]) -> Drawn | None:
    """Today's estimate of a plan; None where it is refused by now."""
    plan, _ = try_plan(fields)
    if plan is None:
        return None
    return _drawn(fields, stated(estimate(Plan(**fields))))


def _drawn(fields: Mapping[str, Any], footprint: Footprint) -> Drawn:
    width = (footprint.high_bytes - footprint.low_bytes) / footprint.device_bytes
    known = footprint.error.low is not None
    return Drawn(fields, footprint.verdict.word, round(width, 4), known)


def write(commit: str = "") -> None:
    """Draw the plans and write what the estimate at hand says of them."""
    rows = [found._asdict() for fields in plans() if (found := said(fields)) is not None]
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = json.dumps({"seed": SEED, "commit": commit})[:-1]
    FILE.write_text(f'{head}, "rows": [\n{lines}\n]}}\n', "utf-8")


@cache
def before() -> tuple[str, tuple[Drawn, ...]]:
    """The commit whose words are committed, and they."""
    data = json.loads(FILE.read_text("utf-8"))
    return data["commit"], tuple(Drawn(**row) for row in data["rows"])


def shares(some: Sequence[Drawn]) -> Mapping[str, float]:
    """How often each word is said."""
    counts = Counter(one.word for one in some)
    return {word: counts[word] / len(some) for word in ("fits", "tight", "out of memory")}


@cache
def both() -> tuple[list[Drawn], list[Drawn]]:
    """Committed and today's answers of the plans that are answered today."""
    pairs = [(one, now) for one in before()[1] if (now := said(one.plan)) is not None]
    return [one for one, _ in pairs], [now for _, now in pairs]


def widths(then: Sequence[Drawn], now: Sequence[Drawn]) -> tuple[float, float]:
    """Median width of the plans of a kind that is measured today, then and now."""
    kinds = [one.measured for one in now]
    return tuple(  # type: ignore[return-value]
        median(one.width for one, measured in zip(some, kinds, strict=True) if measured)
        for some in (then, now)
    )


def text() -> str:
    """The section of docs/cases.md."""
    (commit, every), (then, now) = before(), both()
    old, new, width = shares(then), shares(now), widths(then, now)
    lines = [
        "## Five hundred plans at random",
        "",
        f"Drawn with seed {SEED} (`accuracy/cases/draw.py`), of all methods, frameworks, shardings "
        f"and six cards, mixtures among them; {len(every) - len(now)} of {len(every)} are refused "
        f"by now. An error is stated for {sum(one.measured for one in now)} of them, "
        f"{sum(one.measured for one in then)} at {commit}.",
        "",
        f"| | {commit} | now |",
        "|---|---:|---:|",
        *(f"| {word} | {old[word]:.1%} | {new[word]:.1%} |" for word in old),
        f"| median (high − low) ÷ device where an error is stated | {width[0]:.3f} "
        f"| {width[1]:.3f} |",
    ]
    return "\n".join(lines) + "\n"
