"""TRL's scripts and trainers read into a plan's fields: flags, YAML, a Python script's arguments.

What a launch is told is brought together as TRL's own parser has it: a configuration goes before
defaults, a flag before a configuration; what the script does not know goes to ``accelerate``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from planner.frameworks.trl import FRAMEWORK
from planner.frameworks.trl.naming import OLDER, spoken
from planner.frameworks.trl.packaged import ALL, PACKAGED
from planner.frameworks.trl.settings import all_settings, no_effect
from planner.importer.flags import flags
from planner.importer.given import Given, Launch, Word
from planner.importer.huggingface.calls import argument, owners
from planner.importer.huggingface.launches import (
    ENV,
    FEW,
    NOTHING,
    Files,
    Table,
    ask,
    beside,
    configuration,
    reading_of,
)
from planner.importer.reading import Entry, Reading, read
from planner.launch.huggingface import table, training
from planner.plan.methods import methods
from planner.plan.trainers import trainer_of
from planner.values.setting import Setting

REWARD = "REWARD_URL"
"""The variable by which a reward file of our own finds its service."""
ASKED = {
    "model": "model_name_or_path",
    "gpu": "",
    "gpus": "accelerate.num_processes",
    "prompt_tokens": "vllm_max_model_length",
    "steps": "max_steps",
    "rollout_gpus": "vllm.tensor_parallel_size",
}
"""Fields that no default is good for, and the setting that would say them."""


def classes() -> dict[str, str]:
    """Methods by the class of their arguments: ``GRPOConfig``."""
    trainers = {name: trainer_of(FRAMEWORK.name, name).own for name in methods()}
    return {own.config: name for name, own in trainers.items() if own is not None}


def by_call() -> dict[str, str]:
    """Methods by either class that a script may call: ``GRPOConfig``, ``GRPOTrainer``."""
    own = {name: trainer_of(FRAMEWORK.name, name).own for name in classes().values()}
    return {**classes(), **{each.trainer: name for name, each in own.items()}}


def takes(launch: Launch, files: Files = NOTHING) -> bool:
    """Whether a launch is of TRL, whatever it trains."""
    own = launch.program.startswith((f"{FRAMEWORK.name} ", f"{FRAMEWORK.name}.scripts."))
    return own or bool(method_of(launch, files))


def alone(files: Files) -> Launch | None:
    """The command that takes a configuration or a script which is given by itself."""
    by_class = {method: config for config, method in classes().items()}
    shared = {row.name for row in training.TRAINING}
    for name, givens in files.items():
        launch = Launch(name, ())
        if takes(launch, files):
            return launch
        told = {one.name for one in givens}
        known = {method: told & {row.name for row in all_settings(method)} for method in by_class}
        best = max(known, key=lambda method: len(known[method]))
        own = (told & {*known[best], *no_effect()}) - shared - {*table.no_effect()}
        if len(known[best]) >= FEW and own:
            script = by_class[best].removesuffix("Config").lower()
            return Launch(f"{FRAMEWORK.name} {script}", (Word("--config"), Word(name)))
    return None


def rows(launch: Launch, files: Files) -> Sequence[Setting]:
    """The table of what a launch trains."""
    return all_settings(method_of(launch, files))


def words(row: Setting, value: object, call: str = "") -> tuple[Any, ...]:
    """A setting as arguments of the command, or of a call; none where a file alone can have it."""
    if call:
        own = next((one for one in classes() if call.endswith(one)), "")
        name = argument(row, call, spoken(own))
        return (name, value) if name else ()
    return () if "." in row.name else (f"--{row.name}", str(value))


def method_of(launch: Launch, files: Files) -> str:
    """The method that a launch trains by TRL, by its script or its arguments' class; else empty."""
    by_class, calls = classes(), by_call()
    scripts = {name.removesuffix("Config").lower(): method for name, method in by_class.items()}
    program = launch.program.replace("/", ".").removesuffix(".py")
    package, _, last = program.rpartition(".")
    found = owners(beside(files, launch.program))
    named = next((calls[name] for name in sorted(found, key=by_class.__contains__, reverse=True)
                  if name in calls), "")
    if named or program.startswith("trl "):
        return named or scripts.get(program.removeprefix("trl "), "")
    method = scripts.get(last, "")
    own = package.endswith(("trl.scripts", "examples.scripts"))
    return method if method and (own or _speaks(launch, files, method)) else ""


