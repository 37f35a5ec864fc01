"""TRL's scripts and trainers read into a plan's fields: flags, YAML, a Python script's arguments.

What a launch is told is brought together as TRL's own parser has it: a configuration goes before
defaults, a flag before a configuration; what the script does not know goes to ``accelerate``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from planner.frameworks.trl import FRAMEWORK
from planner.frameworks.trl.naming import OLDER, spoken
from planner.frameworks.trl.packaged import ALL, PACKAGED
from planner.frameworks.trl.settings import all_settings, no_effect
from planner.importer.flags import flags
from planner.importer.given import Further, Given, Launch, Word
from planner.importer.huggingface import homes
from planner.importer.huggingface.calls import of_script, owners, said_anew
from planner.importer.huggingface.launches import (
    ENV,
    FEW,
    Table,
    ask,
    beside,
    judge,
    reading_of,
    speaks,
    started_alone,
)
from planner.importer.python_text import CONSTANT
from planner.importer.reading import NOTHING, Entry, Files, Reading, listed, read
from planner.launch.huggingface import table, training
from planner.plan.methods import methods
from planner.plan.trainers import trainer_of
from planner.values.setting import Setting

REWARD = "REWARD_URL"
"""The variable by which a reward file of our own finds its service."""
OTHER_TRAINERS = re.compile(
    "(A2PO|Async(Distillation|GRPO)|BCO|CPO|(Server)?Distillation|GKD|GMPO|GOLD|IWOPD|KTO|MiniLLM"
    "|NashMD|ORPO|OnlineDPO|PAPO|PPO|PRM|Reward|SDFT|SDPO|SSD|TPO|XPO)Trainer"
)
"""Trainers of TRL 1.16.0 and of earlier releases that no method here plans."""
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


def trainer_in(script: Iterable[Given]) -> str:
    """The TRL trainer class that a script calls, planned or not; empty if it calls none."""
    planned = trainers()
    named = (one for one in owners(script) if one.endswith("Trainer"))
    return next((one for one in named if one in planned or OTHER_TRAINERS.fullmatch(one)), "")


def takes(launch: Launch, files: Files = NOTHING) -> bool:
    """Whether a launch is of TRL, whatever it trains."""
    own = launch.program.startswith((f"{FRAMEWORK.name} ", f"{FRAMEWORK.name}.scripts."))
    script = beside(files, launch.program)
    return own or bool(method_of(launch, files) or trainer_in(script))


def alone(files: Files) -> Launch | None:
    """The command that takes a configuration or a script which is given by itself."""
    common = {row.name for row in training.TRAINING} | {*table.no_effect()}
    for name, givens in files.items():
        launch = Launch(name, ())
        if takes(launch, files):
            return launch
        told = {one.name for one in givens}
        known = {
            script: told & {row.name for row in all_settings(method)}
            for script, method in scripts().items()
        }
        best = max(known, key=lambda script: len(known[script]))
        if len(known[best]) >= FEW and (told & {*known[best], *no_effect()}) - common:
            return Launch(f"{FRAMEWORK.name} {best}", (Word("--config"), Word(name)))
    return None


def rows(launch: Launch, files: Files) -> Sequence[Setting]:
    """The table of what a launch trains."""
    return all_settings(method_of(launch, files))


def further(row: Setting, value: object, launch: Launch, files: Files) -> Further:
    """How a run is given a setting that nothing gives it yet."""
    own = trainer_of(FRAMEWORK.name, method_of(launch, files)).own
    assert own is not None
    return homes.further(row, value, launch, files, spoken(own.config))


def method_of(launch: Launch, files: Files) -> str:
    """The method that a launch trains by TRL, by its script or its arguments' class; else empty."""
    by_class = classes()
    program = launch.program.replace("/", ".").removesuffix(".py")
    package, _, last = program.rpartition(".")
    script = beside(files, launch.program)
    trainer = trainer_in(script).removesuffix("Trainer")
    found = (*owners(script), f"{trainer}Config")
    named = next((by_class[name] for name in found if name in by_class), "")
    if trainer and not named:
        return ""
    if named or program.startswith("trl "):
        return named or scripts().get(program.removeprefix("trl "), "")
    method = scripts().get(last, "")
    own = package.endswith(("trl.scripts", "examples.scripts"))
    if not method or own:
        return method
    return method if speaks(launch, files, (row.name for row in all_settings(method))) else ""


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
    script = beside(files, launch.program)
    own = [*flags(launch.arguments, ())]
    trainer = trainer_in(script)
    if not method:
        return listed(trainer or launch.program, spoken("").settings([*script, *own]))
    if trainer and not own and _arguments(method) not in owners(script):
        return _by_command_alone(trainer, method, script)
    reading, givens = reading_of(launch, files, _table(launch, method), _around(launch, servers))
    reading.messages += _remarks(givens)
    reading.beyond += _loaded_wide(reading)
    exported = _exported(script)
    if not exported:
        judge(reading, BY_TRAINER)
    reading.plan |= {"framework": FRAMEWORK.name, "method": exported or method}
    if exported not in ("", method):  # a program, which does it in one way
        reading.plan |= trainer_of(FRAMEWORK.name, exported).defaults({})
    _ask(reading)
    if trainer:
        started_alone(reading, launch)
    return reading


