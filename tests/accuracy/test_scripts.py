"""The command that counts what is understood of a framework's own examples, over texts of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from accuracy.scripts import __main__ as command
from accuracy.scripts.repository import committed, runs

FILES = {
    "examples/run.sh": """python3 -m verl.trainer.main_ppo --config-name=mine \\
        actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
        actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4 trainer.device=npu \\
        actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4 trainer.nothing=1
""",
    "examples/config/mine.yaml": "defaults: [ppo_trainer, _self_]\n"
    "actor_rollout_ref: {rollout: {name: vllm, n: 4}}\nalgorithm: {adv_estimator: grpo}\n",
    "examples/train.py": '''"""
Two runs.

```
python examples/train.py \\
    --longest 128
```
CUDA_VISIBLE_DEVICES=0 trl vllm-serve --model a
python examples/train.py
"""
GRPOTrainer("Qwen/Qwen3-0.6B", args=GRPOConfig(num_generations=2))
''',
    "examples/tuning/left.sh": "python3 -m verl.trainer.main_ppo data.train_batch_size=4",
    "examples/data.py": "load_dataset('x')",
    "examples/notes.txt": "none",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "one")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path / ".git"


def test_runs_are_what_a_person_would_give(repository: Path) -> None:
    files = committed(repository, "HEAD", ["examples"])
    assert {*files} == {*FILES} - {"examples/notes.txt"}
    (shell,) = runs("examples/run.sh", files)
    assert [*shell.texts] == ["run.sh", "mine.yaml"]
    first, second = runs("examples/train.py", files)
    assert ["--longest" in one.texts["command.sh"] for one in (first, second)] == [True, False]
    assert all("vllm-serve" in one.texts["command.sh"] for one in (first, second))
    assert first.texts["train.py"] == FILES["examples/train.py"]


def test_a_section_of_the_document(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "examples.md"
    document.write_text("# Before\n\n## verl\nold\n\n## other\nkept\n", "utf-8")
    monkeypatch.setattr(command, "DOCUMENT", document)
    words = ["verl", str(repository), "HEAD", "examples", "--without", "examples/tuning"]
    monkeypatch.setattr(sys, "argv", ["scripts", *words, "--url", "https://a"])
    command.main()
    text = document.read_text("utf-8")
    assert "old" not in text and "## other\nkept" in text
    # Three words, and the configuration's three and its base; the rows of a data set are asked for;
    # a device that is not planned; a setting of nobody's.
    assert "| examples/run.sh | 1 | 7 | 1 | 1 | 1 | 0 | 1 |" in text
    assert "| examples/data.py | 1 | | | | 0 | | nothing |" in text
    assert "mine.yaml" not in text and "tuning/left.sh" not in text
    (row,) = (line for line in text.splitlines() if line.startswith("| examples/train.py"))
    assert row.startswith("| examples/train.py | 2 | 4 |")