def _speaks(launch: Launch, files: Files, method: str) -> bool:
    """Whether a script of a trainer's name is told what that trainer takes."""
    told = [*flags(launch.arguments, ())]
    for one in configuration(launch):
        told += beside(files, str(one.value))
    known = {row.name for row in all_settings(method)}
    return len({one.name for one in told} & known) >= FEW


def imported(
    launch: Launch, files: Files = NOTHING, servers: Iterable[Launch] = ()
) -> Reading:
    """A plan's fields, as far as a launch and its files say them.

    A trainer of TRL's that is not planned gives no field: its settings are listed as unknown.

    Args:
        launch: One that this module :func:`takes`.
        files: What files give, by the paths that the launch has for them or their last parts: its
            ``--config``, accelerate's and DeepSpeed's files, its script's arguments by call
            (``GRPOConfig.beta``, ``GRPOTrainer.0``).
        servers: Launches of an engine's server beside it.
    """
    method = method_of(launch, files)
    if not method:
        given = spoken("").settings(flags(launch.arguments, ()))
        reading = read((), (), given)
        own = f"{launch.program} is not planned: its settings are listed as they stand."
        reading.messages.append(own)
        return reading
    reading, givens = reading_of(launch, files, _table(launch, method), _beside(launch, servers))
    reading.messages += _remarks(givens)
    reading.beyond += _loaded_wide(reading)
    reading.plan |= {"framework": FRAMEWORK.name, "method": method}
    sampled = reading.plan.get("rollout", "none")
    needless = {"rollout_gpus"} if sampled != "vllm-separate" else set()
    needless |= {"prompt_tokens"} if sampled == "none" else set()
    ask(reading, {field: name for field, name in ASKED.items() if field not in needless})
    return reading


def _table(launch: Launch, method: str) -> Table:
    arguments = next(name for name, known in classes().items() if known == method)
    return Table(
        rows=(*all_settings(method), *OLDER),
        nothing=no_effect(),
        spoken=spoken(arguments),
        launches=launch.program.startswith(f"{FRAMEWORK.name} "),
        packaged=lambda name: {**ALL, **PACKAGED[name]} if name in PACKAGED else {},
    )


def _remarks(givens: Sequence[Given]) -> Iterator[str]:
    newest = f"{FRAMEWORK.label} {FRAMEWORK.versions[0]}"
    for name in sorted({one.name for one in givens} & {row.name for row in OLDER}):
        yield f"{name} is no setting of {newest}, whose step a plan has."
    if any(one.name.partition(".")[0] == ENV for one in givens):
        yield "Variables of a configuration's env block are not taken."


def _beside(launch: Launch, servers: Iterable[Launch]) -> Iterator[Given]:
    """Of an engine's server, and that there is a reward service, whatever its address."""
    yield from _served(servers)
    if word := launch.environment.get(REWARD):
        yield Given(f"environment.{REWARD}", word.text or f"${REWARD}", word.place)


def _served(servers: Iterable[Launch]) -> Iterator[Given]:
    for server in servers:
        for one in flags(server.arguments, ()):
            name = {"model": "model"}.get(one.name, one.name)
            yield replace(one, name=f"vllm.{name}") if one.name else replace(one, name="vllm.model")


def _loaded_wide(reading: Reading) -> Iterator[Entry]:
    """Of weights loaded in fp32 to be sharded a plan has the trained ones alone, not a reference.

    FSDP widens what it trains of weights in half precision; here everything was fp32 before.
    """
    plan = reading.plan
    whole = plan.get("reference") in ("copy", "offloaded")
    if whole and "fsdp" in plan.get("sharding", "") and plan.get("master_dtype") == "fp32":
        for one in (*reading.understood, *reading.from_defaults):
            if one.name == "dtype" and one.value == "float32":
                yield replace(one, why="More: the reference is in fp32, too; dtype halves it.")
