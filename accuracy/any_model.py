"""Every causal type of transformers: what its config is answered with, and by what.

``python -m accuracy.any_model --out FILE [TYPE ...]`` gives the product each type's default config
(with what of it a config.json always states, :data:`STATED`), estimates a small plan, and runs the
same plan dry at the model's whole depth; ``--adapters`` adds the same with LoRA to the rows there
are. docs/models.md is written from FILE by ``python -m accuracy.any_model --docs``. Torch runs in
the worker only.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from planner import catalog
from planner.background import Refused
from planner.catalog import spot
from planner.dryrun.ask.answer import DryRun
from planner.dryrun.ask.port import Port
from planner.estimate import estimate
from planner.plan import Plan

FILE = Path(__file__).parent / "measured" / "any-model.json"
DOCS = Path(__file__).parents[1] / "docs" / "models.md"
SHARE = 0.95
SIDES = ("closed", "dry")

STATED: Mapping[str, Mapping[str, Any]] = json.loads(
    (Path(__file__).parent / "measured" / "any-model-stated.json").read_text("utf-8")
)
"""Sizes that a type's published files state and its config class has no usable default for."""

ONE_CHUNK = (
    "64 tokens are one chunk of its scan, which spares the forward copies that longer rows need"
)
CROSS = (
    "its cross-attention has weights that no text trains: the estimate gives them gradients and "
    "optimizer state, and the step does not"
)
TOWERS = "its towers stay on the card beside the language model that is planned"
EXPLAINED: Mapping[str, str] = {
    **dict.fromkeys(("bart", "bigbird_pegasus", "blenderbot", "blenderbot-small"), CROSS),
    **dict.fromkeys(("marian", "mbart", "mllama", "mvp", "pegasus", "plbart"), CROSS),
    **dict.fromkeys(("prophetnet", "trocr", "whisper"), CROSS),
    "phi4_multimodal": TOWERS,
    "zamba2": ONE_CHUNK,
}
"""Types whose estimate is more than 1 % from the dry run, and why."""
APART_WITH_LORA = ("gpt_neo", "phi4_multimodal", "recurrent_gemma", "whisper", "zamba2")
"""Types more than 1 % off with LoRA: towers or cross-attention of two, of the rest not found."""

PLAN: Mapping[str, Any] = {
    "method": "sft",
    "gpu": "h100-80gb",
    "gpus": 1,
    "sharding": "none",
    "master_dtype": "none",
    "micro_batch_size": 2,
    "prompt_tokens": 32,
    "response_tokens": 32,
    "batch_shape": "padded",
    "gradient_checkpointing": "none",
    "rollout": "none",
}
"""Two rows of 64 tokens: the dry run of a loop over tokens takes seconds."""


def types() -> tuple[str, ...]:
    """Causal types of the transformers that is installed."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    return tuple(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def config_of(name: str) -> dict[str, Any]:
    """The type's default config as a config.json would state it."""
    from transformers import AutoConfig

    stated = STATED.get(name, {})
    written = AutoConfig.for_model(name, **stated).to_dict()
    return {**json.loads(json.dumps(written, default=str)), **stated, "model_type": name}


def answered(name: str, port: Port) -> dict[str, Any]:
    """The product's answer to one type, as a row of the table."""
    start = time.perf_counter()

    def measure(key: str, config: Mapping[str, Any], names: tuple[str, ...]) -> None:
        try:
            port.measure(key, config, names)
        except Refused as error:
            raise ValueError(f"config: {error}") from None

    row: dict[str, Any] = {"type": name}
    with spot.measuring(measure):
        try:
            row |= _estimated(name, port, start)
        except Exception as error:  # a type whose default config cannot be built, too, is a row
            row |= {"by": "refused", "reason": " ".join(str(error).split())[:300]}
    return row


def _estimated(name: str, port: Port, start: float) -> dict[str, Any]:
    model = catalog.parse_config(config_of(name))
    if model.architecture is None:
        return {"by": "refused", "reason": model.unsupported_reason}
    config = catalog.encode_config(model.config)
    problems = []
    for attention, dtype in (("sdpa", "bf16"), ("eager", "bf16"), ("eager", "fp32")):
        try:
            plan = Plan(**{**PLAN, "config": config, "attention": attention, "dtype": dtype})
        except ValueError as error:
            problems.append(str(error).partition("[type=")[0])
            continue
        found = estimate(plan)
        by = "spot" if model.spot else "committed" if model.architecture.measured else "hand"
        row = {
            "by": by,
            "attention": attention if dtype == "bf16" else f"{attention}, {dtype}",
            "layers": model.architecture.layers,
            "kinds": _kinds(model.spot),
            "peak_bytes": max(phase.requested_bytes for phase in found.phases),
            "cache": model.architecture.uncounted_cache,
            "seconds": round(time.perf_counter() - start, 1),
        }
        try:
            dry = port.run(plan)
        except Refused as error:
            return row | {"dry_run": str(error)[:200]}
        closed, ran = _peaks(dry)
        return row | {"dry_run_bytes": ran, "difference": round(closed / ran - 1, 6)}
    return {"by": "refused", "reason": " ".join(problems[-1].split())[:300]}


