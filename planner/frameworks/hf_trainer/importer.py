"""Programs around transformers' Trainer read into a plan's fields.

A Python script with its ``TrainingArguments``, flags and files of ``HfArgumentParser``, and the
program that is exported here. What another trainer subclasses is that trainer's, and not read here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from planner.frameworks.hf_trainer import FRAMEWORK
from planner.frameworks.hf_trainer.reading import all_settings, no_effect
from planner.frameworks.hf_trainer.settings import ADAPTERS
from planner.importer import elsewhere
from planner.importer.given import Further, Given, Launch, Open, Word
from planner.importer.huggingface import homes
from planner.importer.huggingface.calls import Spoken, owners
from planner.importer.huggingface.launches import (
    Table,
    ask,
    beside,
    judge,
    reading_of,
    said,
    speaks,
    started_alone,
)
from planner.importer.reading import NOTHING, Entry, Files, Reading
from planner.launch.huggingface import training
from planner.plan.methods import methods
from planner.plan.trainers import trainer_of
from planner.values.setting import Setting

ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments")
TRAINERS = ("Trainer", "Seq2SeqTrainer")
ALONE = "a program around Trainer"
"""What takes arguments that are given without a command."""
EXAMPLE = re.compile(r"(^|[./])run_clm(\.py)?$")
"""transformers' own script of causal language models."""
OTHER_TASK = re.compile(r"(^|[./])run_(?!clm)[a-z0-9_]+(\.py)?$")
"""Its scripts of other tasks."""
OTHER_MODEL = re.compile(r"(?:.*\.)?\w+For(?!CausalLM)\w+\.from_pretrained")
OTHER_TRAINER = re.compile(
    r"(?<![a-z])(sft|dpo|kto|ppo|grpo|orpo|cpo|bco|rloo|gkd|xpo|prm|reward|rm|rlhf|distill|no_trainer)(?![a-z])"
)
"""What scripts of trainers that subclass this one are called, where their source is not here."""
OTHERS = frozenset(
    (
        *("beta", "loss_type", "num_generations", "max_completion_length", "max_prompt_length"),
        *("reward_funcs", "reward_model_path", "packing", "dataset_text_field", "use_vllm"),
        *("completion_only_loss", "assistant_only_loss", "ref_model", "finetuning_type", "stage"),
        *("zero_optimization", "train_micro_batch_size_per_gpu", "distributed_type"),
    )
)
"""Options of those trainers, and of launchers' files, which no program around this one has."""
BY_TRAINER = {
    "trainer.compute_loss_func": "A loss of the script's own, not the model's.",
    "trainer.optimizers": "An optimizer of the script's own; the plan has optim.",
    "trainer.optimizer_cls_and_kwargs": "An optimizer of the script's own.",
    "trainer.preprocess_logits_for_metrics": "Less: validation keeps fewer logits.",
}
"""Arguments of Trainer that move memory or seconds, and no field has."""
OVERRIDDEN = {
    f"trainer.class.{method}": f"The script has its own {method}; the plan has Trainer's."
    for method in ("compute_loss", "training_step", "create_optimizer")
}
"""Methods of Trainer that decide what a step takes, where the script's class has its own."""
SPOKEN = Spoken(
    arguments=ARGUMENTS[0],
    adapters=ADAPTERS,
    peft=lambda owner, name: f"{ADAPTERS}.{name}" if owner == "LoraConfig" else name,
    loader=frozenset(
        (
            *("cache_dir", "device_map", "load_in_4bit", "load_in_8bit", "low_cpu_mem_usage"),
            *("quantization_config", "revision", "token", "trust_remote_code", "use_cache"),
            "use_safetensors",
        )
    ),
    tokenizer="max_length",
)


def takes(launch: Launch, files: Files = NOTHING) -> bool:
    """Whether a launch is of a program around Trainer, whatever it trains."""
    calls = owners(beside(files, launch.program))
    trainers = {one for one in calls if one.endswith("Trainer")}
    if trainers or {*ARGUMENTS} & {*calls}:
        return not trainers - {*TRAINERS}
    if calls or elsewhere.trainer_of(launch.program):
        return False
    if EXAMPLE.search(launch.program) or OTHER_TASK.search(launch.program):
        return _speaks(launch, files)
    stem = PurePosixPath(launch.program).stem.lower()
    own = launch.program.endswith(".py") and not OTHER_TRAINER.search(stem)
    return (own or launch.program == ALONE) and _speaks(launch, files)


def _speaks(launch: Launch, files: Files) -> bool:
    """Whether a command is told what Trainer takes, and nothing that another trainer does."""
    told = speaks(launch, files, (row.name for row in training.TRAINING))
    return bool(told) and not told & OTHERS and not elsewhere.configured_for(told)


def alone(files: Files) -> Launch | None:
    """The command that takes a script or arguments which are given by themselves."""
    for name in files:
        launches = (("accelerate launch", ()),)
        words = (Word("--config"), Word(name))
        for launch in (Launch(name, ()), Launch(ALONE, words, launches)):
            if takes(launch, files):
                return launch
    return None


def rows(launch: Launch, files: Files) -> Sequence[Setting]:
    """The table, written by the names that these files have."""
    return all_settings(said(launch, files, _table()))


def further(row: Setting, value: object, launch: Launch, files: Files) -> Further:
    """How a run is given a setting that nothing gives it yet."""
    return homes.further(row, value, launch, files, SPOKEN)


def _table() -> Table:
    return Table(rows=all_settings(), nothing=no_effect(), spoken=SPOKEN)


def imported(
    launch: Launch, files: Files = NOTHING, servers: Iterable[Launch] = ()
) -> Reading:
    """A plan's fields, as far as a launch and its files say them.

    Args:
        launch: One that this module :func:`takes`.
        files: What files give, by the paths that the launch has for them or their last parts: the
            script's arguments by call, its argument file, accelerate's and DeepSpeed's.
        servers: Launches beside it, of which the Trainer needs none.
    """
    script = beside(files, launch.program)
    reading, _ = reading_of(launch, files, _table())
    if other := _other(launch, script):
        reading.plan.clear()
        reading.messages.append(
            f"{other} is no causal language model: its settings are listed, and nothing is planned."
        )
        return reading
    _settle(reading)
    judge(reading, {**BY_TRAINER, **OVERRIDDEN})
    reading.beyond += _unseen(launch, script)
    method = next(name for name in methods() if trainer_of(FRAMEWORK.name, name).export)
    reading.plan |= {"framework": FRAMEWORK.name, "method": method}
    ask(reading, prompt_tokens="", response_tokens="")
    if script:
        started_alone(reading, launch)
    return reading


def _other(launch: Launch, script: Sequence[Given]) -> str:
    """The model class or program that trains, if it is not a causal language model."""
    models = (one for one in owners(script) if OTHER_MODEL.fullmatch(one))
    program = launch.program if not script and OTHER_TASK.search(launch.program) else ""
    return next(models, program).removesuffix(".from_pretrained")


def _settle(reading: Reading) -> None:
    """List as open what the checkpoint's own dtype is taken for."""
    for entry in (*reading.understood, *reading.from_defaults):
        if (entry.name, entry.value) == ("dtype", "auto"):
            opens = (Open("the checkpoint's dtype", reading.plan["dtype"]),)
            reading.open.append(replace(entry, opens=opens))


def _unseen(launch: Launch, script: Sequence[Given]) -> Iterator[Entry]:
    if not script and launch.program != ALONE and not EXAMPLE.search(launch.program):
        why = "It is taken for a program around Trainer with the model's own loss: give its source."
        yield Entry("program", launch.program, why=why)
