"""Programs of our own read back: what their ``PLAN`` says, and the options that change it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from planner.frameworks.plain import FRAMEWORK
from planner.frameworks.plain.settings import PROCESSES, program_of, settings
from planner.importer.flags import flags
from planner.importer.given import Further, Given, Launch, Open
from planner.importer.huggingface.launchers import started
from planner.importer.kinds import of_kinds
from planner.importer.models import catalog_id
from planner.importer.python_text import CONSTANT
from planner.importer.reading import NOTHING, Entry, Files, Reading, read
from planner.plan.fieldtext import KINDS
from planner.plan.methods import methods
from planner.values.setting import Setting

OURS = frozenset(("stored_dtype", "prompts_per_update", "micro_batch_size"))
"""Constants of every program of ours, and together of no other; two make one."""
NAMED = re.compile(r"train_(\w+)\.py")
FLAGS = ("model", "steps")
"""Options of every program that stand for a constant."""
NO_EFFECT = (
    *("data", "output", "revision", "device", "learning_rate", "seed", "anyway", "dry", "cache"),
    *("beta", "entropy_weight", "critic_learning_rate", "tau", "report_mass"),
)
"""Options that move neither memory nor seconds, as :mod:`planner.launch.pieces.options` has."""
MODELS = ("model", "critic_model", "reward_model")
ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
REWARD = "REWARD_URL"
"""The variable by which ``reward.py`` finds its service."""


def takes(launch: Launch, files: Files = NOTHING) -> bool:
    """Whether a command starts a program of ours, whatever it trains; its text has to be here."""
    return bool(method_of(launch, files))


def alone(files: Files) -> Launch | None:
    """The command that starts a program which is given by itself."""
    started_by = (Launch(name, ()) for name in files)
    return next((launch for launch in started_by if takes(launch, files)), None)


def rows(launch: Launch, files: Files) -> Sequence[Setting]:
    """The table of what a command trains."""
    return settings(method_of(launch, files))


def further(row: Setting, value: object, launch: Launch, files: Files) -> Further:
    """Nowhere: a program's ``PLAN`` has everything, and launch.sh begins the processes."""
    return Further()


def method_of(launch: Launch, files: Files) -> str:
    """What a program of ours trains: by its ``PLAN``, else by its name; empty where it is none."""
    told = _constants(launch.program, files)
    named = NAMED.fullmatch(PurePosixPath(launch.program).name)
    if len(OURS & told.keys()) < 2 and not (named and "**" in told):
        return ""
    own = told["method"].value if "method" in told else None
    able = [name for name in methods() if program_of(name) is not None]
    candidates = (own, named[1] if named else None)
    return next((name for name in candidates if isinstance(name, str) and name in able), "")


def imported(
    launch: Launch, files: Files = NOTHING, servers: Iterable[Launch] = ()
) -> Reading:
    """A plan's fields, as far as a program's text and its options say them.

    Args:
        launch: One that this module :func:`takes`.
        files: Programs' constants, by the programs' paths or their last parts: ``PLAN.steps``.
        servers: Launches beside it. Of several programs of one run the last one trains.
    """
    method = method_of(launch, files)
    beside = [one for one in servers if method_of(one, files) == method]
    trains = beside[-1] if beside else launch
    program, table = program_of(method), settings(method)
    assert program is not None
    messages: list[str] = []
    wrong: list[Entry] = []
    told = [*_entries(trains, files, table, method, messages)]
    told += _options(trains, table, (*FLAGS, *program.flags), wrong)
    reading = read(table, NO_EFFECT, map(_model, told))
    reading.beyond += wrong
    reading.messages += messages
    reading.plan |= {"framework": FRAMEWORK.name, "method": method}
    _surroundings(reading, trains, program.rewarded)
    return reading


def _constants(program: str, files: Files) -> dict[str, Given]:
    """A program's constants by name, the last word on each; ``**`` is what else changes them."""
    found: dict[str, Given] = {}
    known = files.get(program) or files.get(PurePosixPath(program).name) or ()
    for one in known:
        owner, _, name = one.name.partition(".")
        if owner != CONSTANT:
            continue
        if name == "**":  # it may change all that was said before
            opens = {each: replace(had, opens=one.opens) for each, had in found.items()}
            found |= opens
        found[name] = replace(one, name=name)
    return found


def _entries(
    launch: Launch, files: Files, table: Iterable[Setting], method: str, messages: list[str]
) -> Iterator[Given]:
    """The program's constants, also those that it lacks: without one it does not run."""
    found = _constants(launch.program, files)
    changed = found.pop("**", None)
    if changed is not None:
        line = changed.place.line if changed.place else 1
        messages.append(
            f"{launch.program}, line {line}: what changes {CONSTANT} there is not read, so its "
            "values are open. Write them as literals."
        )
    own = PurePosixPath(launch.program).name
    beside = [Launch(name, ()) for name in files if PurePosixPath(name).name != own]
    copies = [
        _constants(one.program, files) for one in beside if method_of(one, files) == method
    ]
    for row in table:
        if row.name in found:
            one = found.pop(row.name)
            same = [each[row.name] for each in copies if row.name in each]
            places = tuple(each.place for each in same if each.place)
            if any(each.value != one.value for each in same):
                messages.append(f"{row.name} differs among programs: the last one counts.")
            yield replace(one, copies=places)
        elif row.write is not None and row.fields and row.name != PROCESSES:
            opens = changed.opens if changed else (Open(f'{CONSTANT}["{row.name}"]'),)
            yield Given(row.name, None, opens=opens)
    yield from found.values()


def _options(
    launch: Launch, table: Iterable[Setting], known: Sequence[str], wrong: list[Entry]
) -> Iterator[Given]:
    """Options in place of constants, under the constants' names; others have their dashes."""
    own = (*known, *NO_EFFECT)
    said = [
        one if one.name in own else replace(one, name=f"--{one.name or one.value}")
        for one in flags(launch.arguments, own)
    ]
    kinds = [replace(row, default=KINDS[row.fields[0]]()) for row in table if row.name in known]
    yield from of_kinds(said, kinds, wrong)
    for one in started(launch).options:
        if one.name == "num_processes":
            yield replace(one, name=PROCESSES)


def _model(one: Given) -> Given:
    """A model by its Hub id; one that no row of the catalog is called after is asked for."""
    if one.name not in MODELS or not isinstance(one.value, str) or not one.value or one.opens:
        return one
    known = catalog_id(one.value)
    opens = () if known else (Open(one.value, place=one.place),)
    return replace(one, value=known or one.value, opens=opens)


def _surroundings(reading: Reading, launch: Launch, rewarded: bool) -> None:
    """What the command's variables say, and what nobody does."""
    said = launch.environment
    if ALLOCATOR in said:
        grows = "expandable_segments:true" in said[ALLOCATOR].text.lower()
        reading.plan["expandable_segments"] = grows
    if rewarded:
        reading.plan["reward"] = "remote" if REWARD in said else "rule"
    if "gpu" not in reading.plan:
        reading.open.append(Entry("card", None, ("gpu",), opens=(Open("type of the GPUs"),)))
    if reading.plan.get("gpus", 1) > 1:
        whole = Open("GPUs of a whole node")
        reading.open.append(Entry("gpus_per_node", None, ("gpus_per_node",), opens=(whole,)))
