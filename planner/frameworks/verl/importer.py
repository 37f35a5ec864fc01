"""A command that starts verl's trainer, as fields of a plan.

Hydra's own parser reads its overrides; no file is composed and nothing is looked up outside of
the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from planner.frameworks.verl import FRAMEWORK
from planner.frameworks.verl.settings import SETTINGS, known, no_effect
from planner.frameworks.verl.settings.engine import OPTIM, looped
from planner.frameworks.verl.settings.hydra_words import Words, parsed
from planner.frameworks.verl.settings.interpolation import Resolved, Unresolved
from planner.frameworks.verl.settings.older import older
from planner.frameworks.verl.settings.rollout import ONE_STEP_OFF
from planner.frameworks.verl.settings.rows import CRITIC, MODEL, Added
from planner.frameworks.verl.settings.run import TRAIN_FILES, VAL_FILES
from planner.importer.given import Further, Given, Launch, Open, Word
from planner.importer.kinds import flat
from planner.importer.models import cataloged
from planner.importer.reading import NOTHING, Entry, Files, Reading, asked, listed, read
from planner.units import read_listed
from planner.values.setting import Setting

PROGRAMS: dict[str, dict[str, Any]] = {
    "verl.trainer.main_ppo": {},
    "verl.experimental.one_step_off_policy.main_ppo": ONE_STEP_OFF,
}
"""What trains, and the defaults that it has otherwise than the table."""
CONFIGS = {
    "ppo_trainer": "dp",
    "one_step_off_ppo_trainer": "dp",
    "ppo_megatron_trainer": "megatron",
    "one_step_off_ppo_megatron_trainer": "megatron",
}
"""Names of verl's own configurations, and the engine that each trains with."""
ENGINES = {"megatron": "Megatron", "veomni": "VeOmni", "torchtitan": "TorchTitan"}
"""Engines with settings of their own, by the part of a name that says whose they are."""
RENAMED = {
    "critic.model.fsdp_config.": "critic.fsdp.",
    "custom_reward_function.": "reward.custom_reward_function.",
    "reward_model.model.path": "reward.reward_model.model_path",
    "reward_model.num_workers": "reward.num_workers",
    "reward_model.reward_manager": "reward.reward_manager.name",
    "reward_model.reward_kwargs.": "reward.reward_kwargs.",
    "reward_model.sandbox_fusion.": "reward.sandbox_fusion.",
    "reward_model.": "reward.reward_model.",
    "sandbox_fusion.": "reward.sandbox_fusion.",
}
"""Old names, and what verl 0.9.1 makes of them (experimental/reward_loop/reward_loop.py,
migrate_legacy_reward_impl); the first it refuses."""
MODELS = (f"{MODEL}.path", f"{CRITIC}.model.path", "reward.reward_model.model_path")
DICTIONARY = f"{OPTIM}.override_optimizer_config", f"{CRITIC}.optim.override_optimizer_config"
"""Settings whose value is a dictionary, which nothing takes apart."""
GPU = Entry("gpu", None, ("gpu",), opens=(Open("type of the GPUs"),))
"""No script says it."""
NODE = Entry("gpus_per_node", None, ("gpus_per_node",), opens=(Open("GPUs of a whole node"),))
"""Of a run on a part of one."""
OWN = ("actor_rollout_ref.", "data.", "algorithm.", "critic.")
"""What names of a configuration of verl's trainer begin with."""
FEW = 3
"""As many of them make a file such a configuration."""
EASY_R1 = "verl.trainer.main"
"""A fork's program, which takes other settings."""
ALLOCATORS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


def takes(launch: Launch, files: Files = NOTHING) -> bool:
    """Whether a command is of verl, whatever it trains: also of a program that is built on it."""
    its = sum(word.text.lstrip("+~").startswith(OWN[0]) for word in launch.arguments)
    module = _module(launch)
    return (module.split(".")[0] == FRAMEWORK.name and module != EASY_R1) or its >= FEW


