"""Density-aware sampling measured beside predicted: seconds and anonymous RAM.

Run: python -m benchmarks.sampling CASE [REPEATS [PARTS]]. Prints a line a stage, then a JSON line.
With PARTS a search is ended once so many parts of it are found: its memory is at its peak by then.
Search cases have synthetic vectors of unit length (standard normal, seed 0) in the run's own
chunks and go through the run's own worker, so figures are those of a real run; ``embed`` runs the
whole command on 2,000 prompts of a tiny model. What was measured: docs/sampling-measured.md.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from planner.sampling.ask.request import SamplingRequest
from planner.sampling.ask.result import SamplingResult
from planner.sampling.ask.setup import SETUP, Setup, predicted
from planner.sampling.ask.store import SamplingFolder, result_of
from planner.sampling.ask.supervisor import worker_environment

CASES: dict[str, dict[str, Any]] = {
    "exact": {"prompts": 28_000, "width": 1280, "index": "exact"},
    "flat": {"prompts": 28_000, "width": 1280, "index": "faiss-flat"},
    "ivf": {"prompts": 280_000, "width": 1280, "index": "faiss-ivf", "probes": 16},
    "small": {"prompts": 8_000, "width": 256, "index": "exact"},
    "small-ivf": {"prompts": 40_000, "width": 128, "index": "faiss-ivf"},
    "logits": {
        "prompts": 28_000, "width": 50_304, "index": "faiss-flat", "dtype": "fp16",
    },
    "logits-sklearn": {"prompts": 28_000, "width": 50_304, "index": "exact", "dtype": "fp16"},
    "streaming": {
        "prompts": 2_800_000, "width": 256, "index": "faiss-ivf", "mode": "streaming",
        "probes": 1, "lists": 1024, "recall_prompts": 100,
    },
}  # fmt: skip
GIB = 2**30


def synthetic(case: dict[str, Any], place: Path) -> tuple[SamplingFolder, SamplingRequest]:
    """A run's folder whose embeddings are there."""
    from planner.sampling.run.job import Job

    values = dict(case)
    prompts, width = values.pop("prompts"), values.pop("width")
    request = SamplingRequest(prompts="-", model="-", **values)
    folder = SamplingFolder(place / "20000101-000000-synthe")
    folder.path.mkdir()
    (folder.path / "request.json").write_text(request.model_dump_json())
    setup = Setup(
        prompts=prompts, prompts_sha256="0" * 64, chats=False, width=width, model_folder="-",
        model="synthetic", identity="synthetic", cores=len(os.sched_getaffinity(0)),
    )  # fmt: skip
    (folder.path / SETUP).write_text(setup.model_dump_json())
    chunks = Job.of(folder.path).chunks
    chance = np.random.default_rng(0)
    for chunk in range(chunks.count):
        first, beyond = chunks.span(chunk)
        vectors = chance.standard_normal((beyond - first, width), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        chunks.write(chunk, vectors)
    return folder, request


def search(case: dict[str, Any], place: Path, parts: int) -> SamplingResult:
    """Calibrate and search, each in a process as a run has them; ``parts`` of it, or 0 for all."""
    folder, request = synthetic(case, place)
    for stage in ("calibrate", "search"):
        process = subprocess.Popen(
            [sys.executable, "-m", "planner.sampling.run.worker", str(folder.path), stage],
            env=worker_environment(request, (stage,)),
        )
        while process.poll() is None:
            time.sleep(1)
            if parts and _found(folder) >= parts:
                process.kill()
                process.wait()
                print(f"{parts} parts; the search {_last(folder)}")
                break
        else:
            assert process.returncode == 0
    result = result_of(folder, "stopped", "", 0.0)
    recall = folder.path / "recall.json"
    if recall.exists():
        result = result.model_copy(update={"recall": json.loads(recall.read_text())})
    return result


def _found(folder: SamplingFolder) -> int:
    """Parts of a search that are there."""
    return len(list((folder.path / "neighbours").glob("neighbours-*.parquet")))


def _last(folder: SamplingFolder) -> str:
    """Where a search that was ended had come to, beside what was predicted of all of it."""
    events = [event for event in folder.progress() if event.get("stage") == "search"]
    spent = events[-1]["at"] - events[0]["at"]
    found = predicted(folder.path)
    stage = next(one for one in found.stages if one.name == "search") if found else None
    size = f"{stage.host_bytes / GIB:.3f}, {stage.seconds:.0f} s for all" if stage else "?"
    last = events[-1]
    return (
        f"had {last.get('peak_bytes', 0) / GIB:.3f} GiB at most (predicted {size}) after "
        f"{spent:.0f} s and {last.get('done')} prompts"
    )


def embedding(place: Path) -> SamplingResult:
    """The whole command on 2,000 prompts of a tiny model."""
    model = tiny_model(place / "model")
    chance = random.Random(0)
    prompts = place / "prompts.jsonl"
    with open(prompts, "w", encoding="utf-8") as file:
        for _ in range(2_000):
            words = " ".join(f"w{chance.randrange(2000)}" for _ in range(chance.randint(20, 250)))
            file.write(json.dumps({"prompt": words}) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "planner", "sampling", "run", str(prompts), "--model", str(model)]
        + ["--json"],
        env={**os.environ, "HEADROOM_DATA": str(place / "data")},
        stdout=subprocess.PIPE,
        check=True,
    )
    return SamplingResult.model_validate_json(done.stdout)


def tiny_model(folder: Path) -> Path:
    """A Llama of 4 layers with random weights, and a tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {"<unk>": 0, "<eos>": 1, **{f"w{number}": number + 2 for number in range(2000)}}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, unk_token="<unk>", eos_token="<eos>"
    ).save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=2048, hidden_size=256, intermediate_size=768, num_hidden_layers=4,
        num_attention_heads=4, num_key_value_heads=4,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def main(name: str, repeats: int = 1, parts: int = 0) -> None:
    """Measure a case so often, or so many parts of its search; medians say most."""
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="headroom-", dir=os.environ.get("TMPDIR")) as place:
            folder = Path(place)
            result = embedding(folder) if name == "embed" else search(CASES[name], folder, parts)
        load = os.getloadavg()[0]
        for stage in result.stages:
            before, peak = (
                (size or 0) / GIB for size in (stage.host_before_bytes, stage.host_peak_bytes)
            )
            most = stage.predicted_peak_bytes
            expected = "" if most is None else f" of {most / GIB:.3f}"
            told = "" if stage.predicted_seconds is None else f" of {stage.predicted_seconds:8.2f}"
            print(
                f"{stage.name:17} {stage.seconds:8.2f} s{told}; {before:.3f} GiB before, "
                f"{peak:.3f} at most{expected}, load {load:.1f}",
                flush=True,
            )
            if most and stage.host_peak_bytes:
                found.setdefault(f"{stage.name} RAM", []).append((stage.host_peak_bytes, most))
            if stage.predicted_seconds:
                found.setdefault(stage.name, []).append((stage.seconds, stage.predicted_seconds))
        print(f"recall {result.recall}")
        print(f"peak {result.measured_peak_bytes}, predicted {result.predicted_peak_bytes}")
    errors = {
        stage: round(statistics.median(told / spent - 1 for spent, told in pairs), 3)
        for stage, pairs in found.items()
    }
    print(json.dumps({"case": name, "repeats": repeats, "predicted / measured - 1": errors}))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
