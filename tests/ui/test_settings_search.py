"""The search over settings: what is found by a name, the way to an input, what is not there yet."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from planner import Plan, estimate
from planner.plan.frameworks import frameworks
from planner.plan.plan import ROWS
from planner.ui.inputs.groups import GROUPS, SECTIONS
from planner.wording import subjects
from planner.wording.subjects import OTHERS, Subject, find
from ui.opened_pages import field, has, link_of, opened, words

IN_SIGHT = {name for section in SECTIONS for row in section.inputs for name in row} | {"model"}


def keys(text: str) -> list[str]:
    return [one.key for one in find(text)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("ulysses", "context_parallel"),
        ("Ulises", "context_parallel"),
        ("clip", "clipping"),
        ("kv cache", "kv_cache_dtype"),
        ("KV-cache", "kv_cache_dtype"),
        ("slurm", "slurm"),
        ("kubernetes", "schedulers"),
        ("turns", "turns"),
        ("openrlhf", "OpenRLHF"),
        ("unsloth", "unsloth"),
        ("vision", "vision"),
        ("oom", "oom"),
        ("ppo_mini_batch_size", "prompts_per_update"),
        ("gradient checkpontng", "gradient_checkpointing"),
        ("lr", "learning rate"),
        ("FSDP", "sharding"),
    ],
)
def test_what_people_type_finds_what_they_mean(text: str, first: str) -> None:
    assert keys(text)[0] == first


def test_a_name_of_two_things_finds_both() -> None:
    assert keys("TP") == ["rollout_tensor_parallel", "tensor_parallel"]
    assert {"method", "resampling_factor", "clipping"} <= {*keys("DAPO")}
    assert keys("xyzzy") == []


def test_every_input_can_be_found_and_every_name_is_of_one() -> None:
    found = {one.key for one in subjects.subjects()}
    assert IN_SIGHT | {name for group in GROUPS for name in group.fields} <= found
    assert {name for name, row in ROWS.items() if row.synonyms or row.only_time} <= found
    for framework in frameworks().values():
        assert {*framework.words, *framework.beside} <= found
    assert len({one.key for one in OTHERS}) == len(OTHERS)


MISSING = [one for one in subjects.subjects() if one.missing]


@pytest.mark.parametrize("subject", MISSING, ids=lambda one: one.key)
def test_what_is_missing_says_so_and_what_to_do_meanwhile(subject: Subject) -> None:
    lacks, _, then = subject.says.partition(". Meanwhile ")
    assert lacks.startswith(("Headroom ", "Launch ")) and then.endswith(".")


CHANGES = {"steps": 900, "price_per_gpu_hour": 9.0, "resampling_factor": 3.0, "reward_seconds": 2.0}


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.only_time])
@pytest.mark.parametrize("more", [{}, {"method": "ppo"}, {"finetuning": "lora"}], ids=str)
def test_what_is_said_to_change_no_memory_changes_none(name: str, more: dict[str, str]) -> None:
    timed = {"reward_seconds": 1.0, "save_steps": 100, "eval_steps": 50}
    given: dict[str, Any] = {"method": "grpo", **more, **timed}
    base = Plan(**given)
    other = base.changed(**{name: CHANGES.get(name, getattr(base, name) + 7)})

    def peaks(plan: Plan) -> list[tuple[str, int]]:
        return [(phase.name, phase.device_bytes) for phase in estimate(plan).phases]

    assert peaks(other) == peaks(base) and other != base


def test_names_beside_the_plan_are_the_frameworks_own() -> None:
    sources = {"trl": ("trl/trainer", "transformers/training_args.py"), "verl": ("verl",)}
    for name, places in sources.items():
        package = pytest.importorskip(name)
        packages = Path(str(package.__file__)).parents[1]
        roots = [packages / place for place in places]
        found = [each for root in roots for each in (root, *root.rglob("*"))]
        files = [each for each in found if each.suffix in (".py", ".yaml")]
        text = "\n".join(file.read_text("utf-8") for file in files)
        named = [word.short for word in frameworks()[name].beside.values()]
        assert not [option for option in named if option not in text]


def led(app: AppTest) -> list[str]:
    """The inputs that the browser is told to show."""
    bodies = [one.proto.body for one in app.get("html")]
    return [found[1] for body in bodies if (found := re.search(r'escape\("(\w+)"\)', body))]


def test_a_result_opens_its_group_and_leads_to_the_input() -> None:
    app = opened(v="1", preset="grpo-7b@1")
    assert not has(app, "kv_cache_dtype")
    app.text_input(key="find").set_value("kv cache").run()
    assert "verl: `actor_rollout_ref.rollout.engine_kwargs.vllm.kv_cache_dtype`" in words(app)
    before = link_of(app)
    app.button(key="open-kv_cache_dtype").click().run()
    assert has(app, "kv_cache_dtype") and link_of(app) == before
    assert led(app) == ["kv_cache_dtype"]
    field(app, "gpus").set_value(16).run()  # nobody is led there again
    assert led(app) == [] and has(app, "kv_cache_dtype")


def test_a_field_without_effect_says_why_in_place_of_the_way() -> None:
    app = opened(v="1", preset="sft-8b@1")
    app.text_input(key="find").set_value("kv cache").run()
    assert "no effect in this plan: no vLLM engine generates" in words(app)
    assert not [button for button in app.button if button.key == "open-kv_cache_dtype"]


def test_what_is_missing_is_said_and_never_in_green() -> None:
    app = opened(v="1", preset="grpo-7b@1")
    app.text_input(key="find").set_value("kubernetes").run()
    said = next(one for one in app.markdown if "Kubernetes" in one.value)
    assert ":orange" in said.value and "green" not in said.value
    assert "Launch writes jobs for Slurm and Ray alone. Meanwhile" in words(app)
    app.text_input(key="find").set_value("blargh").run()
    assert "No setting here is called “blargh”" in words(app)
