"""Density-weighted GRPO on TRL: the program around its trainer, run as it is exported."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.neighbors import NearestNeighbors

from accuracy.cpu_runs import dry_peaks
from launch.running import PATHS, Tiny, Worker, read_by_trl, run, unpack
from planner.__main__ import main
from planner.dryrun.ask.request import configs_of
from planner.dryrun.ask.stand_in import stand_in
from planner.formulas.logits import tiles
from planner.launch.export import export, obstacles, weighable
from planner.launch.launch import CannotExpress
from planner.plan import Plan
from planner.sampling.ask.prompts import key_of, scan
from planner.sampling.ask.result import Provenance
from planner.sampling.ask.source import source_of
from planner.sampling.ask.weights import metadata

SIZES: dict[str, Any] = {
    "framework": "trl",
    "method": "grpo",
    "gpus": 1,
    "dtype": "fp32",
    "prompts_per_step": 2,
    "responses_per_prompt": 2,
    "micro_batch_size": 2,
    "prompt_tokens": 48,
    "response_tokens": 24,
    "rollout": "hf",
    "batch_shape": "padded",
    "steps": 2,
    "gradient_checkpointing": "none",
}


def _exported(folder: Path, weights: str = "online", **fields: Any) -> Path:
    plan = Plan(**{**SIZES, **fields})
    return unpack(export(plan, "trl", density_weights=weights), folder) / "density_grpo.py"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _exported(tmp_path_factory.mktemp("density"))


def _found(worker: Worker, program: Path, lines: str, **given: Any) -> Any:
    reply = worker.ask({"kind": "ask", "program": str(program), "lines": lines, "given": given})
    assert "error" not in reply, reply
    return reply["found"]


def test_distances_are_exact_and_no_prompt_is_its_own_neighbour(
    trl: Worker, program: Path
) -> None:
    made = np.random.default_rng(0)
    vectors = made.standard_normal((41, 6)).astype(np.float32)
    vectors[7] = vectors[11]  # a duplicate is a neighbour at no distance
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = _found(
        trl,
        program,
        "program.mean_distances.__globals__['TILE'] = 16\n"
        "found = program.mean_distances(torch.tensor(rows), 3, torch.device('cpu')).tolist()",
        rows=vectors.tolist(),
    )
    distances, places = NearestNeighbors(n_neighbors=4).fit(vectors).kneighbors(vectors)
    expected = [
        np.mean([d for d, other in zip(near, others, strict=True) if other != own][:3])
        for own, (near, others) in enumerate(zip(distances, places, strict=True))
    ]
    assert found == pytest.approx(expected, abs=1e-3)  # 32 bits, and duplicates


def test_rare_prompts_are_favoured(trl: Worker, program: Path) -> None:
    lines = "found = program.weights_of(torch.tensor(d, dtype=torch.float64), favour).tolist()"
    distances = [0.2, 0.1, 0.4, 0.0, 0.3]
    rare = _found(trl, program, lines, d=distances, favour="rare")
    # The fourth has nothing but duplicates: it counts as the nearest of the others.
    assert rare == pytest.approx([2 / 11, 1 / 11, 4 / 11, 1 / 11, 3 / 11])
    common = _found(trl, program, lines, d=distances, favour="common")
    assert common[1] == common[3] == max(common) and sum(common) == pytest.approx(1)
    assert _found(trl, program, lines, d=[0.0, 0.0], favour="rare") == [0.5, 0.5]


def test_padding_changes_no_embedding(trl: Worker, program: Path, qwen: Tiny) -> None:
    lines = """
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(folder).eval()
cpu = torch.device("cpu")
found = {
    (pooling, batch): program.embeddings(model, ids, pooling, batch, cpu)
    for pooling in ("hidden", "logits") for batch in (1, 3)
}
own = model(input_ids=torch.tensor([ids[0]])).logits[0].mean(0)
own = own / own.norm()
found = {
    "apart": max((found[p, 1] - found[p, 3]).abs().max().item() for p in ("hidden", "logits")),
    "by hand": (found["logits", 3][0] - own).abs().max().item(),
    "shapes": [list(found[p, 3].shape) for p in ("hidden", "logits")],
}
"""
    ids = [[5, 6, 7], [8, 9], list(range(3, 40)), [200]]
    found = _found(trl, program, lines, ids=ids, folder=str(qwen.folder / "model"))
    assert found["apart"] < 1e-5 and found["by hand"] < 1e-5
    assert found["shapes"] == [[4, 128], [4, 258]]


def test_prompts_are_drawn_by_weight_in_trls_own_repetition(trl: Worker, program: Path) -> None:
    lines = """
