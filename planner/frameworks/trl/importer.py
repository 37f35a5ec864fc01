"""TRL's scripts and trainers read into a plan's fields: flags, YAML, a Python script's arguments.

What a launch is told is brought together as TRL's own parser has it: a configuration goes before
defaults, a flag before a configuration; what the script does not know goes to ``accelerate``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from planner.frameworks.trl import FRAMEWORK
from planner.frameworks.trl.naming import MODEL, OLDER, as_settings, of_script
from planner.frameworks.trl.packaged import ALL, PACKAGED
from planner.frameworks.trl.scripts import alone as started_alone
from planner.frameworks.trl.scripts import (
    by_command,
    declared_in,
    judged,
    options_of,
    owners,
    said_anew,
    trainer_in,
)
from planner.frameworks.trl.settings import all_settings, no_effect
from planner.importer.flags import flags
from planner.importer.given import Further, Given, Launch, Open, Word
from planner.importer.huggingface import homes
from planner.importer.huggingface.launchers import Started, started
from planner.importer.huggingface.sharing import of_accelerate, shared
from planner.importer.kinds import gathered, of_kinds
from planner.importer.models import cataloged
from planner.importer.reading import NOTHING, Entry, Files, Reading, listed, read
from planner.launch.huggingface.table import with_defaults
from planner.plan.methods import methods
from planner.plan.trainers import trainer_of
from planner.values.setting import Setting

REWARD = "REWARD_URL"
"""The variable by which a reward file of our own finds its service."""
FEW = 3
"""So many settings of a trainer's make a file or a command its own."""
ENV = "env"
"""The block of a configuration that TRL's parser puts into the environment."""
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


def scripts() -> dict[str, str]:
    """Methods by the name of TRL's script: ``grpo``."""
    return {name.removesuffix("Config").lower(): method for name, method in classes().items()}


def trainers() -> set[str]:
    """Classes that train by a planned method."""
    return {name.replace("Config", "Trainer") for name in classes()}


def takes(launch: Launch, files: Files = NOTHING) -> bool:
    """Whether a launch is of TRL, whatever it trains."""
    own = launch.program.startswith((f"{FRAMEWORK.name} ", f"{FRAMEWORK.name}.scripts."))
    script = _beside(files, launch.program)
    return own or bool(method_of(launch, files) or trainer_in(script, trainers()))


def alone(files: Files) -> Launch | None:
    """The command that takes a configuration or a script which is given by itself."""
    for name, givens in files.items():
        launch = Launch(name, ())
        if takes(launch, files):
            return launch
        told = {one.name for one in givens}
        known = {
            script: len(told & {row.name for row in all_settings(method)})
            for script, method in scripts().items()
        }
        best = max(known, key=known.__getitem__)
        if known[best] >= FEW:
            return Launch(f"{FRAMEWORK.name} {best}", (Word("--config"), Word(name)))
    return None


def rows(launch: Launch, files: Files) -> Sequence[Setting]:
    """The table of what a launch trains."""
    return all_settings(method_of(launch, files))


def further(row: Setting, value: object, launch: Launch, files: Files) -> Further:
    """How a run is given a setting that nothing gives it yet."""
    own = trainer_of(FRAMEWORK.name, method_of(launch, files)).own
    assert own is not None
    return homes.further(row, value, launch, files, own.config)


def method_of(launch: Launch, files: Files) -> str:
    """The method that a launch trains by TRL, by its script or its arguments' class; else empty."""
    by_class = classes()
    program = launch.program.replace("/", ".").removesuffix(".py")
    package, _, last = program.rpartition(".")
    script = _beside(files, launch.program)
    trainer = trainer_in(script, trainers()).removesuffix("Trainer")
    found = (*owners(script), f"{trainer}Config")
    named = next((by_class[name] for name in found if name in by_class), "")
    if trainer and not named:
        return ""
    if named or program.startswith("trl "):
        return named or scripts().get(program.removeprefix("trl "), "")
    method = scripts().get(last, "")
    own = package.endswith(("trl.scripts", "examples.scripts"))
    return method if method and (own or _speaks(launch, files, method)) else ""


