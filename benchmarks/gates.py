"""What a change of the closed form may cost, beside an earlier commit's, in one run.

Run: python -m benchmarks.gates COMMIT [rounds]. Processor seconds of one process, in turns, the
quickest of a turn's: 2,304 combinations of choices at 144 sizes each (:mod:`benchmarks.combinations`);
as many over three shardings, two frameworks and a mixture of experts; and the first GRPO estimate
of a model in a process that has made others, less its second: what is made once for a structure.
Beside the last stand the seconds of the layers' records alone, where a commit makes such. Then
instructions of an estimate of GRPO and PPO (:mod:`benchmarks.instructions`), which take minutes and
valgrind. Prints a line a turn, then one JSON line.
"""  # noqa: E501

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.against import ROOT, files_of
from benchmarks.combinations import CHOICES, PLAN, SIZES
from benchmarks.instructions import counted
from planner.plan.frameworks import framework_named
from planner.plan.query import to_query_string

ROUNDS = 3
SWEEPS = 2
"""Of one kind in a turn; the first also makes what its plans have in common."""
FRAMEWORKS = [
    {"framework": name, "framework_version": framework_named(name).versions[0]}
    for name in ("plain", "trl")
]
OVER = {
    **CHOICES,
    "sharding": ["fsdp2", "zero3", "ddp"],
    "lora_targets": ["q_proj,v_proj"],
    "model": ["Qwen/Qwen2.5-14B", "Qwen/Qwen3-30B-A3B"],
    "rollout_tensor_parallel": [1, 2],
    "vllm_sleep_level": [2],
    "enforce_eager": [False],
}
"""As many combinations as CHOICES, with both frameworks."""
MODELS = (
    *("Qwen/Qwen3-4B", "meta-llama/Llama-3.2-1B", "google/gemma-3-1b-pt", "Qwen/Qwen3-30B-A3B"),
    *("microsoft/Phi-4-mini-instruct", "bigcode/starcoder2-3b", "HuggingFaceTB/SmolLM3-3B"),
    *("allenai/OLMo-2-0425-1B", "zai-org/glm-4-9b-chat-hf", "mistralai/Mistral-7B-v0.1"),
)

PROGRAM = """
import gc, json, statistics, sys, time
from planner import Plan, estimate
from planner.plan.link import from_query_string
from planner.sweeps.table import rows

asked = json.load(sys.stdin)
plan = from_query_string(asked["plan"]).plan
spent, found = [], {}

def swept(combinations):
    start = time.process_time()
    judged = rows(plan, combinations, asked["sizes"])
    plans = sum(int(columns["valid"].sum()) for _, columns in judged)
    return time.process_time() - start, plans

try:
    from planner.formulas.activations import layers
    record = layers.layer_record
    def timed(*of):
        start = time.process_time()
        made = record(*of)
        spent.append(time.process_time() - start)
        return made
    layers.layer_record = timed
except (ImportError, AttributeError):
    pass

def first(model, tokens):
    fresh = Plan(method="grpo", model=model, gpus=8, response_tokens=tokens)
    start = time.process_time()
    estimate(fresh)
    return time.process_time() - start

gc.disable()
first("Qwen/Qwen2.5-7B", 1024)
cold, alone = [], []
for model in asked["models"]:
    spent.clear()
    cold.append(first(model, 1024))
    alone.append(sum(spent))
    cold[-1] -= first(model, 1025)
found["a new structure"] = statistics.median(cold)
if spent:
    found["its layers' records"] = statistics.median(alone)
for name, combinations in asked["combinations"].items():
    seconds, plans = zip(*(swept(combinations) for _ in range(asked["sweeps"])))
    found[f"{name}, {plans[0]:,} plans"] = min(seconds)
print(json.dumps(found))
"""


def asked() -> dict[str, Any]:
    """What the program is given."""
    alike = [dict(zip(CHOICES, each, strict=True)) for each in product(*CHOICES.values())]
    mixed = [
        {**framework, **dict(zip(OVER, each, strict=True))}
        for framework in FRAMEWORKS
        for each in product(*OVER.values())
    ]
    return {
        "plan": to_query_string(PLAN, short=True),
        "sizes": SIZES,
        "models": MODELS,
        "sweeps": SWEEPS,
        "combinations": {"one kind": alike, "many kinds": mixed},
    }


def measured(folder: Path) -> dict[str, float]:
    """Milliseconds of each piece of work by the files of a folder."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(asked()),
        cwd=folder,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return {name: 1e3 * seconds for name, seconds in json.loads(done.stdout).items()}


def main(commit: str, rounds: str = str(ROUNDS)) -> None:
    """Compare this checkout with a commit."""
    with files_of(commit) as folder:
        turns = []
        for _ in range(int(rounds)):
            turns.append((measured(folder), measured(ROOT)))
            print(", ".join(_said(*turns[-1])), flush=True)
        before, now = (
            {name: statistics.median(turn[side][name] for turn in turns) for name in turns[0][side]}
            for side in (0, 1)
        )
        for method in ("grpo", "ppo"):
            for figures, place in ((before, folder), (now, ROOT)):
                count = counted(place, method, 512)["instructions"]
                figures[f"instructions of {method}"] = count
    print(json.dumps({"commit": commit, "before": _rounded(before), "now": _rounded(now)}))
    print(json.dumps({"times_the_commit": _ratios(before, now)}))


def _said(before: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    names = [*before, *(name for name in now if name not in before)]
    return [f"{name} {before.get(name, 0):.1f} -> {now.get(name, 0):.1f} ms" for name in names]


def _rounded(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: round(figure, 2) for name, figure in figures.items()}


def _ratios(before: Mapping[str, float], now: Mapping[str, float]) -> dict[str, float]:
    found = {name: now[name] / before[name] for name in now if name in before}
    records = before.get("its layers' records")
    if records:
        found["a new structure, times the commit's layers' records"] = (
            now["a new structure"] / records
        )
    return _rounded(found)


if __name__ == "__main__":
    main(*sys.argv[1:3])