given = dict(data_source=range(400), mini_repeat_count=3, batch_size=5, repeat_count=2, seed=7)
weights = torch.tensor([0.0, 3.0, 1.0, 0.0] + [0.0] * 396)
one, other = (program.DensitySampler(weights, **given) for _ in range(2))
first = list(one)
found = [len(one), first, list(other) == first, list(one) == first]
"""
    length, drawn, alike, again = _found(trl, program, lines)
    assert length == len(drawn) == 400 * 3 * 2 and alike and not again
    counts = Counter(drawn)
    assert set(counts) == {1, 2} and 2.2 < counts[1] / counts[2] < 4.1  # 3 to 1, of 400 draws
    for start in range(0, len(drawn), 30):
        batch, repeated = drawn[start : start + 15], drawn[start + 15 : start + 30]
        assert batch == repeated
        assert all(len(set(batch[n : n + 3])) == 1 for n in range(0, 15, 3))


def test_two_steps_with_weights_of_its_own(trl: Worker, qwen: Tiny, tmp_path: Path) -> None:
    found = trl.ask(qwen.asked(_exported(tmp_path), "run"))
    assert "error" not in found, found
    assert found["ended"] == "" and "a prompt is drawn" in found["words"]
    weights = np.load(tmp_path / "out" / "weights.npy")
    assert len(weights) == 8 and weights.sum() == pytest.approx(1) and weights.std() > 0
    assert "rewards/compute_score/mean" in found["logs"][0]
    assert len(found["prompts"]) == 2  # a rollout each step


FOURTH = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
BOTH_LENGTHS = [0.06, 0.94, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
"""By seed 42 each of the first two steps draws the first prompt once, and the second once."""


def _sampled(qwen: Tiny, folder: Path, weights: list[float] = FOURTH, **changes: Any) -> Path:
    """The folder of a sampling run that ended with these weights."""
    file = scan(qwen.folder / "prompts.jsonl")
    made = Provenance(
        model="any name",
        identity=source_of(str(qwen.folder / "model")).identity,
        prompts_sha256=file.sha256,
        prompts=len(file),
        pooling="mean hidden states",
        width=128,
        dtype="fp32",
        model_dtype="fp32",
        prompt_tokens=48,
        neighbours=10,
        index="exact",
        lists=0,
        probes=0,
        favour="rare",
        created="2026-11-22T12:00:00Z",
    ).model_copy(update={name: each for name, each in changes.items() if name != "keys"})
    keys = [key_of(prompt) for prompt in file.read(0, len(file))]
    table = pa.table({"key": changes.get("keys", keys), "weight": weights})
    folder.mkdir()
    pq.write_table(table.replace_schema_metadata(metadata(made)), folder / "weights.parquet")
    return folder


@pytest.mark.parametrize("weights", [FOURTH, BOTH_LENGTHS])
def test_two_steps_with_weights_of_a_sampling_run(
    trl: Worker,
    qwen: Tiny,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weights: list[float],
) -> None:
    flags = ("--use-precomputed-embeddings", str(_sampled(qwen, tmp_path / "sampled", weights)))
    program = _exported(tmp_path, kl="loss")
    found = trl.ask(qwen.asked(program, "run", *flags, watch=["reference log-probs"]))
    assert "error" not in found, found
    assert found["ended"] == ""
    lines = (qwen.folder / "prompts.jsonl").read_text().splitlines()
    prompts = [json.loads(line)["prompt"] for line in lines]
    drawn = {prompt for prompt, weight in zip(prompts, weights, strict=True) if weight}
    assert [set(step) for step in found["prompts"]] == [drawn, drawn]
    if len(drawn) == 1:  # rows without padding are another plan's
        return
    monkeypatch.setattr(tiles, "VOCABULARY_TILE", 512)
    monkeypatch.setattr(tiles, "FP32_ROWS", 1)
    plan = Plan(**{**SIZES, "kl": "loss", "model": "tiny/it", "config": qwen.config})
    dry = dry_peaks(stand_in(plan).plan, configs_of(plan))
    # One update follows each rollout, so TRL itself leaves the pass of old log-probs out.
    assert set(dry) - set(found["peaks"]) == {"old log-probs"}
    apart = {name: dry[name] / live - 1 for name, live in found["peaks"].items()}
    assert not {name: one for name, one in apart.items() if abs(one) > 0.01}


@pytest.mark.parametrize(
    ("changes", "flags", "said"),
    [
        ({"identity": f"sha256 {'0' * 64}"}, (), "identity was sha256 000"),
        ({"prompts_sha256": "0" * 64}, (), "prompts_sha256 was 000"),
        ({}, ("--pooling", "logits"), "pooling was mean hidden states, is mean logits"),
        ({}, ("--neighbours", "5"), "neighbours was 10, is 5"),
        ({"prompt_tokens": 32}, (), "prompt_tokens was 32, is 48"),
        ({"favour": "common"}, (), "favour was common, is rare"),
        ({"keys": ["0" * 16] * 8}, (), "8 prompts are others, the first in row 0"),
    ],
)
def test_stale_weights_are_refused(
    trl: Worker,
    qwen: Tiny,
    tmp_path: Path,
    program: Path,
    changes: dict[str, Any],
    flags: tuple[str, ...],
    said: str,
) -> None:
    folder = _sampled(qwen, tmp_path / "sampled", **changes)
    words = ("--use-precomputed-embeddings", str(folder), *flags)
    found = trl.ask(qwen.asked(program, "run", *words))
    assert "is stale" in found["ended"] and said in found["ended"], found
    assert found["logs"] == []


def test_a_folder_without_weights_is_refused(
    trl: Worker, qwen: Tiny, tmp_path: Path, program: Path
) -> None:
    words = ("--use-precomputed-embeddings", str(tmp_path))
    assert "is not there" in trl.ask(qwen.asked(program, "run", *words))["ended"]
    (tmp_path / "weights.parquet").write_bytes(b"PAR1 of a stranger")
    assert "cannot be read" in trl.ask(qwen.asked(program, "run", *words))["ended"]


def test_trl_reads_the_settings(trl: Worker, tmp_path: Path) -> None:
    plan = Plan(**{**SIZES, "reward": "model", "responses_per_prompt": 4})
    reply = read_by_trl(trl, tmp_path, export(plan, "trl", density_weights="online"), plan)
    assert "error" not in reply, reply
    assert reply["values"]["num_generations"] == 4
    assert "reward.py" not in {path.name for path in tmp_path.iterdir()}


def test_a_hostile_folder_arrives_as_it_is(tmp_path: Path) -> None:
    name = "/a b'c\"d $(touch pwned) `touch pwned`; touch pwned #\n--x \\ é*"
    program = _exported(tmp_path, name)
    words = run(program.parent, **PATHS)[-1]
    assert words[words.index("--use-precomputed-embeddings") + 1] == name
    assert not list(tmp_path.rglob("pwned"))
    assert name not in program.read_text()


@pytest.mark.parametrize(
    ("framework", "fields", "named"),
    [
        ("trl", {"gpus": 16, "gpus_per_node": 8, "prompts_per_step": 16}, "gpus"),
        ("trl", {"method": "rloo", "kl": "reward"}, "method"),
        ("trl", {"method": "intuitor"}, "method"),
        ("trl", {"eval_steps": 20, "validation_responses": 64}, "eval_steps"),
        ("verl", {}, "framework"),
        ("plain", {}, "framework"),
    ],
)
def test_what_cannot_be_weighted_is_named(
    framework: str, fields: dict[str, Any], named: str
) -> None:
    plan = Plan(**{**SIZES, "rollout": "vllm-colocated", **fields})
    with pytest.raises(CannotExpress) as refused:
        export(plan, framework, density_weights="online")
    assert named in refused.value.fields
    added = obstacles(plan, framework, "online")[len(obstacles(plan, framework)) :]
    assert all(one.sentence.endswith(".") for one in added)
    assert weighable(plan, framework) is (named in ("gpus", "eval_steps"))


def test_the_command_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["launch", "grpo-7b@1", "--framework", "trl", "--out", str(tmp_path / "e")]
    assert main([*words, "--density-weights", "online"]) == 0
    assert "10 nearest neighbours" in capsys.readouterr().out
    script = (tmp_path / "e" / "launch.sh").read_text()
    assert "density_grpo.py" in script and "--use-precomputed-embeddings" not in script.split(
        "set -euo"
    )[1]
    words[-1] = str(tmp_path / "f")
    assert main([*words, "--density-weights", str(tmp_path / "run")]) == 0
    script = (tmp_path / "f" / "launch.sh").read_text()
    assert f"--use-precomputed-embeddings {tmp_path / 'run'}" in script