def _speaks(launch: Launch, files: Files, method: str) -> bool:
    """Whether a script of a trainer's name is told what that trainer takes."""
    told = [*flags(launch.arguments, ())]
    for one in [one for one in told if one.name == "config"]:
        told += _beside(files, str(one.value))
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
    script = _beside(files, launch.program)
    own = [*flags(launch.arguments, ())]
    if not method:
        reading = listed(
            trainer_in(script, trainers()) or launch.program, as_settings([*script, *own])
        )
        return reading
    trainer = trainer_in(script, trainers())
    if trainer and not own and _arguments(method) not in owners(script):
        return _by_command_alone(trainer, method, script)
    table = {row.name: row for row in (*all_settings(method), *OLDER) if _reads(row)}
    absent: list[Entry] = []
    wrong: list[Entry] = []
    told = [*_told(launch, files, method, table, absent), *_served(servers)]
    told, sharing = shared(
        map(_model, told), lambda one: _beside(files, one.value) or _missing(one, absent)
    )
    defaults = {**_launcher(launch).defaults, **sharing}
    rows = with_defaults(table.values(), defaults)
    told = _once((*told, *_variables(launch, table)), table)
    givens = [*of_kinds(gathered(told, rows), rows, wrong)]
    reading = read(rows, no_effect(), givens)
    reading.beyond += wrong
    reading.open += absent
    reading.messages += _remarks(givens)
    reading.beyond += _loaded_wide(reading)
    judged(reading)
    reading.plan |= {"framework": FRAMEWORK.name, "method": method}
    _ask(reading)
    if trainer:
        started_alone(reading, launch)
    return reading


def _by_command_alone(trainer: str, method: str, script: Sequence[Given]) -> Reading:
    """Of a script whose command says everything, and is not here."""
    known = {row.name for row in all_settings(method)}
    known |= {*no_effect()}
    told = [*of_script((one for one in script if not said_anew(one, known)), _arguments(method))]
    reading = read((), no_effect(), told)
    judged(reading)
    reading.understood.append(Entry(trainer, method, ("method",)))
    absent = "What the command says is not here: defaults stand in its place."
    reading.beyond.append(Entry(f"{trainer}.args", "", why=absent))
    reading.plan |= {"framework": FRAMEWORK.name, "method": method}
    reading.messages.append(
        f"{trainer}'s settings come from the command that starts this script, or from its "
        "--config: give that as well."
    )
    _ask(reading)
    return reading


def _arguments(method: str) -> str:
    """The class of a method's arguments."""
    return next(name for name, known in classes().items() if known == method)


def _remarks(givens: Sequence[Given]) -> Iterator[str]:
    newest = f"{FRAMEWORK.label} {FRAMEWORK.versions[0]}"
    for name in sorted({one.name for one in givens} & {row.name for row in OLDER}):
        yield f"{name} is no setting of {newest}, whose step a plan has."
    if any(_head(one) == ENV for one in givens):
        yield "Variables of a configuration's env block are not taken."


def _launcher(launch: Launch) -> Started:
    """``trl grpo`` is a launch by accelerate itself, with what the script does not know."""
    return Started() if launch.program.startswith("trl ") else started(launch)


def _model(one: Given) -> Given:
    return cataloged(one) if one.name in MODEL and isinstance(one.value, str) else one


def _reads(row: Setting) -> bool:
    """What only an export says is no setting of a reader."""
    return bool(row.fields) or bool(row.otherwise and row.name not in no_effect())


def _beside(files: Files, path: str) -> Sequence[Given]:
    """What a file gives, by its path or the last part of it."""
    return files.get(path) or files.get(PurePosixPath(path).name) or ()


