"""Weights, gradients and optimizer state: what stays resident between phases.

Sizes follow the number of elements; ``shards`` is 1 where a thing is replicated.
"""

from __future__ import annotations

from planner.formulas.formula import Formula

TORCH_ADAMW = "torch/optim/adamw.py, torch/optim/adam.py at 2.13.0 (read)"
ZERO = "DeepSpeed 0.19 runtime/zero (read); arXiv:1910.02054"

WEIGHTS = Formula(
    "weights",
    "ceil_div(parameters, shards) * value_bytes",
    category="parameters",
    source="parameter count of the built model; torch FSDP2 shards dimension 0 of each parameter",
    why="Every weight is stored once per shard group, in the dtype the optimizer updates.",
    ignores="padding of each parameter's first dimension to a multiple of the shards, that of "
    "experts aside",
)

FOUR_BIT_WEIGHTS = Formula(
    "4-bit weights",
    "ceil_div(quantised, 2) + ceil_div(quantised, 64) + 4 * ceil_div(quantised, 64 * 256)",
    category="parameters",
    source="bitsandbytes 0.50.2 functional.py, quantize_4bit with compress_statistics: two values "
    "a byte, one byte for each block of 64, one fp32 scale for each 256 of these",
    why="The frozen projections of all layers are stored in NF4 with double quantisation.",
    ignores="a table of 16 values and one offset a weight",
)

ADAPTERS = Formula(
    "adapter weights",
    "ceil_div(adapter_parameters, shards) * value_bytes",
    category="parameters",
    source="peft: lora_A (rank × in) and lora_B (out × rank) per target, fp32 by default "
    "(autocast_adapter_dtype)",
    why="LoRA adds two thin matrices to each target projection.",
)

FROZEN_ADAPTERS = Formula(
    "frozen adapter weights",
    "ceil_div(adapter_parameters, shards) * value_bytes",
    category="parameters",
    source="peft add_adapter; TRL 1.16's trainers name it ref where they are given trained "
    "adapters",
    why="The reference is a second adapter of the same shapes, without gradient or moments.",
)

GRADIENTS = Formula(
    "gradients",
    "ceil_div(trainable, shards) * value_bytes",
    category="gradients",
    source="torch autograd: .grad has the dtype and shape of its weight",
    why="Each trained weight has a gradient until the optimizer has used it.",
)

ACCUMULATED_GRADIENTS = Formula(
    "gradients of earlier micro-batches",
    "ceil_div(trainable, shards) * value_bytes * minimum(micro_batches - 1, 1)",
    category="gradients",
    source="torch autograd accumulates into .grad; a step with one micro-batch starts without",
    why="From the second micro-batch on, all gradients are alive during the forward.",
)

WHOLE_GRADIENTS = Formula(
    "whole gradients of earlier micro-batches",
    "trainable * value_bytes * minimum(micro_batches - 1, 1)",
    category="gradients",
    source="transformers 5.23.0 trainer.py: accelerate's no_sync around every micro-batch but the "
    "last; torch 2.13.0 _fsdp_param_group.py post_backward with reduce_grads off",
    why="FSDP shards gradients only when it reduces them, in the last micro-batch; until then "
    "every GPU keeps its own unsharded gradients.",
)

REDUCED_ABOVE = Formula(
    "whole gradients of higher layers, reduced by now",
    "(ceil_div(trainable_above, shards) * value_bytes - trainable_above * whole_bytes) * "
    "minimum(micro_batches - 1, 1)",
    category="gradients",
    source="torch 2.13.0 _fsdp_param_group.py: post_backward of each group, last layer first",
    why="In the last micro-batch a layer's shard takes the place of its whole gradients.",
)

LAYER_GRADIENTS = Formula(
    "gradients when the first layer is reached",
    "ceil_div(trainable - late * (1 - minimum(micro_batches - 1, 1)), shards) * value_bytes",
    category="gradients",
    source="torch autograd: the embedding's gradient is the last of the backward; counted in "
    "real steps",
    why="When the backward reaches the first layer, all gradients exist except those still to "
    "come; from the second micro-batch on, every weight already has a gradient.",
    ignores="that a part of the first layer's own gradients is still to come",
)

LOWER_LAYERS = Formula(
    "gradients of lower layers, still to come",
    "0 - ceil_div(trainable_below, shards) * value_bytes * (1 - minimum(micro_batches - 1, 1))",
    category="gradients",
    source="torch autograd goes backward layer by layer",
    why="The backward reaches a layer before it makes the gradients of the layers below.",
)