def adapted(name: str, attention: str, port: Port) -> dict[str, Any]:
    """The same type with LoRA and checkpointed layers: its difference, or why there is none."""
    kernel, _, dtype = attention.partition(", ")
    fields = {**PLAN, "attention": kernel, "dtype": dtype or "bf16"}
    fields |= {"finetuning": "lora", "lora_rank": 8, "gradient_checkpointing": "full"}
    with spot.measuring(port.measure):
        try:
            config = catalog.encode_config(catalog.parse_config(config_of(name)).config)
            plan = Plan(**{**fields, "config": config})
            estimate(plan)
        except Exception as error:  # as above: what this type's own code raises is its row
            said = str(error).partition("[type=")[0].removeprefix("1 validation error for Plan")
            return {"adapted_reason": " ".join(said.split())[:200]}
        try:
            dry = port.run(plan)
        except Refused as error:
            return {"adapted_reason": f"dry run: {error}"[:200]}
    closed, ran = _peaks(dry)
    return {"adapted": round(closed / ran - 1, 6)}


def _peaks(dry: DryRun) -> tuple[int, int]:
    """The highest phase by the closed form, and by the dry run."""
    pairs = [c for c in dry.comparisons if c.executed and c.dry_bytes and c.closed_bytes]
    closed, ran = (max(getattr(c, f"{side}_bytes") for c in pairs) for side in SIDES)
    return closed, ran


def _kinds(key: str | None) -> int | None:
    """Kinds of layers that were measured on the spot; None where none were."""
    entry = spot.found(key) if key else None
    return len(set(entry["layers"])) if entry else None


def share(rows: list[Mapping[str, Any]]) -> float:
    """Of all types, those with a footprint."""
    return sum(row["by"] != "refused" for row in rows) / len(rows)


def main() -> None:
    """Write the table, or the page from it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--docs", action="store_true", help="write docs/models.md and stop")
    parser.add_argument("--adapters", action="store_true", help="add LoRA to the rows there are")
    parser.add_argument("types", nargs="*")
    asked = parser.parse_args()
    if asked.docs:
        DOCS.write_text(page(json.loads(FILE.read_text("utf-8"))), "utf-8")
        return
    before = json.loads(asked.out.read_text("utf-8"))["types"] if asked.out.exists() else []
    rows = {row["type"]: row for row in before}
    port = Port()
    for name in asked.types or types():
        if not asked.adapters:
            rows[name] = answered(name, port)
        elif rows[name]["by"] != "refused":
            plain = {k: v for k, v in rows[name].items() if not k.startswith("adapted")}
            rows[name] = {**plain, **adapted(name, plain["attention"], port)}
        print(json.dumps(rows[name]), flush=True)
        ordered = [rows[each] for each in types() if each in rows]
        text = json.dumps({"versions": spot.versions(), "types": ordered}, indent=1)
        asked.out.write_text(text + "\n", "utf-8")
    port.close()


def page(found: Mapping[str, Any]) -> str:
    """docs/models.md."""
    rows = found["types"]
    counts = Counter(row["by"] for row in rows)
    errors, adapted_errors = (
        sorted(abs(row[key]) for row in rows if key in row)
        for key in ("difference", "adapted")
    )
    lines = [
        "# Models",
        "",
        f"Of the {len(rows)} causal types of transformers {found['versions']['transformers']}, "
        f"{len(rows) - counts['refused']} ({share(rows):.1%}) get a footprint: {counts['hand']} by "
        f"a sum derived by hand, {counts['committed']} by committed coefficients, "
        f"{counts['spot']} by coefficients measured on the spot ([coefficients.md](coefficients.md)"
        "). Each row is the type's default config in a small plan (SFT in bf16, two padded rows of "
        "64 tokens); *difference* is the estimate's peak against a dry run of every layer, "
        f"signed: {len(errors)} compared, median {errors[len(errors) // 2]:.3%}, largest "
        f"{errors[-1]:.2%}. *With LoRA* is the same of adapters of rank 8 on checkpointed layers "
        "(all linear ones; of a mixture its attention, of Mamba's mixers what peft adapts): "
        f"{len(adapted_errors)} compared, median "
        f"{adapted_errors[len(adapted_errors) // 2]:.4%}, largest {adapted_errors[-1]:.2%}. "
        "Written by `python -m accuracy.any_model --docs`.",
        "",
        "| type | answered by | attention | layers | difference | with LoRA | what to know |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        signed = f"{row['difference']:+.3%}" if "difference" in row else ""
        known = row.get("reason") or EXPLAINED.get(row["type"]) or row.get("dry_run", "")
        known = known or row.get("cache", "")
        with_lora = f"{row['adapted']:+.3%}" if "adapted" in row else ""
        if reason := row.get("adapted_reason"):
            known = f"{known}; with LoRA: {reason}".removeprefix("; ")
        lines.append(
            f"| {row['type']} | {row['by']} | {row.get('attention', '')} | "
            f"{row.get('layers', '')} | {signed} | {with_lora} | {known.replace('|', '/')} |"
        )
    from accuracy import lengths  # which takes its configs from here

    by_length = lengths.summary(json.loads(lengths.FILE.read_text("utf-8")))
    return "\n".join([*lines, "", *by_length]) + "\n"


if __name__ == "__main__":
    main()
