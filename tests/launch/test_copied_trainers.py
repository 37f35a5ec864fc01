"""A trainer copied from another method's: it says what makes it its own, or writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipes import product, run

FOLDER = {
    "__init__.py": """from dataclasses import replace

from planner.methods.grpo import METHOD as GRPO

METHOD = replace(
    GRPO, name="another", title="Another", label="Another", order=99, variations={}
)
""",
    "memory.py": "from planner.methods.grpo.memory import phases as phases\n",
    "step.py": "from planner.methods.grpo.step import step as step\n",
}
COPIED = "from planner.frameworks.{}.trainers.grpo import TRAINER as TRAINER\n"
TOLD = COPIED + """from dataclasses import replace

TRAINER = replace(TRAINER, variations={{"another": {}}})
"""
SETTINGS = {
    "trl": ({"loss_type": "dr_grpo"}, "loss_type: dr_grpo", "-m trl.scripts.grpo"),
    "verl": (
        {"algorithm.norm_adv_by_std_in_grpo": False},
        "algorithm.norm_adv_by_std_in_grpo=False",
        "algorithm.adv_estimator=grpo",
    ),
}
"""What makes it another method, as the framework is told, and the command that it is told to."""


@pytest.mark.parametrize("framework", SETTINGS)
def test_a_copied_command_is_refused_until_it_says_what_makes_it_another(
    framework: str, tmp_path: Path
) -> None:
    copy, (settings, written, command) = product(tmp_path), SETTINGS[framework]
    folder = copy / "planner/methods/another"
    folder.mkdir()
    for name, text in FOLDER.items():
        (folder / name).write_text(text, "utf-8")
    room = copy / f"planner/frameworks/{framework}/trainers/another.py"
    launch = ("-m", "planner", "launch", "--framework", framework)
    asked = f"framework={framework}&model=Qwen/Qwen2.5-0.5B&gpus=1&kl=none&method="
    room.write_text(COPIED.format(framework), "utf-8")
    label = {"trl": "TRL", "verl": "verl"}[framework]
    said = run(copy, *launch, f"{asked}another", status=2)
    assert f"{label}'s command is GRPO's: nothing in it makes it Another." in said
    own = run(copy, *launch, f"{asked}grpo")
    assert command in own and written not in own
    room.write_text(TOLD.format(framework, settings), "utf-8")
    said = run(copy, *launch, f"{asked}another")
    assert command in said and written in said
