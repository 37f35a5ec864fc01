"""Buffers that sharded training needs beside its shards: gathered weights, reductions.

FSDP2 as read in torch 2.13.0 (``torch/distributed/fsdp/_fully_shard``): the root group
(embedding, final norm, head) is not resharded between forward and backward; one layer
is whole while a flat buffer holds the neighbour's weights (counted in real steps of
``fully_shard`` over a fake group). DeepSpeed with its documented defaults.
"""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.formulas.state import WHOLE_GRADIENTS

FSDP = "torch 2.13.0 torch/distributed/fsdp/_fully_shard, _fsdp_param_group.py (read)"
ACCELERATE = "accelerate 1.15.0 accelerate/utils/fsdp_utils.py, fsdp2_prepare_model (read)"
ZERO_CONFIG = "DeepSpeed 0.19 runtime/zero/config.py defaults (read)"
ZERO_RUN = "DeepSpeed 0.19.8, read, and run for real on CPUs (docs/memory-notes.md, finding 13)"

GATHERED_ROOT = Formula(
    "gathered root weights",
    "root_parameters * value_bytes",
    category="parameters",
    source=FSDP,
    why="Embedding, final norm and head stay gathered from the forward to the end of the backward.",
)

GATHERED_LAYERS = Formula(
    "gathered layer weights",
    "gathered_layers * layer_parameters * value_bytes",
    category="parameters",
    source=FSDP,
    why="Only the layer that computes is gathered; if layers are not resharded after forward, all "
    "layers are.",
)

FLAT_ROOT = Formula(
    "root weights that nothing reshards",
    "root_parameters * value_bytes",
    category="parameters",
    source="torch 2.13.0 distributed/fsdp/_runtime_utils.py, _post_forward_reshard: not "
    "state._is_root; TRL's and verl's own runs (docs/memory-notes.md, finding 15)",
    why="FSDP1 reshards its root module only in a backward, and a frozen model has no backward.",
)

LEFT = (GATHERED_ROOT.name, GATHERED_LAYERS.name, FLAT_ROOT.name)
"""What a forward without gradient may leave behind."""

GATHER_BUFFER = Formula(
    "all-gather buffer",
    "layer_parameters * value_bytes",
    category="buffers",
    source=FSDP + ": the flat output of one group lives until the next group's copy-out",
    why="Weights arrive in one flat buffer and are copied out of it.",
)

LEFT_GATHER_BUFFER = Formula(
    "all-gather buffer where layers were left gathered",
    "maximum((layer_parameters - whole_parameters) * value_bytes * again, 0, root_parameters * "
    "value_bytes * minimum(maximum(fsdp_size - 1, 0), 1) - earlier_gradients_bytes)",
    category="buffers",
    source=FSDP + ": no next group's copy-out frees the root's; verl 0.9.1 EngineEvalModeCtx "
    "reshards the root's own weights where fsdp_size is above 1",
    why="Layers that an earlier forward left gathered are not gathered again; only the root may be "
    "gathered again. From an update's second micro-batch on (again) layers are gathered again, "
    "while earlier gradients are alive. A head that is its own FSDP unit is subtracted, because "
    "another term counts it as gathered, although it is so only in the first micro-batch.",
)

GATHERED_TABLE = Formula(
    "gathered embedding or head",
    "table_parameters * value_bytes",
    category="parameters",
    source=FSDP + "; verl 0.9.1 utils/fsdp_utils.py, _select_fsdp2_wrap_targets; " + ACCELERATE,
    why="An embedding or head that is its own FSDP unit is gathered while it computes, like a "
    "layer.",
)

TABLE_GATHER_BUFFER = Formula(
    "all-gather buffer of an embedding or head",
    "table_parameters * value_bytes",
    category="buffers",
    source=FSDP + ": as any group's",
    why="An embedding or head that is its own FSDP unit is gathered into its own flat buffer.",
)

ROOT_GATHER_BUFFER = Formula(
    "all-gather buffer of the root",
    "root_parameters * value_bytes",
    category="buffers",
    source=FSDP + ": as any group's; counted in dry runs",
    why="The root's weights are gathered into a flat buffer too, before any layer's weights.",
)

GATHER_POOL = Formula(
    "idle all-gather pool",
    "maximum(root_parameters, layer_parameters) * value_bytes - live_bytes",
    category="allocator",
    source="torch 2.13.0 _fsdp_collectives.py: all-gather outputs are allocated in a stream of "
    "their own, whose cached blocks no other stream can use",
    why="The root's flat buffer is freed early, but its segment stays cached for the all-gather "
    "stream.",
)

