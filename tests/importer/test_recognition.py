"""Each text is taken for what it is, by its ending or by what stands in it."""

from __future__ import annotations

import pytest

from planner.importer.elsewhere import configured_for, trainer_of
from planner.importer.recognition import form_of

TEXTS = {
    "shell": "set -x\nMODEL=a/b\npython3 -m verl.trainer.main_ppo \\\n  data.train_batch_size=8\n",
    "python": "from trl import GRPOConfig\nargs = GRPOConfig('x', num_generations=8)\n",
    "yaml": "# mine\nmodel_name_or_path: a/b\nlora_target_modules:\n- q_proj\n- v_proj\n",
    "json": '{"zero_optimization": {"stage": 3}, "bf16": {"enabled": "auto"}}',
    "overrides": "data.train_batch_size=8 \\\n+actor_rollout_ref.actor.x=null \\\n~trainer.y\n",
    "printed": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
}


@pytest.mark.parametrize("form", TEXTS)
def test_a_pasted_text_without_a_name(form: str) -> None:
    assert form_of("", TEXTS[form]) == form


@pytest.mark.parametrize(
    ("name", "form"),
    [("run.sh", "shell"), ("a.SLURM", "shell"), ("c.yml", "yaml"), ("x.log", "printed")],
)
def test_a_known_ending_decides(name: str, form: str) -> None:
    assert form_of(name, TEXTS["json"]) == form


def test_requirements_are_no_overrides() -> None:
    assert form_of("requirements.txt", "trl==1.16.0\ntorch==2.13.0\n") == "printed"


def test_a_script_by_its_first_line_alone() -> None:
    assert form_of("", "#!/usr/bin/env bash\n./start a.b=1\n") == "shell"


@pytest.mark.parametrize("text", ["", "\n", "{", "[" * 100_000, "(" * 100_000, "\0", "a: " * 9])
def test_nothing_breaks_it(text: str) -> None:
    assert form_of("", text) in (*TEXTS,)


@pytest.mark.parametrize(
    ("program", "trainer"),
    [
        ("openrlhf.cli.train_ppo_ray", "OpenRLHF"),
        ("swift rlhf", "ms-swift"),
        ("llamafactory-cli", "LLaMA-Factory"),
        ("examples/run_grpo_math.py", "NeMo-RL"),
        ("verl.trainer.main_ppo", ""),
        ("train.py", ""),
        ("trl grpo", ""),
    ],
)
def test_whose_program_it_is(program: str, trainer: str) -> None:
    assert trainer_of(program) == trainer


def test_whose_configuration_it_is() -> None:
    assert configured_for({"stage", "finetuning_type", "bf16"}) == "LLaMA-Factory"
    assert configured_for({"bf16", "model_name_or_path"}) == ""
