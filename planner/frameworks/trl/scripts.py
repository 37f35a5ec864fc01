"""Python scripts around TRL's trainers: whose they are, and what their arguments rest on."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from planner.frameworks.trl.naming import owner_of
from planner.importer.given import Given, Launch, Open
from planner.importer.kinds import TRUE
from planner.importer.python_text import OPTIONS
from planner.importer.reading import Entry, Reading

OTHER_TRAINERS = re.compile(
    "(A2PO|Async(Distillation|GRPO)|BCO|CPO|(Server)?Distillation|GKD|GMPO|GOLD|IWOPD|KTO|MiniLLM"
    "|NashMD|ORPO|OnlineDPO|PAPO|PPO|PRM|Reward|SDFT|SDPO|SSD|TPO|XPO)Trainer"
)
"""TRL's own that are not planned, of 1.16.0 and of earlier releases."""
BY_TRAINER = {
    "trainer.class": "A trainer of the script's own: what it does otherwise is not read.",
    "trainer.tools": "More turns: longer rows.",
    "trainer.environment_factory": "More turns: longer rows.",
    "trainer.rollout_func": "The script generates by itself: another rollout than the plan's.",
    "trainer.optimizers": "Another optimizer: its state takes more or less.",
    "trainer.compute_loss_func": "Another loss over the vocabulary.",
    "trainer.data_collator": "Rows are made otherwise: longer or shorter.",
}
"""Arguments of a trainer that move memory or seconds, and no field has."""
OF_PARSER = re.compile(r"\b\w+_args\.(\w+)|\bget_(?:peft|quantization)_config\(")
"""What a parser of configurations gave, and what TRL makes of it."""
SWITCH = re.compile(r"\w+\.(\w+)")
SPREAD = "**"
"""What the Python reader calls a mapping that it cannot look into."""


def owners(givens: Iterable[Given]) -> list[str]:
    """Calls that a script's settings are arguments of."""
    return [*dict.fromkeys(owner_of(one.name)[0] for one in givens)]


def trainer_in(givens: Iterable[Given], planned: Collection[str]) -> str:
    """The class of TRL's that trains in a script, planned or not; empty: none of TRL's."""
    named = [one for one in owners(givens) if one.endswith("Trainer")]
    ours = (one for one in named if one in planned or OTHER_TRAINERS.fullmatch(one))
    return next(ours, "")


def by_command(script: Iterable[Given], own: Sequence[Given]) -> Iterator[Given]:
    """A script's values with the options that its command gives, in place of their defaults."""
    said = {one.name: one for one in own}
    for one in script:
        switches = {each: said[name] for each in one.opens if (name := _switch(each)) in said}
        if any(str(word.value).lower() not in TRUE for word in switches.values()):
            continue  # of a branch that the command turns off
        one = replace(one, opens=tuple(each for each in one.opens if each not in switches))
        asked = [each for each in one.opens if _option(each) in said]
        if not asked:
            yield one
        elif len(asked) == 1 and str(one.value) == asked[0].default:
            word = said[_option(asked[0])]
            left = tuple(each for each in one.opens if each is not asked[0])
            yield replace(one, value=word.value, place=word.place, opens=(*left, *word.opens))
        else:
            opens = (replace(each, default=None) if each in asked else each for each in one.opens)
            yield replace(one, opens=tuple(opens))


def said_anew(one: Given, known: Collection[str]) -> bool:
    """Whether an open value is made of settings that the command says by their own names.

    Args:
        one: of a script whose parser fills configurations.
        known: names of settings.
    """
    asked = " ".join(each.name for each in one.opens if each.default is None)
    names = [found[1] for found in OF_PARSER.finditer(asked)]
    return bool(names) and all(name is None or name in known for name in names)


def declared_in(script: Iterable[Given]) -> tuple[list[Given], set[str]]:
    """What a script says, and the options that it declares by itself."""
    told = [*script]
    names = {one.name for one in told if one.name.startswith(f"{OPTIONS}.")}
    declared = {name.removeprefix(f"{OPTIONS}.") for name in names}
    return [one for one in told if one.name not in names], declared


def options_of(script: Iterable[Given]) -> set[str]:
    """Names of options that a script takes from its command."""
    opens = [each for one in script for each in one.opens]
    return {*map(_option, opens), *map(_switch, opens)} - {""}


def _switch(one: Open) -> str:
    """The option that a branch asks alone: of ``if args.use_lora``; a value's own has a place."""
    found = SWITCH.fullmatch(one.name) if one.place is None else None
    return found[1] if found else ""


def _option(one: Open) -> str:
    name = one.name.removeprefix("--")
    return "" if name == one.name else name.replace("-", "_")


def judged(reading: Reading) -> None:
    """Arguments of a trainer that are no settings of the table, where they move something."""
    for one in [*reading.no_effect, *reading.unknown]:
        why = BY_TRAINER.get(one.name) if one.value is not None else ""
        if one.name == SPREAD:
            why = "What it holds is not read: defaults stand in its place."
        if why:
            for each in (reading.no_effect, reading.unknown):
                each[:] = [other for other in each if other is not one]
            reading.beyond.append(replace(one, why=why))


def alone(reading: Reading, launch: Launch) -> None:
    """Of a script without its command: how many processes start it nobody said."""
    gpus = reading.plan.get("gpus")
    if not launch.arguments and not launch.launchers and gpus is not None:
        rests = ("gpus", "sharding", "prompts_per_step", "prompts_per_update")
        opens = (Open("the command that starts it", str(gpus)),)
        reading.open.append(Entry("accelerate.num_processes", gpus, rests, opens=opens))
