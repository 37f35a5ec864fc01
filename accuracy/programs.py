"""Exported programs run as they are on this machine's card: what they reserve, and was predicted.

``python -m accuracy.programs --gpu KEY --out FILE`` writes a model with random weights, a tokenizer
of words and data of the planned lengths, exports each case's programs, and starts them as a person
would. A program prints what its allocator reserved at most; on a processor it has nothing to say.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from accuracy.cards import check_card
from planner import catalog
from planner.launch.export import export
from planner.plan import Plan
from planner.plan.query import to_query_string

MODEL = "Qwen/Qwen3-0.6B"
ADAPTERS = {"finetuning": "lora", "lora_rank": 16}
LEAN = {
    "grade_top_k": 256,
    "grade_reference_cache": True,
    "grade_reward_input": "sparse",
    "grade_step_checkpointing": True,
}
SIZES = {"prompts_per_step": 4, "prompts_per_update": 4, "micro_batch_size": 2}
CASES: Mapping[str, dict[str, Any]] = {
    "grade": {"method": "grade", "grade_kl": "batch"},
    "grade lean": {"method": "grade", "grade_kl": "online", **LEAN, **ADAPTERS},
    "grade straight-through": {"method": "grade", "grade_estimator": "straight-through"},
    "dpo": {"method": "dpo"},
    "dpo adapters": {"method": "dpo", "reference": "adapter-disabled", **ADAPTERS},
    "dpo cached": {"method": "dpo", "reference": "cached-logprobs"},
}
LENGTHS = {"grade": (64, 16), "dpo": (256, 256)}
"""Tokens of a prompt and a response; GRADE keeps a whole forward of every generated token."""
SAID = re.compile(r"reserved at most ([\d.]+) GiB \(predicted ([\d.]+)")


def planned(case: str, gpu: str, **changes: Any) -> Plan:
    """A case's plan on one card of this kind."""
    values = CASES[case]
    prompt, response = LENGTHS[values["method"]]
    lengths = {"prompt_tokens": prompt, "response_tokens": response}
    given = {"model": MODEL, "gpu": gpu, "gpus": 1, "batch_shape": "full", **lengths, **SIZES}
    return Plan(**{**given, **values, **changes})


def write_models(folder: Path, config: Mapping[str, Any]) -> None:
    """``policy`` and ``reward`` with random weights, and a tokenizer of whole words."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    settings = transformers.AutoConfig.for_model(**config, num_labels=1)
    for name, kind in (
        ("policy", transformers.AutoModelForCausalLM),
        ("reward", transformers.AutoModelForSequenceClassification),
    ):
        torch.manual_seed(0)
        kind.from_config(settings, dtype=torch.bfloat16).save_pretrained(folder / name)
    words = {"<pad>": 0, "<end>": 1, **{f"w{place}": place for place in range(2, 900)}}
    inner = Tokenizer(models.WordLevel(words, unk_token="w2"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="<pad>", eos_token="<end>"
    ).save_pretrained(folder / "policy")


def write_data(path: Path, prompt: int, response: int, rows: int = 8) -> None:
    """Prompts and pairs of exactly so many tokens; a response's last is the tokenizer's end."""

    def text(first: int, count: int) -> str:
        return " ".join(f"w{5 + (7 * first + place) % 890}" for place in range(count))

    lines = [
        {
            "prompt": text(row, prompt),
            "chosen": text(row + 40, response - 1),
            "rejected": text(row + 80, response - 1),
        }
        for row in range(rows)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def run(case: str, plan: Plan, folder: Path, device: str, steps: int) -> dict[str, Any]:
    """Export a case and run its programs; what they printed last, and the two sizes."""
    place = folder / case.replace(" ", "-")
    place.mkdir()
    launch = export(plan, "plain")
    for file in launch.files:
        (place / file.name).write_text(file.text, "utf-8")
    write_data(place / "data.jsonl", plan.prompt_tokens, plan.response_tokens)
    flags = ["--data", "data.jsonl", "--model", str(folder / "policy"), "--device", device]
    if plan.method == "grade":
        flags += ["--reward-model", str(folder / "reward")]
    told = ""
    for name in (file.name for file in launch.files if file.name.endswith(".py")):
        done = subprocess.run(
            [sys.executable, name, *flags, "--steps", str(steps)],
            cwd=place,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            return {"case": case, "error": (done.stderr or done.stdout).strip()[-500:]}
        told = done.stdout.strip().splitlines()[-1]
    found = SAID.search(told)
    reserved, predicted = (float(each) for each in found.groups()) if found else (None, None)
    return {
        "case": case, "plan": to_query_string(plan), "told": told,
        "reserved_gib": reserved, "predicted_gib": predicted,
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs every case and writes what was found."""
    parser = argparse.ArgumentParser(prog="python -m accuracy.programs", description=__doc__)
    parser.add_argument("--gpu", required=True, help="the card's key in the catalog")
    parser.add_argument("--out", required=True, type=Path, help="JSON file to write")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=3)
    given = parser.parse_args(arguments)
    check_card(given.gpu, "cuda:0" if given.device == "cuda" else given.device)
    rows = []
    with tempfile.TemporaryDirectory(prefix="headroom-") as place:
        write_models(Path(place), catalog.model(MODEL).config)
        for case in CASES:
            plan = planned(case, given.gpu)
            rows.append(run(case, plan, Path(place), given.device, given.steps))
            print(rows[-1].get("error") or f"{case}: {rows[-1]['told']}", flush=True)
    given.out.write_text(json.dumps({"gpu": given.gpu, "cases": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
