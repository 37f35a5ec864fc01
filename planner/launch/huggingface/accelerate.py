"""accelerate's file: how the Trainer's processes share the training state, and how they start.

Names are those of the file, below ``accelerate.``; ``accelerate launch`` has the last part of each
as a flag. Read of accelerate 1.15.0 and of the configurations that TRL 1.16.0 ships.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.launch.huggingface.deepspeed import DEEPSPEED, deepspeed_file
from planner.launch.huggingface.precision import mixed_precision
from planner.launch.huggingface.processes import (
    activations_by_accelerate,
    nodes,
    training_gpus,
    zero,
)
from planner.launch.huggingface.resolved import (
    Values,
    offloads_activations,
    processes,
    sharded_by_deepspeed,
    sharding,
    way,
)
from planner.launch.huggingface.table import beyond, nested, row, written
from planner.launch.launch import LaunchFile
from planner.launch.script import yaml_text
from planner.plan import Plan
from planner.values.setting import Setting, refusing
from planner.values.sharding import sharding_of

ACCELERATE = "accelerate.yaml"
PREFIX = "accelerate."
FLAGS = "accelerate 1.15.0, commands/launch.py, line {}"
FILE = "accelerate 1.15.0, commands/config/config_args.py, line {}"
LAYER = re.compile(r"\w+(DecoderLayer|Block|NeoXLayer)")
"""How transformers' classes of a layer are called."""
KINDS = {"none": "NO", "ddp": "MULTI_GPU", "fsdp1": "FSDP", "fsdp2": "FSDP"}


def accelerate_files(plan: Plan) -> tuple[LaunchFile, ...]:
    """The launcher's configuration, and DeepSpeed's where that shards."""
    text = yaml_text(nested(written(ROWS, plan), PREFIX))
    launcher = LaunchFile(name=ACCELERATE, text=text)
    return (launcher, deepspeed_file(plan)) if zero(plan) else (launcher,)


def _fsdp(plan: Plan, value: object) -> object:
    return value if sharding_of(plan).fsdp > 0 else None


def _fsdp1(plan: Plan, value: object) -> object:
    return value if sharding_of(plan).fsdp == 1 else None


def _reshards(plan: Plan) -> object:
    # Of FSDP1 accelerate asks its older word alone, whose default is FULL_SHARD.
    return _fsdp1(plan, _strategy(plan)) or _fsdp(plan, plan.reshard_after_forward)


def _strategy(plan: Plan) -> str:
    return "FULL_SHARD" if plan.reshard_after_forward else "SHARD_GRAD_OP"


def _groups(plan: Plan) -> bool:
    return sharding_of(plan).fsdp == 2 and plan.shard_size not in (0, training_gpus(plan))


def _gpus(value: int | None, values: Values) -> Mapping[str, Any]:
    """The trainer's, and those of an engine apart where that is known."""
    own = 0
    if values.get("use_vllm") and values.get("vllm_mode") == "server":
        own = int(values["vllm.tensor_parallel_size"] or 0) * int(
            values["vllm.data_parallel_size"]
        )
        if not own:
            return {}
    return {} if value is None else {"gpus": int(value) + own}