ARRIVING_SHARDS = Formula(
    "shards that are about to be gathered",
    "ceil_div(layer_parameters, shards) * value_bytes * minimum(shards - 1, 1)",
    category="buffers",
    source="torch 2.13.0 _fsdp_collectives.py, _get_param_all_gather_inputs: "
    "flat_foreach_copy_input, or a copy of each shard that comes from host RAM",
    why="A rank's own shards are cast, or brought from host RAM, beside the buffer into which all "
    "shards are gathered. Shards that are as they travel need no copy.",
)

ARRIVING_COPY = Formula(
    "copy of an arriving table",
    "table_parameters * value_bytes * (2 - minimum(shards, 2))",
    category="buffers",
    source="torch 2.13.0 _fsdp_param.py, all_gather_inputs; _fsdp_param_group.py, "
    "wait_for_unshard: if world_size == 1; verl's own workers, 2026-11",
    why="One GPU gathers nothing. It casts a weight to the computing dtype and copies the result. "
    "A weight from host RAM is on the GPU as it is stored first, beside its cast copy.",
)

WHOLE_GATHER_BUFFER = Formula(
    "all-gather buffer of all weights",
    "parameters * value_bytes",
    category="buffers",
    source=FSDP + ": a unit's flat output lives until the next unit's, or the end of the forward",
    why="A model that is a single FSDP unit is gathered into one flat buffer, which no later "
    "unit's all-gather frees.",
)

REDUCE_INPUT = Formula(
    "reduce-scatter input",
    "layer_parameters_trained * value_bytes",
    category="buffers",
    source=FSDP + ": flat gradients in reduce_dtype, held until the next group",
    why="A layer's gradients are flattened and cast to the reduction's dtype before the "
    "reduce-scatter.",
)

UNSHARDED_GRADIENTS = Formula(
    "gradients of one layer, unsharded",
    "layer_parameters_trained * value_bytes",
    category="gradients",
    source=FSDP,
    why="A layer's unsharded gradients exist until they are reduced.",
)

ALL_REDUCED = Formula(
    "gradients held for their all-reduce",
    "ceil_div(trained_elements, shards) * value_bytes * "
    "minimum(maximum(cast, micro_batches - 1), 1) * minimum(replicas - 1, 1)",
    category="gradients",
    source=FSDP + ": AllReduceState keeps each group's reduced gradients until the backward ends",
    why="With several replicas of the shards, each unit's reduced gradients stay alive for the "
    "all-reduce until the backward ends. These gradients take extra memory only if they are cast, "
    "or added to an earlier micro-batch's gradients.",
)

ROOT_GRADIENTS = Formula(
    "gradients of the root, unsharded",
    "root_parameters_trained * value_bytes",
    category="gradients",
    source=FSDP + ": the root group reduces when the whole backward has ended",
    why="The gradients of head and embedding stay unsharded until the end of the backward.",
)

UNSHARDED = frozenset(
    one.name for one in (WHOLE_GRADIENTS, UNSHARDED_GRADIENTS, ROOT_GRADIENTS)
)
"""Names of gradients that wait whole; what they are reduced to is made on another stream."""

ROOT_REDUCE_INPUT = Formula(
    "reduce-scatter input of the root",
    "root_parameters_trained * value_bytes",
    category="buffers",
    source=FSDP,
    why="At the end of the backward the root's gradients are flattened in reduce_dtype.",
)

TABLE_REDUCE_INPUT = Formula(
    "reduce-scatter input of an embedding or head",
    "table_parameters * value_bytes",
    category="buffers",
    source=FSDP + ": as any group's, held until the next one's",
    why="The gradient of an embedding or head that is its own FSDP unit is flattened and cast to "
    "the reduction's dtype.",
)

UNIT_REDUCED = Formula(
    "reduced gradient of a unit",
    "ceil_div(trained_elements, shards) * (value_bytes + cast_bytes)",
    category="gradients",
    source=FSDP + "; _fsdp_collectives.py, foreach_reduce: its loop's name outlives the loop, and "
    "with it a unit's last gradient",
    why="A unit's reduced gradient and its cast copy are made beside the reduction's input, before "
    "the unit's last unsharded gradient is freed.",
)