def alone(files: Files) -> Launch | None:
    """The command that takes a configuration of verl's trainer, where one is given by itself."""
    for path, givens in files.items():
        its = any(one.name.startswith(OWN[0]) for one in givens)
        if its and sum(one.name.startswith(OWN) for one in givens) >= FEW:
            return Launch(next(iter(PROGRAMS)), (Word("--config-name"), Word(_stem(path))))
    return None


def imported(
    launch: Launch, files: Files = NOTHING, servers: Iterable[Launch] = ()
) -> Reading:
    """What a command of verl says of a plan.

    A program of verl's that is not planned gives no field: its settings are listed as unknown.

    Args:
        launch: One that this module :func:`takes`.
        files: What files give, by their paths: the one that ``--config-name`` asks for.
        servers: Launches beside it, of which verl needs none.
    """
    words = parsed(launch.arguments)
    module = _module(launch)
    if module not in PROGRAMS:
        return listed(module, words.givens)
    givens = [*_flat(map(_renamed, [*_configured(words, files), *words.givens]))]
    # Settings of Megatron's are of its configuration alone: another refuses them.
    megatrons = any(".megatron." in one.name for one in givens)
    if megatrons and not any(one.name == "model_engine" for one in givens):
        givens.insert(0, Given("model_engine", "megatron"))
    rows, givens = resolved(PROGRAMS[module], givens)
    reading = read(rows, no_effect(), givens)
    _complete(reading, launch, words, {row.name: row.default for row in rows} | _values(givens))
    return reading


def rows(launch: Launch, files: Files) -> Sequence[Setting]:
    """The table."""
    return SETTINGS


def further(row: Setting, value: object, launch: Launch, files: Files) -> Further:
    """A setting as an argument of the command, which goes before its configuration."""
    written = "null" if value is None else value
    return Further(words=(f"{'+' * isinstance(row, Added)}{row.name}={written}",))


def _configured(words: Words, files: Files) -> list[Given]:
    """What the configuration says that a command asks for by name, and those that it is based on.

    One that is not here is listed as unknown, by the option that names it.
    """
    if words.config is None:
        return []
    name = str(words.config.value)
    if name in CONFIGS:
        return [replace(words.config, name="model_engine", value=CONFIGS[name])]
    own = [given for path, told in files.items() if _stem(path) == name for given in told]
    told = [given.value for given in own if given.name == "defaults"]
    bases = [base for value in told if isinstance(value, list) for base in value]
    engine = [CONFIGS[base] for base in bases if isinstance(base, str) and base in CONFIGS]
    whole = not told and sum(one.name.startswith(OWN) for one in own) >= FEW
    if engine or whole:
        found = [given for given in own if not given.name.startswith(("defaults", "hydra."))]
        return [*(Given("model_engine", one) for one in engine[:1]), *found]
    words.messages.append(
        f"{name[:80]} is no configuration of verl's, nor beside the script and based on one: what "
        "it says is not read, and defaults are verl's. Give the file, too."
    )
    return [replace(words.config, opens=(*words.config.opens, Open(name[:80])))]


def _stem(path: str) -> str:
    return PurePosixPath(path).stem


def _module(launch: Launch) -> str:
    """The program as a module's name, also where it is started by its file."""
    name = launch.program.removesuffix(".py").replace("/", ".")
    begin = name.rfind(f"{FRAMEWORK.name}.")
    return name[max(begin, 0) :] if begin <= 0 or name[begin - 1] == "." else name


def _values(givens: Iterable[Given]) -> dict[str, Any]:
    return {one.name: one.value for one in givens if not asked(one.opens)}


def _renamed(given: Given) -> Given:
    """Under its present name, where verl still knows it by one."""
    for old, new in RENAMED.items():
        if given.name.startswith(old) if old.endswith(".") else given.name == old:
            name = new + given.name.removeprefix(old)
            return replace(given, name=name) if known(name) else given
    return given


def _of_model(given: Given) -> Given:
    return given if given.name not in MODELS or given.value is None else cataloged(given)


