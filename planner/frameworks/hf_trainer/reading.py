"""The Trainer's whole table, with what people's scripts say and no export does.

People hand on lengths, adapters and quantised weights by names that no class of its own has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from planner.frameworks.hf_trainer.settings import (
    ADAPTERS,
    KEPT,
    NEW,
    OLD,
    PROGRAM,
    ROWS,
)
from planner.launch.huggingface import accelerate, adapters, deepspeed, table, training
from planner.launch.huggingface.precision import dtypes
from planner.launch.huggingface.resolved import Values, halves, mixed
from planner.launch.huggingface.table import row
from planner.launch.huggingface.variables import ALLOCATOR
from planner.values.setting import Setting, refusing
from planner.values.setting_files import names, without_field

HERE = Path(__file__).parent
EXAMPLE = "transformers 5.23.0, examples/pytorch/language-modeling/run_clm.py"
SCRIPTS = "people's own scripts"
LENGTHS = ("max_seq_length", "model_max_length", "max_length", "cutoff_len", "max_seq_len")
"""Options of scripts for the longest row, which no setting of the Trainer's is."""
BLOCKS = "block_size"


def _length(name: str, source: str, beside: Mapping[str, Any]) -> Setting:
    return row(
        *(source, name, None, "prompt_tokens", "response_tokens"),
        write=lambda plan: plan.prompt_tokens + plan.response_tokens,
        read=lambda value, values: {} if value is None else {**beside, **halves(value, values)},
        unit="tokens",
    )


def _loaded(value: object, values: Values) -> Mapping[str, Any]:
    """``auto`` is the checkpoint's dtype: taken for the compute dtype, bf16 for want of a word."""
    half = mixed(values)
    taken = "bf16" if half == "no" else half
    return dtypes(taken if value == "auto" else value, values)


SAID: tuple[Setting, ...] = (
    # Texts one behind the other, cut into rows of one length.
    _length(BLOCKS, EXAMPLE, {"batch_shape": "full"}),
    *(_length(name, SCRIPTS, {}) for name in LENGTHS),
)


BESIDE: tuple[Setting, ...] = (
    row(
        *("peft 0.21.2, mapping_func.py, get_peft_model", ADAPTERS, None, "finetuning"),
        read=adapters.finetuning,
    ),
    row("transformers 5.23.0, utils/quantization_config.py", "load_in_4bit", False, "finetuning"),
    row(
        *(training.MODEL, "device_map", None, "sharding"),
        read=refusing(
            "Layers are spread over the GPUs that a process sees; a plan's stay together.",
            lambda value, values: not (
                value is None or isinstance(value, dict) or str(value).startswith("cuda")
            ),
        ),
    ),
    *without_field(HERE / "beyond" / "peft.jsonl", "peft 0.21.2", f"{ADAPTERS}."),
    *without_field(HERE / "beyond" / "transformers.jsonl", "transformers 5.23.0"),
)
"""What else scripts say of adapters and of quantised weights."""

READ: tuple[Setting, ...] = tuple(
    one
    for one in training.READ
    if one.name not in {f"{OLD}_kwargs", *(row.name for row in ROWS)}
)


@cache
def all_settings(given: Collection[str] = frozenset()) -> tuple[Setting, ...]:
    """The table, with what starts the processes.

    Args:
        given: names that a run's texts say. Of settings with two names, and of those that are the
            script's own, what another plan is written by is the one that is there.
    """
    return tuple(_written(given))


def _written(given: Collection[str]) -> Iterator[Setting]:
    older = OLD in given and NEW not in given
    kept = {one.name: one for one in ROWS}
    checkpointing = {NEW: kept[NEW], OLD: replace(kept[NEW], name=OLD)}
    silent = OLD if not older else NEW
    for one in ROWS:
        one = replace(one, write=None) if one.name == silent else one
        yield replace(one, read=_loaded) if one.name == "dtype" else one
    old = checkpointing[OLD]
    yield old if older else replace(old, write=None)
    yield replace(kept[KEPT], name=f"{OLD}_kwargs", write=None)
    for one in (*SAID, *PROGRAM):
        yield one if one.name in given else replace(one, write=None)
    yield from (*BESIDE, *table.unwritten(training.VALIDATION), *READ)
    yield from (*accelerate.ROWS, *deepspeed.ROWS, *ALLOCATOR, *training.EARLIER)


@cache
def no_effect() -> tuple[str, ...]:
    """Names that move neither memory nor seconds."""
    return (*names(HERE / "no_effect.txt"), *table.no_effect())
