"""Plans drawn at random: how often they are tight, and how wide their bounds are.

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
OF_MEASURED = 150
"""As many more are drawn of the kinds that were measured, of which the first hold hardly one."""
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
MEASURED: Mapping[str, Sequence[Any]] = {
    "model": ALWAYS["model"][:8],
    "framework": ("plain",),
    "gpu": ("h100-80gb", "h200-141gb"),
    "gpus": (1,),
    "sharding": ("none",),
    "offload": ("none",),
    "logits": ("full",),
}
"""Dense models on one Hopper card by the plain step, whole logits, nothing offloaded."""


class Drawn(NamedTuple):
    """What an estimate says of a drawn plan."""

    plan: Mapping[str, Any]
    word: str
    width: float
    """Upper less lower bound, of device bytes."""
    measured: bool
    """Whether an error of such plans is stated."""


def plans(
    count: int = COUNT, within: Mapping[str, Sequence[Any]] | None = None
) -> list[dict[str, Any]]:
    """Fields of valid plans: what the rules blame of a draw is left to its default.

    ``within`` takes the place of what fields are drawn from.
    """
    dice, always = random.Random(SEED), {**ALWAYS, **(within or {})}
    found: list[dict[str, Any]] = []
    while len(found) < count:
        values = {name: dice.choice(some) for name, some in always.items()}
        for name, some in SOMETIMES.items():
            if dice.random() < SET and name not in always:
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
    drawn = [*plans(), *plans(OF_MEASURED, MEASURED)]
    rows = [found._asdict() for fields in drawn if (found := said(fields)) is not None]
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
def both(all_kinds: bool) -> tuple[tuple[Drawn, Drawn], ...]:
    """Committed and today's answers of the plans that are answered today.

    Of the plans of all kinds, or of the more that were drawn of measured ones.
    """
    rows = before()[1][:COUNT] if all_kinds else before()[1][COUNT:]
    return tuple((one, now) for one in rows if (now := said(one.plan)) is not None)


def words() -> tuple[Mapping[str, float], Mapping[str, float]]:
    """How often each word is said of plans of all kinds, then and now."""
    then, now = zip(*both(True), strict=True)
    return shares(then), shares(now)


def widths() -> tuple[float, float, int]:
    """Median width of plans of which an error is stated today, then and now, and their number."""
    pairs = [(then.width, now.width) for then, now in both(False) if now.measured]
    then, now = zip(*pairs, strict=True)
    return median(then), median(now), len(pairs)


def text() -> str:
    """The section of docs/cases.md."""
    (commit, _), pairs = before(), both(True)
    (old, new), (width, wide, count) = words(), widths()
    lines = [
        "## Plans at random",
        "",
        f"{COUNT} plans, drawn with seed {SEED} (`accuracy/cases/draw.py`), of all methods, "
        "frameworks and shardings, dense and mixtures, on six cards. Refused by now: "
        f"{COUNT - len(pairs)}. Plans with a stated error: {sum(now.measured for _, now in pairs)} "
        f"now, {sum(then.measured for then, _ in pairs)} at {commit}, where most were of kinds "
        f"that nobody measured. The last row is of {OF_MEASURED} further plans of measured kinds: "
        f"an error is stated for {count} of them.",
        "",
        f"| | {commit} | now |",
        "|---|---:|---:|",
        *(f"| {word} | {old[word]:.1%} | {new[word]:.1%} |" for word in old),
        f"| median (high − low) ÷ device, measured kinds | {width:.3f} | {wide:.3f} |",
    ]
    return "\n".join(lines) + "\n"
