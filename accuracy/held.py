"""What the caching allocator holds and no tensor uses, as replays of dry runs find it.

``python -m accuracy.held --out FILE`` runs drawn plans dry (an hour on one core) and writes, of
each, the most segments that its executed phases reserve: by the closed form, which knows rounding
and unused ends of segments, and by the replay of every allocation and free. The difference is what
:mod:`planner.formulas.held` spreads over what kinds of tensors need apart and what comes and goes.
Of the first plans also the step's replay at five lengths, each twice and in drawn orders:
:mod:`planner.formulas.growth`. ``--fit`` only prints the shares of the committed rows.
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
from planner.formulas.growth import may_grow, moving
from planner.formulas.held import HELD, Kind, Share, kind_of
from planner.numeric import Num
from planner.plan import Plan, try_plan

MEASURED = Path(__file__).parent / "measured" / "held.json"
PLANS = 200
FURTHER = 700
ORDERS = 3
MODELS = (
    "Qwen/Qwen3-0.6B",
    "Qwen/Qwen2.5-1.5B",
    "mistralai/Mistral-7B-v0.1",
    "meta-llama/Llama-3.1-8B",
)
"""Vocabularies of 32 to 152 thousand, tied heads and not."""
LENGTHS = ((512, 512), (1024, 3072))
LOGITS = ("full", "chunked", "fused")


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
            LOGITS,
            LENGTHS,
        )
    )
    chance.shuffle(every)
    for name, method, finetuning, checkpointing, gpus, rows, logits, lengths in every[:PLANS]:
        grouped = method == "grpo"
        yield {
            **_fields(name, gpus, rows, logits, lengths),
            "method": method,
            "finetuning": finetuning,
            "gradient_checkpointing": checkpointing,
            "master_dtype": "fp32" if gpus > 1 else "none",
            "prompts_per_step": 8 if grouped else 32,
            "responses_per_prompt": 8 if grouped else 1,
            "optimizer": chance.choice(("adamw-fused", "adamw-foreach")),
            "expandable_segments": chance.random() < 0.25,
            **({"kl": chance.choice(("none", "loss"))} if grouped else {}),
        }


def further() -> Iterator[dict[str, Any]]:
    """SFT, which has the fewest phases beside training's: two GPUs too, and no fp32 masters."""
    chance = random.Random(2027)
    every = list(
        itertools.product(
            MODELS,
            ("full", "full", "lora"),
            ("full", "full", "none"),
            ((1, "none"), (2, "none"), (2, "fp32"), (8, "none"), (8, "fp32")),
            (1, 4),
            LOGITS,
            LENGTHS,
            ("adamw-fused", "adamw-foreach"),
            (1, 2),
        )
    )
    chance.shuffle(every)
    for name, finetuning, checkpointing, sharded, rows, logits, lengths, optimizer, more in every:
        gpus, master = sharded
        each = rows * gpus * more
        yield {
            **_fields(name, gpus, rows, logits, lengths),
            "method": "sft",
            "finetuning": finetuning,
            "gradient_checkpointing": checkpointing,
            "master_dtype": master if finetuning == "full" else "fp32",
            "prompts_per_step": each,
            "prompts_per_update": each,
            "optimizer": optimizer,
            "expandable_segments": chance.random() < 0.25,
        }


def _fields(
    name: str, gpus: int, rows: int, logits: str, lengths: tuple[int, int]
) -> dict[str, Any]:
    return {
        "model": name,
        "gpu": "h100-80gb",
        "gpus": gpus,
        "sharding": "fsdp2" if gpus > 1 else "none",
        "micro_batch_size": rows,
        "logprob_micro_batch_size": rows,
        "prompt_tokens": lengths[0],
        "response_tokens": lengths[1],
        "logits": logits,
        "attention": "flash",
        "batch_shape": "full",
    }


def measure(plan: Plan, *, varied: bool) -> dict[str, Any] | None:
    """Closed form and replays of a plan; None where no step runs dry."""
    from planner.dryrun.ask import request
    from planner.dryrun.ask.stand_in import stand_in
    from planner.dryrun.logs import lengths
    from planner.dryrun.run.execute import dry_run

    standing, configs = stand_in(plan).plan, request.configs_of(plan)
    try:
        shares = lengths.SHARES if varied else lengths.SHARES[:1]
        logs = [dry_run(lengths.shortened(standing, each), configs) for each in shares]
    except (ValueError, NotImplementedError, RuntimeError):
        return None
    settings, workspace = request.settings_of(plan), request.workspace_of(plan)

    def most(steps: Sequence[Log]) -> int:
        found = replay(lengths.chained(steps), settings, workspace_bytes=workspace)
        return max(phase.reserved_bytes for phase in found.phases.values())

    grown = {"varied_bytes": [most(steps) for steps in orders(logs)]} if varied else {}
    return {**closed(plan), "replayed_bytes": most(logs[:1]), **grown}