REDUCE_OUTPUT = Formula(
    "reduce-scatter output",
    "ceil_div(trained_elements, shards) * (value_bytes * maximum(cast, apart) + "
    "cast_bytes * cast * apart)",
    category="buffers",
    source=FSDP + "; _fsdp_collectives.py, foreach_reduce",
    why="A reduced shard is cast to its weight's dtype if the two dtypes differ. If the weight has "
    "a gradient from an earlier micro-batch, or its gradient waits in host RAM, the result is "
    "extra memory (apart is 1).",
)

ZERO_BUCKETS = Formula(
    "ZeRO reduce buckets",
    "reduce_bucket_size * value_bytes * there",
    category="buffers",
    source=ZERO_CONFIG + ": reduce_bucket_size 5e8 elements, however few are trained; a second one "
    "with overlap_comm, which is off by default below stage 3; " + ZERO_RUN,
    why="Gradients are collected in a flat bucket before they are reduced.",
)

ZERO_BUCKET_COPY = Formula(
    "gradients of a ZeRO bucket",
    "elements * value_bytes * minimum(parts - 1, 1)",
    category="buffers",
    source=ZERO_RUN + ": stage_1_and_2.py, allreduce_bucket: flatten; coalesced_collectives.py, "
    "reduce_scatter_coalesced",
    why="The gradients that are reduced together are put end to end, beside the bucket, unless "
    "they are one piece, which goes to one GPU.",
    ignores="norms and biases, whose parts are counted as if they were others'",
)

ZERO_SENT = Formula(
    "gradients on their way, cast",
    "elements * value_bytes * cast",
    category="buffers",
    source=ZERO_RUN + ": stage_1_and_2.py, allreduce_bucket; stage3.py, __avg_scatter_grads: "
    "cast to communication_data_type",
    why="Gradients that are sent in another dtype are cast to it, all that are reduced together.",
)

ZERO_ADDED = Formula(
    "reduced gradient being added in fp32",
    "4 * largest * widened",
    category="buffers",
    source=ZERO_RUN + ": stage_1_and_2.py, _add_to_grad_partition_buffer: source.to(output.dtype)",
    why="A half-precision gradient is cast before it is added to a GPU's fp32 part.",
)

ZERO_CAME_BACK = Formula(
    "reduced gradients, cast",
    "ceil_div(elements, shards) * value_bytes * cast",
    category="buffers",
    source=ZERO_RUN + ": stage3.py, __avg_scatter_grads: cast to gradient_accumulation_dtype",
    why="A GPU's part of what was reduced together is cast to the dtype in which it adds up.",
)

ZERO_OVERSIZED = Formula(
    "gradient that no bucket holds",
    "elements * value_bytes",
    category="gradients",
    source=ZERO_RUN + ": stage_1_and_2.py, extra_large_param_to_reduce; stage3.py, "
    "__add_grad_to_ipg_bucket",
    why="A gradient larger than the bucket stays as it is until the next gradient is made.",
)

ZERO_SHARE = Formula(
    "share of this backward's gradients",
    "(ceil_div(trainable, shards) + overhang) * value_bytes * there",
    category="gradients",
    source=ZERO_RUN + ": stage_1_and_2.py, copy_grads_in_partition, and in fp32 "
    "_build_compact_grad_partition_buffer: all of it with its first gradient",
    why="A GPU's part of a backward's gradients is one buffer, which is added to that of earlier "
    "micro-batches when the backward has ended.",
)

ZERO_OVERHANG = Formula(
    "gradients that reach into another GPU's part",
    "overhang * value_bytes * there",
    category="gradients",
    source=ZERO_RUN + ": stage_1_and_2.py, copy_grads_in_partition: total_size",
    why="A GPU keeps the half-precision gradient of a weight whole if any of it is in its part.",
)

ZERO_SHARE_AT_END = Formula(
    "share of the gradients, beside whole ones",
    "maximum(ceil_div(trainable, shards) + overhang - moved, 0) * value_bytes",
    category="gradients",
    source=ZERO_RUN + ": stage_1_and_2.py, reduce_gradients, copy_grads_in_partition",
    why="ZeRO-1 copies a GPU's part of the reduced gradients; those that the bucket has taken are "
    "gone by then.",
)

ZERO_LOW_GRADIENTS = Formula(
    "half-precision gradients, zeroed",
    "trainable * value_bytes",
    category="gradients",
    source="DeepSpeed 0.19.8 runtime/bf16_optimizer.py, clear_lp_grads: set_to_none is False; "
    + ZERO_RUN,
    why="Under ZeRO-1, bf16 weights whose gradients add up in fp32 keep their bf16 gradients too.",
)

