"""Host RAM of a node beside what is offloaded: processes, pinned buffers, files on their way."""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.numeric import Bounded

CARD_PROCESSES = Formula(
    "processes with a card",
    "processes * (imports_bytes + cuda_bytes)",
    category="buffers",
    source="anonymous memory after imports, measured 2026-11-22 (torch 2.13.0 CPU build, "
    "transformers 5.23.0: 326 MiB; TRL 1.16.0: 334 MiB; verl 0.9.1: 351 MiB); the CUDA build's "
    "own: middle of 0.11 and 1.65 GiB, pytorch/pytorch#113326 (resident 438,632 and 2,056,600 kB "
    "after a first tensor on the card, 322,040 kB before)",
    why="Python, torch, the framework and the driver's host side, once for each process.",
    ignores="shared libraries and other pages of files; what data loaders and NCCL hold",
)

HELPER_PROCESSES = Formula(
    "processes without a card",
    "helpers * imports_bytes + services_bytes",
    category="buffers",
    source="verl 0.9.1: a task runner, 8 agent loops (rollout.yaml) and 8 reward workers "
    "(reward.yaml), an engine core and a server for each engine (vllm_async_server.py); Ray 2.60: "
    "26 MiB of its GCS and 9 MiB of a raylet, measured 2026-11-22; sizes as for processes with a "
    "card",
    why="Each process without a GPU imports torch and transformers.",
    ignores="Ray's dashboard and agents, forks of data loaders, whose pages are shared at first; "
    "vLLM has no CPU swap space any more (config/cache.py), and offloads no cache unless told",
)

SHARED_OBJECTS = Formula(
    "step's batch in Ray's object store",
    "batch_tokens * bytes_per_token",
    category="buffers",
    source="verl 0.9.1 ray_trainer.py: ids, mask, positions and response mask in int64, "
    "log-probs of policy and reference, scores, rewards, advantages and returns in fp32; at least "
    "none, since nothing keeps what was read; at most five times: the driver's own, consolidated, "
    "written, in the store, and read by the workers (protocol.py, DataProto.__getstate__)",
    why="The driver process and the workers exchange the step's batch through shared memory.",
)

PINNED = Formula(
    "pinned in host RAM",
    "ranks_per_node * pinned_bytes",
    category="buffers",
    source="torch 2.13 ATen/core/CachingHostAllocator.h (PowerOf2Ceil of each buffer), "
    "TensorConversions.cpp (a copy to the CPU that does not block is pinned), FSDP2's "
    "CPUOffloadPolicy(pin_memory=True), vLLM's cumem.py (a sleeping engine's backup is pinned)",
    why="Torch rounds each pinned buffer up to a power of two and never returns a part of a "
    "buffer.",
    ignores="buffers that an earlier, larger tensor left in the cache",
)

BY_DEEPSPEED = Formula(
    "what DeepSpeed says of host RAM, beyond what is counted",
    "counted * maximum(3 * maximum(4 * loading_ranks * parameters, (16 * trainable + "
    "2 * offloaded_parameters) * ranks_per_node // gpus) // 2 - kept, 0)",
    category="buffers",
    source="deepspeedai/DeepSpeed, runtime/zero/stage_1_and_2.py, "
    "estimate_zero2_model_states_mem_needs, and stage3.py, estimate_zero3_model_states_mem_needs "
    "(zero_init); docs/code-docs/source/memory.rst has what its bytes are. A 32B under ZeRO-3 with "
    "offload was killed with 744 GB, where it says 884 (hiyouga/LlamaFactory#6755)",
    why="DeepSpeed's own estimate for a node, which includes a factor of 1.5 for buffers. The "
    "estimate is the larger of two sums: fp32 master weights, gradients and moments plus offloaded "
    "half-precision weights; or whole fp32 weights in every process that loads them.",
    ignores="that it knows no adapters: what is frozen is taken to be its half-precision weights",
)

FLAT_GRADIENTS = Formula(
    "gradients of a frozen model, pinned beside its weights",
    "pinned_bytes",
    category="buffers",
    source="torch 2.13.0 distributed/fsdp/_flat_param.py, init_flat_param_attributes: _cpu_grad, "
    "zeros as large as the weights wherever these are offloaded; verl's reference was run on a CPU "
    "(docs/memory-notes.md, finding 15)",
    why="FSDP1 allocates gradients for all weights that it offloads, trained or frozen.",
)

LOADED = Formula(
    "weights read into host RAM",
    "copies * parameters * value_bytes * converted",
    category="buffers",
    source="transformers 5.23 from_pretrained, measured on a CPU 2026-11-22 and -26: weights in "
    "the file's dtype stay mapped (0 anonymous bytes of 637 MiB), others are made anew, by every "
    "rank under FSDP with cpu_ram_efficient_loading, too; verl's other ranks drop each tensor at "
    "once (init_empty_weights); under ZeRO-3 only rank 0 reads (docs/memory-notes.md)",
    why="Weights that are converted to another dtype take anonymous memory once for each process "
    "that reads them.",
    ignores="the page cache of the safetensors files",
)

SAVED = Formula(
    "state gathered to save",
    "copies * (parameters * value_bytes + frozen_bytes)",
    category="buffers",
    source="FSDP gathers a full state dict with CPU offload on rank 0; other strategies stream "
    "tensor by tensor from the GPU. Adapters are gathered alone, unless they are picked out of the "
    "whole model (transformers 5.23 Trainer.save_model under FSDP)",
    why="Rank 0 holds one copy of everything it saves in host RAM before it writes the files.",
)

SAVED_STATE = Formula(
    "optimizer state gathered to save",
    "trainable * state_bytes",
    category="buffers",
    source="accelerate 1.15.0 utils/fsdp_utils.py, save_fsdp_optimizer of a FULL_STATE_DICT: "
    "FSDP2's get_optimizer_state_dict and FSDP1's optim_state_dict, offloaded to rank 0's host RAM",
    why="Rank 0 writes the weights first; then it holds the whole optimizer state in host RAM "
    "before writing it.",
)

SAVED_SHARDS = Formula(
    "shards copied to save",
    "ranks_per_node * ceil_div(parameters * value_bytes + trainable * state_bytes, shards)",
    category="buffers",
    source="verl 0.9.1 fsdp_checkpoint_manager.py: ShardedStateDictConfig(offload_to_cpu=True), "
    "model and optimizer",
    why="Every rank copies its shards of weights and moments to host RAM before it writes them.",
)

CUDA_BYTES = Bounded(
    (438_632 - 322_040) * 1024,
    (438_632 - 322_040 + 2_056_600 - 322_040) * 1024 // 2,
    (2_056_600 - 322_040) * 1024,
)
"""Host side of torch's CUDA build in a process: two published ends, and their middle."""

MOST_COPIES = 5
"""Of a step's batch, on the way from the driver to its workers."""
