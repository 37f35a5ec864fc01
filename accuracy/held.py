"""What the caching allocator holds and no tensor uses, as replays of dry runs find it.

``python -m accuracy.held --out FILE`` runs a drawn set of plans dry (half an hour on one core)
and writes, of each, the most segments that its executed phases reserve: by the closed form, which
knows rounding and unused ends of segments, and by the replay of every allocation and free. The
difference, over what it follows, is the share of :mod:`planner.formulas.held`. Then the step's
replay at five lengths, each twice and in drawn orders: :mod:`planner.formulas.growth`.
Imports torch only where it runs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.dryrun.logs.log import Log
from planner.dryrun.logs.replay import replay
from planner.estimate import estimate
from planner.footprint import Footprint, Phase
from planner.formulas.allocator import CACHED
from planner.formulas.growth import may_grow
from planner.formulas.held import HELD, Kind, Share, kind_of
from planner.plan import Plan, try_plan

MEASURED = Path(__file__).parent / "measured" / "held.json"
PLANS = 200
ORDERS = 3
MODELS = (
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen2.5-1.5B",
    "mistralai/Mistral-7B-v0.1",
    "meta-llama/Llama-3.1-8B",
)
"""Vocabularies of 32 to 152 thousand, tied heads and not."""


def drawn() -> Iterator[dict[str, Any]]:
    """Fields of plans as people have them; other combinations are refused and passed over."""
    chance = random.Random(2026)
    every = list(
        itertools.product(
            MODELS,
            ("sft", "grpo"),
            ("full", "lora"),
            ("full", "none"),
            (1, 8),
            (1, 4),
            ("full", "chunked", "fused"),
            ((512, 512), (1024, 3072)),
        )
    )
    chance.shuffle(every)
    for name, method, finetuning, checkpointing, gpus, rows, logits, lengths in every[:PLANS]:
        grouped = method == "grpo"
        yield {
            "model": name,
            "method": method,
            "finetuning": finetuning,
            "gradient_checkpointing": checkpointing,
            "gpu": "h100-80gb",
            "gpus": gpus,
            "sharding": "fsdp2" if gpus > 1 else "none",
            "master_dtype": "fp32" if gpus > 1 else "none",
            "micro_batch_size": rows,
            "logprob_micro_batch_size": rows,
            "prompts_per_step": 8 if grouped else 32,
            "responses_per_prompt": 8 if grouped else 1,
            "prompt_tokens": lengths[0],
            "response_tokens": lengths[1],
            "logits": logits,
            "attention": "flash",
            "batch_shape": "full",
            "optimizer": chance.choice(("adamw-fused", "adamw-foreach")),
            "expandable_segments": chance.random() < 0.25,
            **({"kl": chance.choice(("none", "loss"))} if grouped else {}),
        }


def measure(plan: Plan) -> dict[str, Any] | None:
    """Closed form and replays of a plan; None where no step runs dry."""
    from planner.dryrun.ask import request
    from planner.dryrun.ask.stand_in import stand_in
    from planner.dryrun.logs import lengths
    from planner.dryrun.run.execute import dry_run

    standing, configs = stand_in(plan).plan, request.configs_of(plan)
    try:
        shorter = (lengths.shortened(standing, each) for each in lengths.SHARES)
        logs = [dry_run(each, configs) for each in shorter]
    except (ValueError, NotImplementedError, RuntimeError):
        return None
    settings, workspace = request.settings_of(plan), request.workspace_of(plan)

    def most(steps: Sequence[Log]) -> int:
        found = replay(lengths.chained(steps), settings, workspace_bytes=workspace)
        return max(phase.reserved_bytes for phase in found.phases.values())

    return {
        **closed(plan),
        "replayed_bytes": most(logs[:1]),
        "varied_bytes": [most(steps) for steps in orders(logs)],
    }


def orders(logs: Sequence[Log]) -> list[list[Log]]:
    """Each length twice, in orders drawn once for all plans."""
    found = []
    for seed in range(ORDERS):
        steps = [*logs, *logs]
        random.Random(seed).shuffle(steps)
        found.append(steps)
    return found


def closed(plan: Plan) -> dict[str, Any]:
    """What the closed form reserves without held memory, and what that is a share of."""
    phase = max(_ran(estimate(plan)), key=_needed)
    (term,) = (term for term in phase.terms if term.name == HELD.name)
    moving = HELD.value(**{**term.inputs, "share": 1000})
    sharded, _, adapters = kind_of(plan)
    logits = [term.bytes for term in phase.terms if term.category == "logits" and not term.host]
    return {
        "needed_bytes": _needed(phase),
        "moving_bytes": moving,
        "spared_bytes": int(sum(logits)) if sharded and not adapters else 0,
    }


def _ran(footprint: Footprint) -> list[Phase]:
    return [phase for phase in footprint.phases if phase.executed and phase.rank == "trainer"]


def _needed(phase: Phase) -> int:
    return phase.reserved_bytes - sum(
        int(term.bytes) for term in phase.terms if term.name in (HELD.name, CACHED.name)
    )


def growth(rows: list[dict[str, Any]]) -> dict[Kind, int]:
    """Of each kind of plan the most that its rows grow by, in thousandths of what they follow.

    Of plans whose cache nothing empties and whose segments do not expand.
    """
    found: defaultdict[Kind, list[float]] = defaultdict(list)
    for row in rows:
        plan = Plan(**row["fields"])
        if may_grow(plan.model_copy(update={"batch_shape": "padded"})):
            more = max(row["varied_bytes"]) - row["replayed_bytes"]
            moving = row["moving_bytes"] + row["spared_bytes"]
            found[kind_of(plan)].append(more / max(moving, 1))
    return {kind: round(1000 * max(values)) for kind, values in sorted(found.items())}


def share(row: Mapping[str, Any]) -> float:
    """Held over what it follows."""
    return (row["replayed_bytes"] - row["needed_bytes"]) / max(row["moving_bytes"], 1)


def shares(rows: list[dict[str, Any]]) -> dict[Kind, Share]:
    """Of each kind of plan the least, the middle and the most of its rows."""
    found: defaultdict[Kind, list[float]] = defaultdict(list)
    for row in rows:
        found[kind_of(Plan(**row["fields"]))].append(share(row))
    return {kind: _share(values) for kind, values in sorted(found.items())}


def _share(values: list[float]) -> Share:
    found = min(values), statistics.median(values), max(values)
    return Share(*(round(1000 * part) for part in found))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=MEASURED)
    out: Path = parser.parse_args().out
    rows = []
    for number, fields in enumerate(drawn(), start=1):
        plan, _ = try_plan(fields)
        found = measure(plan) if plan is not None else None
        if found is None:
            continue
        rows.append({"fields": fields, **found})
        print(f"{number} of {PLANS}: {share(rows[-1]):+.3f} {kind_of(plan)}", flush=True)
    out.write_text(json.dumps({"plans": PLANS, "rows": rows}, indent=0) + "\n", encoding="utf-8")
    for kind, found_share in shares(rows).items():
        print(f"    {kind}: {found_share},")
    for kind, most in growth(rows).items():
        print(f"    {kind}: {most},")


if __name__ == "__main__":
    main()