ZERO_BUCKET_IN_FP32 = Formula(
    "fp32 gradients of a bucket, and their cast",
    "minimum(reduce_bucket_size + largest, trainable) * (4 + value_bytes)",
    category="buffers",
    source="DeepSpeed 0.19.8 runtime/engine.py, allreduce_bucket: flatten, then the dtype in which "
    "it is sent; " + ZERO_RUN,
    why="ZeRO-1 reduces whole fp32 gradients bucket by bucket when an update is due; the gradient "
    "that fills a bucket goes with it.",
)

ZERO3_LIVE = Formula(
    "ZeRO-3 gathered weights",
    "minimum(maximum(max_live, held) + following, parameters) * value_bytes",
    category="parameters",
    source=ZERO_CONFIG + ": stage3_max_live_parameters 1e9; partitioned_param_coordinator.py, "
    "_fetch_sub_module_impl; " + ZERO_RUN,
    why="ZeRO-3 fetches weights ahead while fewer than a billion are alive. The last one may go "
    "beyond, and what a module needs is fetched whatever is alive.",
)

ZERO3_ARRIVED = Formula(
    "buffer of weights fetched together",
    "minimum(fetched_together, maximum(parameters - whole, 0)) * value_bytes",
    category="buffers",
    source="DeepSpeed 0.19.8 runtime/zero/partition_parameters.py, AllGatherCoalescedHandle.wait: "
    "each weight is put together out of the flat buffer, which goes with the last; " + ZERO_RUN,
    why="Weights fetched ahead arrive in one buffer and are copied out of it; weights that stay "
    "gathered are not fetched again.",
)

ZERO_FLAT_GRADIENTS = Formula(
    "gradient partition, flat",
    "ceil_div(trainable, shards) * value_bytes",
    category="buffers",
    source="DeepSpeed 0.19.8 runtime/zero/stage_1_and_2.py, step: flatten(averaged_gradients); "
    "stage3.py, _prepare_fp32_grad_for_sub_group, whatever their dtype; " + ZERO_RUN,
    why="A partition's gradients are flattened into one copy beside the originals, and upcast "
    "afterwards.",
)

ZERO_NORM = Formula(
    "largest gradient in fp64",
    "8 * largest_weight",
    category="buffers",
    source="DeepSpeed 0.19.8: norms of gradients are taken in double; " + ZERO_RUN,
    why="Gradient clipping computes the norm of each gradient in fp64.",
)

ZERO_OWN = frozenset(
    each.name
    for each in (
        *(ZERO_BUCKETS, ZERO_BUCKET_COPY, ZERO_SENT, ZERO_ADDED, ZERO_CAME_BACK, ZERO_OVERSIZED),
        *(ZERO_SHARE, ZERO_OVERHANG, ZERO_SHARE_AT_END, ZERO_LOW_GRADIENTS, ZERO_BUCKET_IN_FP32),
        *(ZERO3_ARRIVED, ZERO_FLAT_GRADIENTS, ZERO_NORM),
    )
)
"""What DeepSpeed makes beside state, and no step of ours does."""

WHOLE_COPY = Formula(
    "weights gathered whole",
    "parameters * value_bytes",
    category="parameters",
    source="transformers and TRL gather all weights around generate under FSDP1 and ZeRO-3 "
    "(summon_full_params, GatheredParameters); TRL 1.16.0 prepare_fsdp shards its reference "
    "as one unit",
    why="Weights that are not gathered layer by layer are gathered whole on every GPU.",
)

STATE_OF_UNIT = Formula(
    "optimizer state of a unit, gathered",
    "(unit_parameters + ceil_div(unit_parameters, shards)) * value_bytes",
    category="buffers",
    source="torch 2.13.0 distributed/fsdp/_optim_utils.py, _allgather_orig_param_states: a flat "
    "tensor as long as the unit, frozen weights included, beside this rank's part of it",
    why="FSDP1 gathers each moment of a flat parameter on the GPU before it goes to host RAM.",
)

LARGEST_TENSOR = Formula(
    "largest tensor in transit",
    "largest_weight * value_bytes",
    category="buffers",
    source="weights are sent, saved and loaded tensor by tensor",
    why="One whole tensor is gathered or staged at a time.",
)