def _exported(script: Iterable[Given]) -> str:
    """The method of a program of ours around a trainer of TRL's; empty for anybody else's."""
    said = (one.value for one in script if one.name == f"{CONSTANT}.method")
    return next((one for one in said if one in methods()), "")


def _table(launch: Launch, method: str) -> Table:
    return Table(
        rows=(*all_settings(method), *OLDER),
        nothing=no_effect(),
        spoken=spoken(_arguments(method)),
        launches=launch.program.startswith(f"{FRAMEWORK.name} "),
        packaged=lambda name: {**ALL, **PACKAGED[name]} if name in PACKAGED else {},
    )


def _by_command_alone(trainer: str, method: str, script: Sequence[Given]) -> Reading:
    """What a script says whose settings all come from a command that is not here."""
    known = {row.name for row in all_settings(method)}
    known |= {*no_effect()}
    told = (one for one in script if not said_anew(one, known))
    found = of_script(told, spoken(_arguments(method)))
    said = (one for one in found if one.name not in known or one.value is not None)
    reading = read((), no_effect(), said)
    judge(reading, BY_TRAINER)
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
    """The TRL class of a method's arguments, such as ``GRPOConfig``."""
    return next(name for name, known in classes().items() if known == method)


def _remarks(givens: Sequence[Given]) -> Iterator[str]:
    newest = f"{FRAMEWORK.label} {FRAMEWORK.versions[0]}"
    for name in sorted({one.name for one in givens} & {row.name for row in OLDER}):
        yield f"{name} is no setting of {newest}, whose step a plan has."
    if any(one.name.partition(".")[0] == ENV for one in givens):
        yield "Variables of a configuration's env block are not taken."


def _around(launch: Launch, servers: Iterable[Launch]) -> Iterator[Given]:
    """Settings beside the trainer: an engine's server, and whether there is a reward service."""
    yield from _served(servers)
    if word := launch.environment.get(REWARD):
        yield Given(f"environment.{REWARD}", word.text or f"${REWARD}", word.place)


def _served(servers: Iterable[Launch]) -> Iterator[Given]:
    for server in servers:
        for one in flags(server.arguments, ()):
            yield replace(one, name=f"vllm.{one.name or 'model'}")


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
    engine = {} if rollout == "none" else {"prompt_tokens": "vllm_max_model_length"}
    if rollout == "vllm-separate":
        engine["rollout_gpus"] = "vllm.tensor_parallel_size"
    ask(reading, **engine)
