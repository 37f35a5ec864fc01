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
    PEFT,
    PROGRAM,
    ROWS,
)
from planner.launch.huggingface import accelerate, adapters, deepspeed, table, training
from planner.launch.huggingface.precision import dtypes
from planner.launch.huggingface.resolved import Values, halves, mixed
from planner.launch.huggingface.table import row
from planner.launch.huggingface.variables import ALLOCATOR
from planner.values.setting import Setting

CLASS = "transformers 5.23.0, trainer.py, line {}"
EXAMPLE = "transformers 5.23.0, examples/pytorch/language-modeling/run_clm.py"
SCRIPTS = "people's own scripts"
LENGTHS = ("max_seq_length", "model_max_length", "max_length", "cutoff_len", "max_seq_len")
"""Options of scripts for the longest row, which no setting of the Trainer's is."""
BLOCKS = "block_size"


def _longest(value: int | None, values: Values) -> Mapping[str, Any]:
    return {} if value is None else halves(value, values)


def _blocks(value: int | None, values: Values) -> Mapping[str, Any]:
    """Texts one behind the other, cut into rows of one length."""
    return {} if value is None else {"batch_shape": "full", **halves(value, values)}


def _length(name: str, source: str, read: Any) -> Setting:
    return row(
        *(source, name, None, "prompt_tokens", "response_tokens"),
        write=lambda plan: plan.prompt_tokens + plan.response_tokens,
        read=read,
        unit="tokens",
    )


def _loaded(value: object, values: Values) -> Mapping[str, Any]:
    """``auto`` is the checkpoint's dtype: taken for the compute dtype, bf16 for want of a word."""
    half = mixed(values)
    taken = "bf16" if half == "no" else half
    return dtypes(taken if value == "auto" else value, values)


def _placed(value: object, values: Values) -> Mapping[str, Any]:
    if value is None or isinstance(value, dict) or str(value).startswith("cuda"):
        return {}
    raise ValueError("Layers are spread over the GPUs that a process sees; a plan's stay together.")


SAID: tuple[Setting, ...] = (
    _length(BLOCKS, EXAMPLE, _blocks),
    *(_length(name, SCRIPTS, _longest) for name in LENGTHS),
)


def _other(source: str, name: str, default: object, moves: Any, otherwise: str) -> Setting:
    return row(source, name, default, moves=moves, otherwise=otherwise)


BESIDE: tuple[Setting, ...] = (
    row(
        *("peft 0.21.2, mapping_func.py, get_peft_model", ADAPTERS, None, "finetuning"),
        read=adapters.finetuning,
    ),
    *(
        _other(PEFT.format(line), f"{ADAPTERS}.{name}", default, moves, why)
        for line, name, default, moves, why in (
            (648, "exclude_modules", None, "memory", "Less: fewer adapters."),
            (658, "bias", "none", "memory", "More: biases train, too."),
            (672, "modules_to_save", None, "memory", "More: modules train whole."),
            (722, "layers_to_transform", None, "memory", "Less: fewer layers have adapters."),
            (737, "rank_pattern", None, "memory", "Adapters of other ranks."),
            (781, "trainable_token_indices", None, "memory", "More: rows of embeddings train."),
            (796, "loftq_config", None, "memory", "Less: frozen weights in 4 bits."),
            (832, "use_dora", False, "both", "More: a magnitude for each output."),
            (845, "velora_config", None, "memory", "Less: inputs of adapters are compressed."),
            (855, "alora_invocation_tokens", None, "both", "Adapters act on a part of a row."),
            (873, "use_qalora", False, "both", "Less: inputs of adapters are pooled."),
            (897, "monteclora_config", None, "both", "More: adapters are sampled."),
            (909, "layer_replication", None, "both", "More: layers run several times."),
            (931, "lora_bias", False, "memory", "More: adapters have biases."),
            (959, "use_bdlora", None, "memory", "Less: adapters are block-diagonal."),
            (969, "arrow_config", None, "both", "More: several adapters at once."),
            (976, "kasa_config", None, "both", "More: a diagonal for each adapter."),
        )
    ),
    *(
        _other(CLASS.format(line), f"trainer.{name}", None, moves, why)
        for line, name, moves, why in (
            (392, "compute_loss_func", "both", "A loss of the script's own, not the model's."),
            (395, "optimizers", "memory", "An optimizer of the script's own; the plan has optim."),
            (396, "optimizer_cls_and_kwargs", "memory", "An optimizer of the script's own."),
            (397, "preprocess_logits_for_metrics", "memory", "Less: eval keeps fewer logits."),
        )
    ),
    row("transformers 5.23.0, utils/quantization_config.py", "load_in_4bit", False, "finetuning"),
    _other(
        *("transformers 5.23.0, utils/quantization_config.py", "load_in_8bit", False, "memory"),
        "Less: frozen weights in 8 bits.",
    ),
    row(training.MODEL, "device_map", None, "sharding", read=_placed),
    _other(
        *("transformers 5.23.0, training_args_seq2seq.py, line 56", "predict_with_generate"),
        *(False, "both", "More: it generates while it validates."),
    ),
)
"""What else scripts say of adapters, of ``Trainer`` and of quantised weights."""

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
    own = Path(__file__).with_name("no_effect.txt").read_text("utf-8").split()
    return (*own, *table.no_effect())