UPPER_LAYERS = Formula(
    "gradients of higher layers",
    "ceil_div(trainable_above, shards) * value_bytes * (1 - minimum(micro_batches - 1, 1))",
    category="gradients",
    source="torch autograd goes backward layer by layer",
    why="The backward reaches a layer after it has made the gradients of the layers above.",
)

DDP_BUCKETS = Formula(
    "DDP gradient buckets",
    "trainable * value_bytes",
    category="gradients",
    source="torch/csrc/distributed/c10d/reducer.cpp: flat buckets beside .grad unless "
    "gradient_as_bucket_view",
    why="DistributedDataParallel keeps a flat copy of all gradients as long as it runs.",
)

ADAM_MOMENTS = Formula(
    "Adam moments",
    "2 * ceil_div(trainable, shards) * value_bytes",
    category="optimizer",
    source=TORCH_ADAMW,
    why="First and second moment of every trained weight, in the weight's dtype.",
)

ADAM_8BIT_MOMENTS = Formula(
    "8-bit Adam moments",
    "2 * (ceil_div(trainable, shards) + 4 * ceil_div(ceil_div(trainable, shards), 256))",
    category="optimizer",
    source="bitsandbytes optim/optimizer.py: one byte a value, one fp32 scale per block of 256",
    why="Both moments are quantized block by block.",
    ignores="tensors below 4,096 values, which keep fp32 moments (norms and biases)",
)

TABLE_MOMENTS = Formula(
    "fp32 moments of embeddings",
    "2 * tables * 4",
    category="optimizer",
    source="transformers 5.23 trainer.py, create_optimizer: optim_bits 32 for every nn.Embedding",
    why="transformers' trainer asks bitsandbytes to leave embeddings' moments in fp32.",
)

PAGED_ELEMENTS = 100_000
"""Smallest tensor whose moments bitsandbytes 0.50.2 pages (optim/optimizer.py)."""

UNPAGED_MOMENTS = Formula(
    "8-bit Adam moments beside paged ones",
    "2 * (trainable - paged + 4 * ceil_div(trainable, 256))",
    category="optimizer",
    source="bitsandbytes optim/optimizer.py: scales of blocks, and moments of tensors below 1e5 "
    "values, are ordinary tensors",
    why="A paged optimizer always keeps block scales and the moments of small tensors on the GPU.",
    ignores="tensors below 4,096 values, which keep fp32 moments (norms and biases)",
)

ZERO_MASTER = Formula(
    "fp32 master weights",
    "ceil_div(trainable, shards) * 4",
    category="optimizer",
    source=ZERO,
    why="ZeRO's optimizer updates a partitioned fp32 copy of the half-precision weights.",
)

FOREACH_TEMPORARY = Formula(
    "AdamW foreach temporary",
    "ceil_div(trainable, shards) * value_bytes",
    category="optimizer",
    source=TORCH_ADAMW + ": exp_avg_sq_sqrt = _foreach_sqrt(exp_avg_sqs)",
    why="The multi-tensor (foreach) step holds the square roots of all second moments at once.",
)

DECAYED_GRADIENT = Formula(
    "gradient with weight decay",
    "ceil_div(largest_weight, shards) * value_bytes",
    category="optimizer",
    source="torch 2.13.0 optim/sgd.py, _single_tensor_sgd: grad = grad.add(param, alpha=...); "
    "DTensors are none of _foreach_supported_types (optim/optimizer.py)",
    why="SGD adds weight decay to each gradient out of place, one tensor at a time.",
)

ZERO_STEP_TEMPORARY = Formula(
    "fp32 gradients of the step",
    "ceil_div(trainable, shards) * 4",
    category="optimizer",
    source=ZERO + ": the gradient partition is cast to the master's dtype before the step",
    why="The half-precision gradient partition is upcast once for the update.",
)

LARGEST_GRADIENT = Formula(
    "gradient being added",
    "largest_weight * value_bytes * passes_on",
    category="gradients",
    source="torch autograd AccumulateGrad: the new gradient exists beside the old until added",
    why="While gradients are accumulated, or consumed as soon as they are made, one weight's new "
    "gradient is alive.",
)

LOCAL_RANKS_OFFLOAD = Formula(
    "offloaded to host RAM",
    "ranks_per_node * rank_bytes",
    category="buffers",
    source="each local process keeps its own shard in host RAM",
    why="Each local process keeps the tensors it offloads in the node's RAM.",
)
