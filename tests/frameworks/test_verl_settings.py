"""verl's table of settings against verl's own YAML and dataclasses."""

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from planner.frameworks.verl.settings import SETTINGS, known, no_effect
from planner.frameworks.verl.settings.rollout import ONE_STEP_OFF
from planner.frameworks.verl.settings.rows import Added
from planner.frameworks.verl.words import BESIDE, WORDS
from planner.plan import FIELDS
from planner.plan.methods import methods
from planner.plan.trainers import trainer_of

found = find_spec("verl")
assert found is not None and found.submodule_search_locations
PACKAGE = Path(found.submodule_search_locations[0])
YAML = PACKAGE / "trainer" / "config"
ROWS = {row.name: row for row in SETTINGS}
NOT_COMPOSED = ("hydra.searchpath",)
"""Hydra takes it out of what it composes."""


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@cache
def composed(folder: str, name: str, *words: str) -> dict[str, Any]:
    """verl's own defaults, as its YAML writes them."""
    with initialize_config_dir(str(PACKAGE / folder), version_base=None):
        config = compose(name, overrides=list(words))
    values = OmegaConf.to_container(config, resolve=False)
    assert isinstance(values, dict)
    return dict(_leaves({str(key): value for key, value in values.items()}))


def _usual() -> dict[str, Any]:
    return composed("trainer/config", "ppo_trainer")


def _one_step_off() -> dict[str, Any]:
    searched = "hydra.searchpath=[pkg://verl.trainer.config]"
    folder = "experimental/one_step_off_policy/config"
    return composed(folder, "one_step_off_ppo_trainer", searched)


def _listed(name: str) -> bool:
    """Whether the list has a name itself; what merely nests below a line of it does not count."""
    lines = (re.escape(line).replace(r"\*", ".*") for line in no_effect())
    return any(re.fullmatch(line, name) for line in lines)


def test_every_setting_of_the_yaml_has_a_row_or_stands_in_the_list() -> None:
    assert len(ROWS) == len(SETTINGS)
    assert len(_usual()) > 800
    names = {*_usual(), *_one_step_off()}
    assert not [name for name in names if name not in ROWS and not _listed(name)]


def test_a_new_setting_would_be_seen() -> None:
    assert not _listed("actor_rollout_ref.actor.new_memory_saver")
    assert not _listed("actor_rollout_ref.rollout.multi_turn.new_limit")


def test_defaults_are_the_yamls() -> None:
    usual = _usual()
    assert {name: usual[name] for name in ROWS if name in usual} == {
        name: row.default for name, row in ROWS.items() if name in usual
    }


def test_the_program_for_an_engine_apart_has_these_defaults_otherwise() -> None:
    usual, apart = _usual(), _one_step_off()
    assert {name: apart[name] for name in usual if apart[name] != usual[name]} == ONE_STEP_OFF
    more = {name: value for name, value in apart.items() if name not in usual}
    assert more == {name: ROWS[name].default for name in more} and len(more) == 2


def test_a_plus_is_for_what_the_yaml_has_not() -> None:
    yaml = {*_usual(), *_one_step_off(), *NOT_COMPOSED}
    assert {name for name, row in ROWS.items() if isinstance(row, Added)} == ROWS.keys() - yaml


def test_sources_name_the_lines_of_the_settings() -> None:
    for name, row in ROWS.items():
        file, _, line = row.source.partition(":")
        path = YAML / file if (YAML / file).exists() else PACKAGE / file
        text = path.read_text("utf-8").splitlines()[int(line) - 1]
        assert any(part in text for part in name.split(".")[-3:]), (name, row.source, text)


ROLES = {
    "actor_rollout_ref.actor": "FSDPActorConfig",
    "actor_rollout_ref.actor.fsdp_config": "FSDPEngineConfig",
    "actor_rollout_ref.actor.optim": "FSDPOptimizerConfig",
    "actor_rollout_ref.rollout": "RolloutConfig",
    "actor_rollout_ref.model": "HFModelConfig",
    "critic": "FSDPCriticConfig",
    "critic.fsdp": "FSDPEngineConfig",
    "critic.model": "HFModelConfig",
    "algorithm": "AlgoConfig",
    "reward": "RewardConfig",
    "reward.reward_model": "RewardModelConfig",
}
"""Classes that verl makes of parts of its configuration; read, since importing them starts ray."""


def _classes() -> dict[str, tuple[list[str], list[str]]]:
    files = [*(PACKAGE / "workers" / "config").glob("*.py"), YAML / "config.py"]
    files += [YAML / "algorithm.py", PACKAGE / "base_config.py"]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    return {
        node.name: (
            [base.id for base in node.bases if isinstance(base, ast.Name)],
            [
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            ],
        )
        for node in nodes
        if isinstance(node, ast.ClassDef)
    }


def _fields(name: str, classes: Mapping[str, tuple[list[str], list[str]]]) -> set[str]:
    bases, own = classes.get(name, ([], []))
    return {*own}.union(*(_fields(base, classes) for base in bases))


@pytest.mark.parametrize(("role", "name"), ROLES.items())
def test_every_field_of_the_dataclasses_has_a_row_or_stands_in_the_list(
    role: str, name: str
) -> None:
    fields = _fields(name, _classes())
    assert len(fields) > 3
    parents = {part for full in (*_usual(), *ROWS) for part in _parents(full)}
    left = [field for field in fields if f"{role}.{field}" not in parents]
    assert not [field for field in left if not known(f"{role}.{field}")]


def _parents(name: str) -> Iterator[str]:
    while name := name.rpartition(".")[0]:
        yield name


def test_rows_name_fields_that_plans_have_and_say_what_is_otherwise() -> None:
    for name, row in ROWS.items():
        assert {*row.fields} <= {*FIELDS}, name
        assert bool(row.fields) != bool(row.otherwise), name
        assert row.write is None or row.fields, name


def test_what_pages_call_fields_are_settings() -> None:
    options = {word.option for word in (*WORDS.values(), *BESIDE.values())}
    missing = {name for name in options if not known(name) and "megatron" not in name}
    assert missing <= {"algorithm.filter_groups"}
    assert all(field in ROWS[word.option].fields for field, word in WORDS.items())


def test_what_makes_variations_is_in_the_table() -> None:
    told = {
        name
        for method in methods()
        for settings in trainer_of("verl", method).variations.values()
        for name in settings
    }
    assert told and all("variation" in ROWS[name].fields for name in told)