def orders(logs: Sequence[Log]) -> list[list[Log]]:
    """Each length twice, in orders drawn once for all plans."""
    found = []
    for seed in range(ORDERS):
        steps = [*logs, *logs]
        random.Random(seed).shuffle(steps)
        found.append(steps)
    return found


OF = ("apart", "together", "limit", "needed", "kept")
"""What held memory follows: inputs of its formula."""


def closed(plan: Plan) -> dict[str, Num]:
    """What the closed form reserves without held memory, and what that follows."""
    phase = max(_ran(estimate(plan)), key=_needed)
    (term,) = (term for term in phase.terms if term.name == HELD.name)
    return {"needed_bytes": _needed(phase), "of": {name: int(term.inputs[name]) for name in OF}}


def _ran(footprint: Footprint) -> list[Phase]:
    return [phase for phase in footprint.phases if phase.executed and phase.rank == "trainer"]


def _needed(phase: Phase) -> int:
    return phase.reserved_bytes - sum(
        int(term.bytes) for term in phase.terms if term.name in (HELD.name, CACHED.name)
    )


def growth(rows: Sequence[Mapping[str, Any]]) -> dict[Kind, int]:
    """Of each kind of plan the most that its rows grow by, in thousandths of what they follow.

    Of plans whose cache nothing empties and whose segments do not expand.
    """
    found: defaultdict[Kind, list[float]] = defaultdict(list)
    for row in rows:
        plan = Plan(**row["fields"])
        if "varied_bytes" in row and may_grow(plan.model_copy(update={"batch_shape": "padded"})):
            more = max(row["varied_bytes"]) - row["replayed_bytes"]
            found[kind_of(plan)].append(more / max(moving(row["of"]), 1))
    return {kind: round(1000 * max(values)) for kind, values in sorted(found.items())}


STEPS_APART = 20
"""Shares apart that are tried: twentieths, from none to all."""


def shares(rows: Sequence[Mapping[str, Any]]) -> dict[Kind, Share]:
    """Of each kind of plan the share apart that explains its rows best, and the rest's spread."""
    found: defaultdict[Kind, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[kind_of(Plan(**row["fields"]))].append(row)
    return {kind: _share(values) for kind, values in sorted(found.items())}


def _share(rows: Sequence[Mapping[str, Any]]) -> Share:
    """Of the shares apart the one that leaves the least mean error of what is reserved."""
    tried = [1000 * step // STEPS_APART for step in range(STEPS_APART + 1)]
    return min((_beside(rows, apart) for apart in tried), key=lambda one: _mean_error(rows, one))


def _beside(rows: Sequence[Mapping[str, Any]], apart: int) -> Share:
    """Beside a share apart, the least, middle and most of the rest over what comes and goes."""
    rest = [
        (_held(row) - apart * clash(row["of"]) / 1000) / max(goes(row["of"]), 1) for row in rows
    ]
    found = min(rest), statistics.median(rest), max(rest)
    return Share(apart, *(round(1000 * part) for part in found))


def _mean_error(rows: Sequence[Mapping[str, Any]], share: Share) -> float:
    errors = (
        (share.apart * clash(row["of"]) + share.centre * goes(row["of"])) / 1000 - _held(row)
        for row in rows
    )
    found = zip(errors, rows, strict=True)
    return statistics.fmean(abs(error) / row["replayed_bytes"] for error, row in found)


def _held(row: Mapping[str, Any]) -> int:
    return int(row["replayed_bytes"]) - int(row["needed_bytes"])


def clash(of: Mapping[str, int]) -> int:
    """Bytes that kinds of tensors need apart, at most the limit."""
    return min(of["apart"] - of["together"], of["limit"])


def goes(of: Mapping[str, int]) -> int:
    """Bytes that come and go."""
    return of["needed"] - of["kept"]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=MEASURED)
    parser.add_argument("--fit", action="store_true", help="only print the committed rows' shares")
    given = parser.parse_args()
    rows = json.loads(MEASURED.read_text("utf-8"))["rows"] if given.fit else list(_measured())
    if not given.fit:
        found = {"plans": PLANS, "further": FURTHER, "rows": rows}
        given.out.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    for kind, found_share in shares(rows).items():
        print(f"    {kind}: {found_share},")
    for kind, most in growth(rows).items():
        print(f"    {kind}: {most},")


def _measured() -> Iterator[dict[str, Any]]:
    """Rows of the drawn plans at several lengths, then of further ones at their own."""
    for fields in drawn():
        yield from _row(fields, varied=True)
    rows = (row for fields in further() for row in _row(fields, varied=False))
    yield from itertools.islice(rows, FURTHER)


def _row(fields: dict[str, Any], *, varied: bool) -> Iterator[dict[str, Any]]:
    plan, _ = try_plan(fields)
    found = measure(plan, varied=varied) if plan is not None else None
    if plan is not None and found is not None:
        print(f"{kind_of(plan)}: {_held(found) / 2**30:+.2f} GiB", flush=True)
        yield {"fields": fields, **found}


if __name__ == "__main__":
    main()
