"""What it takes until a generator has the updated weights, cause by cause."""

from __future__ import annotations

from planner.formulas.communication import NCCL
from planner.formulas.duration import Rate

GATHERED = Rate(
    "weights gathered for vLLM",
    "gather_seconds + (weights - 1) * latency_seconds",
    unit="seconds",
    source=NCCL + "; TRL 1.16 vllm_generation.py and verl 0.9.1 get_per_tensor_param (read): "
    "full_tensor of one weight after the other, in the dtype it is stored in",
    why="Sharded weights are gathered one after the other, on every training GPU or only on the "
    "one that sends them.",
    ignores="what Python spends on each weight",
)
FETCHED = Rate(
    "vLLM weights from host RAM",
    "trips * size_bytes / (slot_bytes_per_second * share)",
    unit="seconds",
    source="verl 0.9.1 fsdp/transformer_impl.py get_per_tensor_param (read): under FSDP2 each "
    "shard to the card as it is gathered, else load_fsdp_model_to_gpu and "
    "offload_fsdp_model_to_cpu of all that a GPU keeps; TRL 1.16 vllm_generation.py: "
    "param.to(device) where it is on the CPU",
    why="Shards offloaded to host RAM are copied to the GPU before they are gathered; a model that "
    "is loaded as a whole is copied back afterwards.",
    ignores="memory that is not pinned, as verl's is not after its first offload: it is slower",
)
SENT = Rate(
    "weights sent to vLLM",
    "size_bytes / bytes_per_second",
    unit="seconds",
    source="TRL 1.16 vllm_client.py packed_nccl_broadcast_producer, verl 0.9.1 "
    "nccl_checkpoint_engine.py (read): one rank broadcasts to every GPU of every engine",
    why="One GPU sends the whole policy over its link, or over its one network card if the engine "
    "is on another node.",
    ignores="buffers being sent while the next are gathered",
)
REQUESTED = Rate(
    "requests to vLLM",
    "requests * request_seconds",
    unit="seconds",
    source="efficiencies.json engine-request-seconds",
    why="Each request is a message and its reply; nothing else is sent until the reply arrives.",
)
PACKED = Rate(
    "weights copied into buckets",
    "2 * size_bytes / (bandwidth_bytes_per_second * share)",
    unit="seconds",
    source="verl 0.9.1 bucketed_weight_transfer.py (read): a buffer that the engine's process maps",
    why="Each weight is read, and written into the bucket that the engine sees.",
)
LOADED = Rate(
    "vLLM loading weights",
    "weights * tensor_seconds + touched_bytes / (bandwidth_bytes_per_second * share)",
    unit="seconds",
    source="efficiencies.json engine-load-seconds-per-tensor; vLLM load_weights (read): a name, a "
    "slice and a copy for each weight, every expert's by itself",
    why="For each weight the engine looks up its parameter and copies the slice that it needs, "
    "cast to the parameter's dtype.",
    ignores="what some calls cost that load one weight only",
)
WOKEN = Rate(
    "vLLM waking up",
    "size_bytes / remap_bytes_per_second",
    unit="seconds",
    source="efficiencies.json remap-bytes-per-second; vLLM cumem.py (read)",
    why="A sleeping engine keeps addresses without memory; waking allocates and maps memory for "
    "weights and KV cache.",
    ignores="giving the memory up before, which is quicker",
)
AGAIN = Rate(
    "weights to vLLM before each batch",
    "times * seconds_each",
    unit="seconds",
    source="TRL 1.16 vllm_generation.py generate (read): sleep(level=2) after each, and "
    "sync_weights before the next",
    why="An engine that discards its weights when it sleeps gets them again before every batch.",
)
ASLEEP = Rate(
    "engine's weights to host RAM and back",
    "2 * size_bytes / (slot_bytes_per_second * share)",
    unit="seconds",
    source="vLLM cumem.py (read): level 1 copies weights out as it falls asleep, and in on waking",
    why="At sleep level 1 the engine's own weights wait in host RAM while the trainer works.",
)