def _node(value: int, values: Values) -> Mapping[str, Any]:
    count = processes(values)
    if value in (None, 1) or count is None:
        return {}
    return {"gpus_per_node": count // int(value)}


def _strategy_read(value: object, values: Values) -> Mapping[str, Any]:
    if way(values).fsdp != 1:
        return {}
    whole = {"FULL_SHARD": True, "1": True, "SHARD_GRAD_OP": False, "2": False}
    if str(value) not in whole:
        raise ValueError(f"A plan does not shard by {value}; set sharding by hand.")
    return {"reshard_after_forward": whole[str(value)]}


def _offload(value: bool, values: Values) -> Mapping[str, Any]:
    if way(values).fsdp:
        return {"offload": "all" if value else "none"}
    return {} if sharded_by_deepspeed(values) else {"offload": "none"}


def _group(value: int, values: Values) -> Mapping[str, Any]:
    if way(values).fsdp != 2:
        return {}
    copies = values["accelerate.parallelism_config.parallelism_config_dp_replicate_size"]
    return {"shard_size": int(value) if int(copies) > 1 else 0}


def _compiled(value: str | None, values: Values) -> Mapping[str, Any]:
    if str(value or "no").lower() == "no":
        return {"compile": False}
    by_layer = values["accelerate.dynamo_config.dynamo_use_regional_compilation"]
    if str(value).lower() != "inductor" or not by_layer:
        raise ValueError("A plan compiles each layer: inductor with regional compilation.")
    return {"compile": True}


def _row(source: str, line: int, name: str, default: object, *fields: str, **more: Any) -> Setting:
    return row(source.format(line), PREFIX + name, default, *fields, **more)


def _fixed(line: int, name: str, default: object, value: object) -> Setting:
    """What the file has to say, and what moves nothing."""
    return _row(FILE, line, name, default, moves="seconds", write=lambda plan: value)


ROWS: tuple[Setting, ...] = (
    _fixed(77, "compute_environment", "LOCAL_MACHINE", "LOCAL_MACHINE"),
    _row(
        *(FILE, 78, "distributed_type", None, "sharding"),
        write=lambda plan: "DEEPSPEED" if zero(plan) else KINDS[plan.sharding],
        read=lambda value, values: {"sharding": sharding(values)},
    ),
    _row(
        *(FLAGS, 190, "mixed_precision", None, "dtype", "master_dtype"),
        # DeepSpeed's file decides the dtype; accelerate refuses to be told it twice.
        write=lambda plan: None if zero(plan) else mixed_precision(plan),
    ),
    _row(
        *(FLAGS, 201, "num_machines", 1, "gpus_per_node"),
        write=nodes,
        read=_node,
        unit="machines",
    ),
    _row(
        *(FLAGS, 198, "num_processes", None, "gpus"),
        write=training_gpus,
        read=_gpus,
        unit="processes",
    ),
    _fixed(181, "machine_rank", 0, 0),
    _fixed(188, "main_training_function", "main", "main"),
    _fixed(186, "rdzv_backend", "static", "static"),
    _fixed(187, "same_network", False, True),
    _fixed(80, "use_cpu", False, False),
    _row(
        *(FLAGS, 514, "fsdp_config.fsdp_version", 1, "sharding"),
        write=lambda plan: _fsdp(plan, sharding_of(plan).fsdp),
    ),
    _row(
        *(FLAGS, 546, "fsdp_config.fsdp_auto_wrap_policy", None, "sharding"),
        write=lambda plan: _fsdp(plan, "TRANSFORMER_BASED_WRAP"),
        read=refusing(
            "A plan's units are layers (TRANSFORMER_BASED_WRAP); others are larger.",
            lambda value, values: way(values).fsdp and value != "TRANSFORMER_BASED_WRAP",
        ),
    ),
    _row(
        *(FLAGS, 552, "fsdp_config.fsdp_transformer_layer_cls_to_wrap", None, "sharding"),
        moves="memory",
        read=refusing(
            "Units of another size: they are no layers.",
            lambda value, values: (
                value is not None
                and not all(LAYER.fullmatch(one) for one in str(value).split(","))
            ),
        ),
    ),
    _row(
        *(FLAGS, 585, "fsdp_config.fsdp_cpu_ram_efficient_loading", True),
        moves="memory",
        write=lambda plan: _fsdp(plan, True),
        otherwise="More host RAM: every rank reads the whole model.",
    ),
    _row(
        *(FLAGS, 521, "fsdp_config.fsdp_offload_params", False, "offload"),
        write=lambda plan: _fsdp(plan, plan.offload == "all"),
        read=_offload,
    ),
    _row(
        *(FLAGS, 534, "fsdp_config.fsdp_sharding_strategy", "FULL_SHARD", "reshard_after_forward"),
        write=lambda plan: _fsdp1(plan, _strategy(plan)),
        read=_strategy_read,
    ),
    _row(
        *(FLAGS, 540, "fsdp_config.fsdp_reshard_after_forward", "true", "reshard_after_forward"),
        write=_reshards,
        # Of FSDP2 as it is said; FSDP1 has the older word.
        read=lambda value, values: (
            {"reshard_after_forward": str(value).lower() not in ("false", "no")}
            if way(values).fsdp == 2
            else {}
        ),
    ),
    _row(
        *(FLAGS, 565, "fsdp_config.fsdp_state_dict_type", None, "save_steps"),
        moves="memory",
        write=lambda plan: _fsdp(plan, "FULL_STATE_DICT"),
        read=refusing(
            "Less host RAM while it saves: each rank writes its shard.",
            lambda value, values: way(values).fsdp and value not in (None, "FULL_STATE_DICT"),
        ),
    ),
    _row(
        *(FLAGS, 600, "fsdp_config.fsdp_activation_checkpointing", False),
        *("gradient_checkpointing",),
        write=lambda plan: _fsdp(plan, activations_by_accelerate(plan)),
        read=lambda value, values: (
            {"gradient_checkpointing": "full"} if value and way(values).fsdp else {}
        ),
    ),
    _row(
        *(FLAGS, 593, "fsdp_config.fsdp_sync_module_states", True),
        moves="memory",
        write=lambda plan: _fsdp1(plan, True),
        otherwise="More host RAM: every rank reads the whole model.",
    ),
    _row(
        *(FLAGS, 578, "fsdp_config.fsdp_use_orig_params", True),
        moves="memory",
        write=lambda plan: _fsdp1(plan, True),
        otherwise="Adapters and frozen weights in one flat weight: more gradients.",
    ),
    _row(
        *(FLAGS, 606, "fsdp_config.fsdp_activation_checkpointing_offload", False),
        *("activation_offload",),
        write=lambda plan: _fsdp(plan, activations_by_accelerate(plan) or None),
        read=lambda value, values: {"activation_offload": offloads_activations(values)},
    ),
    _row(
        *(FLAGS, 906, "parallelism_config.parallelism_config_dp_replicate_size", 1, "shard_size"),
        unit="processes",
        write=lambda plan: training_gpus(plan) // plan.shard_size if _groups(plan) else None,
    ),
    _row(
        *(FLAGS, 913, "parallelism_config.parallelism_config_dp_shard_size", 1, "shard_size"),
        unit="processes",
        write=lambda plan: plan.shard_size if _groups(plan) else None,
        read=_group,
    ),
    _row(
        *(FLAGS, 217, "dynamo_config.dynamo_backend", None, "compile"),
        write=lambda plan: "INDUCTOR" if plan.compile else None,
        read=_compiled,
    ),
    _row(
        *(FLAGS, 243, "dynamo_config.dynamo_use_regional_compilation", False, "compile"),
        write=lambda plan: plan.compile or None,
    ),
    _row(
        *(FLAGS, 411, "deepspeed_config.deepspeed_config_file", None, "sharding", "offload"),
        write=lambda plan: DEEPSPEED if zero(plan) else None,
    ),
    _row(
        *(FLAGS, 466, "deepspeed_config.zero3_init_flag", None, "sharding"),
        moves="memory",
        write=lambda plan: sharding_of(plan).zero == 3 if zero(plan) else None,
        read=refusing(
            "More host RAM while it loads: each rank has the whole model.",
            lambda value, values: way(values).zero == 3 and value is False,
        ),
    ),
    _row(
        *(FLAGS, 920, "parallelism_config.parallelism_config_tp_size", 1, "tensor_parallel"),
        read=lambda value, values: {"tensor_parallel": int(value)},
    ),
    _row(
        *(FLAGS, 927, "parallelism_config.parallelism_config_cp_size", 1, "context_parallel"),
        read=lambda value, values: {"context_parallel": int(value)},
    ),
    *beyond("accelerate 1.15.0", "accelerate", PREFIX),
)