def _told(
    launch: Launch, files: Files, method: str, table: Mapping[str, Setting], absent: list[Entry]
) -> list[Given]:
    """All settings of a launch; of two of one name the last counts."""
    known = {*table, *no_effect()}
    script, declared = declared_in(_beside(files, launch.program))
    taken = options_of(script) - (known - declared)
    own = [*flags(launch.arguments, {*taken, *(name for name in known if "." not in name)})]
    config = [one for one in own if one.name == "config"]
    own = [
        one if one.name else replace(one, name=f"argument {one.value}")
        for one in own
        if one.name != "config"
    ]
    found: list[Given] = []
    for one in config:
        found += _beside(files, str(one.value)) or _missing(one, absent)
    script = [one for one in script if not said_anew(one, known)]
    script = [*by_command(of_script(script, _arguments(method)), own)]
    # What a script takes for itself is no setting, whatever it is called.
    own = [
        replace(one, name=f"--{one.name}") if one.name in declared else one
        for one in own
        if one.name not in taken
    ]
    said = [*script, *as_settings(found), *as_settings(own)]
    heads = known | {"accelerate", "deepspeed"}
    by_script = [one for one in said if _head(one) in heads]
    rest = [one for one in said if _head(one) not in heads]
    by_trl = launch.program.startswith(f"{FRAMEWORK.name} ")
    passed_on = [one for one in rest if by_trl and _head(one) != ENV]
    left = [one for one in rest if not by_trl or _head(one) == ENV]
    launcher = [*_launcher(launch).options, *passed_on]
    options = [one for one in launcher if one.name not in homes.LAUNCHERS]
    inside: list[Given] = []
    for file in [one for one in launcher if one.name in homes.LAUNCHERS][-1:]:
        inside += [*_packaged(file)] or _beside(files, str(file.value)) or _missing(file, absent)
    return [*of_accelerate(inside, table), *of_accelerate(options, table), *by_script, *left]


def _packaged(file: Given) -> Iterator[Given]:
    """Of the name of a configuration that TRL brings, what that has."""
    if file.name == "accelerate_config" and file.value in PACKAGED:
        yield from (Given(name, value) for name, value in {**ALL, **PACKAGED[file.value]}.items())


def _head(one: Given) -> str:
    return one.name.partition(".")[0]


def _missing(one: Given, absent: list[Entry]) -> list[Given]:
    """Nothing, of a file that is named and not here: whoever gave the others is asked for it."""
    opens = (*one.opens, Open(str(one.value), place=one.place))
    absent.append(Entry(one.name, one.value, place=one.place, opens=opens))
    return []


def _served(servers: Iterable[Launch]) -> Iterator[Given]:
    for server in servers:
        for one in flags(server.arguments, ()):
            yield replace(one, name=f"vllm.{one.name or 'model'}")


def _variables(launch: Launch, table: Mapping[str, Setting]) -> Iterator[Given]:
    for name, word in launch.environment.items():
        setting = f"environment.{name}"
        if name == REWARD:  # that there is one says all
            yield Given(setting, word.text or f"${name}", word.place)
        elif setting in table or name.startswith("ACCELERATE_"):
            yield Given(setting, word.text, word.place, word.opens)


def _once(givens: Iterable[Given], table: Mapping[str, Setting]) -> list[Given]:
    """Of a setting without a row only the last: nothing depends on the others."""
    told = [*givens]
    last = {one.name: at for at, one in enumerate(told)}
    return [one for at, one in enumerate(told) if one.name in table or last[one.name] == at]


def _loaded_wide(reading: Reading) -> Iterator[Entry]:
    """A reference that is loaded in fp32 to be sharded, which no plan has.

    FSDP widens what it trains of weights in half precision; here everything was fp32 before.
    """
    plan = reading.plan
    whole = plan.get("reference") in ("copy", "offloaded")
    if whole and "fsdp" in plan.get("sharding", "") and plan.get("master_dtype") == "fp32":
        for one in (*reading.understood, *reading.from_defaults):
            if one.name == "dtype" and one.value == "float32":
                yield replace(one, why="More: the reference is in fp32, too; dtype halves it.")


def _ask(reading: Reading) -> None:
    """Ask for fields that nobody said and no default is good for."""
    rollout = reading.plan.get("rollout", "none")
    needed = {"prompt_tokens": rollout != "none", "rollout_gpus": rollout == "vllm-separate"}
    said = {*reading.plan, *(field for one in reading.open if one.asked for field in one.fields)}
    for field, name in ASKED.items():
        if needed.get(field, True) and field not in said:
            opens = (Open(name or field),)
            reading.open.append(Entry(name or field, None, (field,), opens=opens))