def _flat(givens: Iterable[Given]) -> Iterator[Given]:
    """Entries of dictionaries as settings of their own, and an optimizer's options as one."""
    options: dict[str, Given] = {}
    for given in flat(givens, DICTIONARY):
        owner = next((name for name in DICTIONARY if given.name.startswith(f"{name}.")), "")
        if not owner:
            yield given
            continue
        before = options.get(owner)
        had = before.value if before and isinstance(before.value, dict) else {}
        key = given.name.removeprefix(f"{owner}.")
        opens = (*(before.opens if before else ()), *given.opens)
        options[owner] = Given(owner, {**had, key: given.value}, opens=opens)
    yield from options.values()


def resolved(
    defaults: dict[str, Any], givens: list[Given]
) -> tuple[list[Setting], list[Given]]:
    """Rows and givens with what they take from each other."""
    rows = {row.name: row for row in SETTINGS}
    usual = {name: defaults.get(name, row.default) for name, row in rows.items()}
    known_values = _values(givens)
    asked = {given.name for given in givens} - known_values.keys()
    found = Resolved({**usual, **known_values}, asked)
    told = [_said(found, given) if given.name in rows else given for given in givens]
    found = Resolved({**usual, **_values(told)})
    default = {name: found.filled(name, value) for name, value in usual.items()}
    settings = [replace(row, default=default[name]) for name, row in rows.items()]
    steps = found.value("trainer.total_training_steps")
    validates = found.value("trainer.test_freq")
    if steps is None:
        told = _asked(told, TRAIN_FILES, usual)
    if isinstance(validates, int) and validates > 0:
        told = _asked(told, VAL_FILES, usual)
    return settings, told


def _said(found: Resolved, given: Given) -> Given:
    try:
        return _of_model(replace(given, value=found.filled(given.name, given.value)))
    except Unresolved:
        return replace(given, opens=(*given.opens, Open(str(given.value))))


def _asked(givens: list[Given], name: str, usual: dict[str, Any]) -> list[Given]:
    """A data set whose rows decide a field: how many there are, nobody said."""
    given = next((one for one in reversed(givens) if one.name == name), None)
    given = given or Given(name, usual[name])
    others = [one for one in givens if one.name != name]
    return [*others, replace(given, opens=(*given.opens, Open(f"rows of {name}")))]


def _complete(reading: Reading, launch: Launch, words: Words, said: dict[str, Any]) -> None:
    """What verl does whatever is set, what the command's surroundings say, and what nobody does."""
    refused = []
    for entry in [*reading.unknown]:
        label = next((ENGINES[part] for part in entry.name.split(".") if part in ENGINES), "")
        before = older(entry.name, entry.value)
        why = before or ""
        if label:
            why = f"A setting of {label}'s, whose memory and seconds are not planned."
        if why or before is not None:
            reading.unknown.remove(entry)
            (reading.beyond if why else reading.no_effect).append(replace(entry, why=why))
        if before is not None:
            refused.append(entry.name)
    if refused:
        reading.messages.append(
            f"{FRAMEWORK.label} {FRAMEWORK.versions[0]} no longer has {read_listed(refused)}, and "
            "refuses what it does not have."
        )
    reading.plan |= {"framework": FRAMEWORK.name, "empty_cache": "between-phases"}
    allocators = [launch.environment[name] for name in ALLOCATORS if name in launch.environment]
    if any("expandable_segments:true" in word.text.lower() for word in allocators):
        reading.plan["expandable_segments"] = True
    reading.open += [GPU] if "gpus_per_node" in reading.plan else [GPU, NODE]
    reading.messages += words.messages
    if any(given.name.startswith("critic.model.fsdp_config.") for given in words.givens):
        reading.messages.append(
            f"{FRAMEWORK.label} {FRAMEWORK.versions[0]} calls critic.model.fsdp_config critic.fsdp "
            "and refuses the old name."
        )
    if looped(said):
        reading.messages.append(
            "Torch steps AdamW tensor by tensor where override_optimizer_config says neither fused "
            "nor foreach: planned as fused, which holds as much and takes fewer seconds."
        )
