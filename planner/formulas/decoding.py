"""What a rollout's seconds are made of, cause by cause, as expressions that are shown.

How long one step takes is :mod:`planner.timing.engine_step`'s, how many there are and with how many
sequences :mod:`planner.timing.rollout`'s.
"""

from __future__ import annotations

from planner.formulas.duration import Rate

KERNELS = "seconds by shape (docs/kernels.md); scheduling of vLLM's V1 engine, 0.24 to 0.31"

SMALL_KERNELS = Rate(
    "small kernels of one forward",
    "layers * maximum(kernels * least_seconds,"
    " rows * values * value_bytes / (bandwidth_bytes_per_second * share))"
    " + 2 * rows * state_bytes / (bandwidth_bytes_per_second * share)",
    unit="seconds",
    source="vLLM's compiled layers (read): two norms with the residual, rotation, writing the "
    "cache, activation; with experts four more that sort tokens; the least time is that of the "
    "shortest product measured on the card",
    why="These kernels read and write a few rows, but none takes less time than the shortest "
    "kernel measured on the card.",
    ignores="fusions beyond these",
)
SAMPLER = Rate(
    "sampler of one step",
    "maximum(kernels * least_seconds,"
    " sequences * vocab * value_bytes / (bandwidth_bytes_per_second * share))",
    unit="seconds",
    source="vllm/v1/sample/sampler.py (read): fp32 copy, temperature, softmax, exponential "
    "numbers, quotient and argmax are 42 bytes a vocabulary entry, log-probs and ranks 16 more",
    why="The sampler reads and writes every running sequence's row of logits several times.",
    ignores="top-k and top-p, which sort",
)
HOST_STEP = Rate(
    "host's part of one step",
    "step_seconds + sequences * sequence_seconds",
    unit="seconds",
    source="efficiencies.json engine-host-seconds-per-step, -per-sequence and -per-logprob",
    why="Host time: scheduling, preparing inputs, launching the graph and the sampler, and, for "
    "each sequence's new token, updating KV blocks, recording its log-prob and detokenizing it.",
    ignores="HTTP, and text that a server's other process makes of tokens",
)
STEP = Rate(
    "one step of an engine",
    "maximum(kernel_seconds,"
    " maximum(in_turn * kernel_seconds + host_seconds, launch_seconds))",
    unit="seconds",
    source="vLLM (read): async_scheduling, its default since 0.14 (config/vllm.py), and "
    "v1/engine/core.py step without it; launches: engine-eager-seconds-per-layer, "
    "hf-step-seconds-per-layer",
    why="With async scheduling the host prepares the next step while the card computes, and the "
    "slower of the two sets the step's time. Without it the host starts after the step's tokens "
    "are sampled, and the card waits.",
    ignores="launches of batches larger than the largest graph, whose layers are compiled",
)
PREFILL = Rate(
    "prefill",
    "passes * maximum(pass_seconds, launch_seconds)",
    unit="seconds",
    source=KERNELS,
    why="Prompts run through the layers in passes of at most max_num_batched_tokens; a prompt that "
    "its group shares runs once, except for its last tokens that fill no block of 16.",
    ignores="that decoding sequences share some passes",
)
PREFILL_ATTENTION = Rate(
    "prefill attention",
    "passes * pass_seconds",
    unit="seconds",
    source=KERNELS,
    why="In every layer the tokens of each prompt attend to each other.",
    ignores="the few tokens of a shared prompt that fill no block",
)
PRODUCTS = Rate(
    "decode GEMMs",
    "steps * step_seconds",
    unit="seconds",
    source=KERNELS,
    why="Every decode step multiplies one row per running sequence by all weights; an expert "
    "multiplies only the rows that are routed to it.",
)
ATTENTION = Rate(
    "decode attention",
    "steps * step_seconds",
    unit="seconds",
    source=KERNELS,
    why="In every decode step each running sequence reads its own keys and values.",
)
COPIED_CACHE = Rate(
    "KV cache copied at every token",
    "steps * 2 * sequences * tokens * bytes_per_token / (bandwidth_bytes_per_second * share)",
    unit="seconds",
    source="transformers 5.23 DynamicLayer.update: torch.cat builds the longer tensor",
    why="To add one token, each layer's whole keys and values are read and written again.",
)
SMALL = Rate(
    "small decode kernels",
    "steps * step_seconds",
    unit="seconds",
    source=SMALL_KERNELS.source,
    why="Norms, rotary embedding, activation function and KV cache writes of every layer.",
)
HEAD = Rate(
    "head and sampler",
    "steps * (head_seconds + sampler_seconds)",
    unit="seconds",
    source=KERNELS,
    why="Every decode step computes one row of logits per running sequence and samples from it.",
)
REDUCTIONS = Rate(
    "decode all-reduce",
    "steps * step_seconds",
    unit="seconds",
    source="vLLM's all-reduce as measured on the card, or NCCL's by the link",
    why="An engine that spans several GPUs all-reduces their partial results twice per layer.",
)
HOST = Rate(
    "decode waiting for the CPU",
    "steps * maximum(maximum(in_turn * kernel_seconds + host_seconds, launch_seconds)"
    " - kernel_seconds, 0)",
    unit="seconds",
    source=HOST_STEP.source + "; " + STEP.source,
    why=STEP.why,
)
LONGEST = Rate(
    "waiting for the longest",
    "maximum(decoding_seconds - busy_seconds, 0)",
    unit="seconds",
    source="survival of the lengths: n x S(t) sequences decode in step t, and a step is run as "
    "long as any engine has one",
    why="Time beyond what the same tokens would take with every slot of the batch filled: at the "
    "end a few long responses decode nearly alone.",
)
REWARDS = Rate(
    "rewards waited for",
    "ceil_div(responses, concurrency) * reward_seconds",
    unit="seconds",
    source="what the plan says of its rule or its machine",
    why="Rewards are computed after all responses have been generated, as many at a time as the "
    "concurrency allows.",
)
REWARDS_LEFT = Rate(
    "exposed reward time",
    "rounds * maximum(reward_seconds, behind_seconds)",
    unit="seconds",
    source="what the plan says of its rule or its machine; verl 0.9.1 agent_loop.py "
    "_compute_score (read)",
    why="Each response is scored as soon as it ends, while others still decode. The step waits for "
    "the last response's reward, or for the queue of rewards if that takes longer. The input "
    "behind_seconds is the most by which, at any moment, the rewards still due outlast the "
    "decoding still to come. An engine that never waits for a batch is delayed only by "
    "queue_seconds, the time by which all rewards outlast decoding with every slot filled.",
)
RECOMPUTED = Rate(
    "recomputation of preempted sequences",
    "sequences * tokens_each * seconds_per_token",
    unit="seconds",
    source="vLLM V1 scheduler (read): admits while blocks are free, preempts the newest by "
    "recomputation",
    why="vLLM admits sequences while the KV cache has free blocks, and their responses then "
    "outgrow the cache.",
    ignores="being preempted twice, and prefixes that are still cached",
)
