"""Rollouts: the KV cache, decoding in transformers, and vLLM's share of the card."""

from __future__ import annotations

from planner.formulas.formula import Formula
from planner.term import AWAKE, POOL

VLLM = "vLLM 0.33.0 worker/gpu_worker.py determine_available_memory (read)"

KV_CACHE = Formula(
    "KV cache",
    "2 * kv_heads * head_dim * value_bytes * sequences * "
    "((layers - sliding_layers) * tokens + sliding_layers * minimum(tokens, window))",
    category="kv-cache",
    source="transformers 5.23 cache_utils.py DynamicCache: keys and values of every layer",
    why="The cache holds a key and a value per token and layer; sliding-window layers hold only "
    "their window.",
)

LINEAR_STATES = Formula(
    "states of linear attention",
    "layers * sequences * (4 * state_values + value_bytes * convolution_values)",
    category="kv-cache",
    source="transformers 5.23 cache_utils.py LinearAttentionLayer; fla 0.6.0 makes states in fp32",
    why="Instead of keys and values, linear attention keeps one matrix per head and the last "
    "inputs of its convolution.",
)

NEW_STATES = Formula(
    "one layer's new states",
    "4 * sequences * state_values",
    category="kv-cache",
    source="fla 0.6.0 final_state; transformers 5.23 LinearAttentionLayer.update_recurrent_state",
    why="The kernel returns new states, which are then copied into the cache.",
)

KV_GROWTH = Formula(
    "KV cache being extended",
    "kv_heads * head_dim * value_bytes * sequences * tokens",
    category="kv-cache",
    source="transformers 5.23 DynamicLayer.update: torch.cat builds the longer tensor "
    "beside the old one",
    why="Adding a token copies one layer's keys (then values) into a longer tensor.",
)

REPEATED_CACHE = Formula(
    "keys and values repeated for every head",
    "2 * heads * head_dim * value_bytes * sequences * tokens",
    category="kv-cache",
    source="transformers 5.23 integrations: repeat_kv before eager attention (sdpa packs the new "
    "token's heads instead, pack_gqa); counted in real generation",
    why="While a layer attends, its keys and values are copied once for every query head.",
)

UNPADDED_CACHE = Formula(
    "keys and values without padding",
    "3 * kv_heads * head_dim * value_bytes * sequences * tokens",
    category="kv-cache",
    source="transformers 5.23 modeling_flash_attention_utils.py _upad_input: the cache lies by "
    "head, is copied token by token and indexed; counted in dry runs",
    why="One layer's keys without padding, then a copy of its values, and the values without "
    "padding.",
)

MATH_CACHE = Formula(
    "keys and values repeated for the math kernel",
    "3 * heads * head_dim * value_bytes * sequences * tokens",
    category="kv-cache",
    source="sdp_utils.cpp at torch 2.13.0: fp32 rules out flash, grouped heads the other kernel; "
    "_scaled_dot_product_attention_math repeats both and scales the keys; counted in dry runs",
    why="One layer's keys and values repeated for every query head, and a scaled copy of these "
    "keys.",
)

CAST_CACHE = Formula(
    "keys and values cast for attention",
    "copies * heads * head_dim * 2 * sequences * tokens",
    category="kv-cache",
    source="ATen autocast: attention and GEMMs take half precision; the cache of "
    "rotated keys is fp32; counted in dry runs",
    why="Under autocast one layer's cache is cast before the new token attends to it.",
)

DECODE_SCORES = Formula(
    "attention scores of the new token",
    "sequences * heads * tokens * (4 + value_bytes)",
    category="activations",
    source="transformers 5.23 eager_attention_forward: fp32 softmax and its half-precision copy",
    why="The new token's scores over all tokens, of one layer.",
)

DECODE_EXPERTS = Formula(
    "experts copied for every new token",
    "3 * sequences * experts_per_token * expert_intermediate * hidden * value_bytes",
    category="buffers",
    source="transformers 5.23 generation/utils.py _optimize_model_for_decode: batched_mm on a GPU, "
    "which indexes the experts' weights by token; counted in real steps of it",
    why="Each new token gets its own copies of its experts' weights; the copy of gate and up is "
    "still alive while down is copied.",
)

SEQUENCE_IDS = Formula(
    "token ids and attention mask",
    "3 * 8 * sequences * tokens",
    category="buffers",
    source="transformers 5.23 generation/utils.py: int64 ids and mask, extended by torch.cat",
    why="The token ids so far, their attention mask, and the longer copy that torch.cat makes of "
    "one of them.",
)

LAST_SAMPLED = Formula(
    "previous token's scores and probabilities",
    "12 * sequences * vocab",
    category="logits",
    source="transformers 5.23 generation/utils.py _sample: fp32 logits, scores and probabilities "
    "keep their names until the next token's replace them; counted in real generation",
    why="The previous token's logits, scores and probabilities, all in fp32, stay alive while the "
    "next token is computed.",
)

SAMPLING = Formula(
    "next-token logits and probabilities",
    "16 * sequences * vocab",
    category="logits",
    source="transformers 5.23 generation/utils.py _sample: fp32 logits, processed scores, softmax; "
    "torch 2.13 multinomial: as many exponential numbers",
    why="Each decode step holds four fp32 tensors with one row over the vocabulary per sequence.",
    ignores="top-k and top-p processors, which sort the row",
)

ENGINE_WEIGHTS = Formula(
    AWAKE,
    "ceil_div(quantized, tensor_parallel) + "
    "ceil_div(parameters - quantized, tensor_parallel) * value_bytes",
    category="engine",
    source=VLLM + "; Fp8LinearMethod, Fp8MoEMethod; verl 0.9.1 vllm_async_server.py, "
    "_apply_quantization",
    why="The engine holds its own copy of the policy, split over its GPUs. With fp8 the layers' "
    "linear weights and experts take a byte each; embeddings, norms, routers and head stay.",
    ignores="scales of fp8 weights (4 bytes for each block of 16,384, or for each row)",
)

ENGINE_WORKING_SET = Formula(
    "vLLM working memory",
    "maximum(value_bytes * tokens * (2 * hidden + ceil_div(3 * intermediate, tensor_parallel)), "
    "3 * value_bytes * tokens * hidden + (12 + value_bytes) * max_num_seqs * vocab)",
    category="engine",
    source=VLLM + ": a profile run at max_num_batched_tokens, a sampler run at max_num_seqs, whose "
    "memory is taken again before the first request; 40 start-up logs of vLLM 0.19 say 2.2 GiB "
    "for Qwen2.5-7B, 1.9 for Llama-3.1-8B, 0.85 for Granite-3.1-8B, as this does within 2%",
    why="The larger of one layer's activations and the sampler's tensors: every sequence's logits, "
    "three fp32 tensors of their shape, and the hidden states.",
    ignores="attention metadata and kernel workspaces; soft-capped logits are copied once more",
)

ENGINE_EXPERT_WORKSPACE = Formula(
    "vLLM expert workspace",
    "max_num_batched_tokens * experts_per_token"
    " * (maximum(ceil_div(2 * expert_intermediate, tensor_parallel), hidden)"
    " + ceil_div(expert_intermediate, tensor_parallel)) * value_bytes",
    category="engine",
    source=VLLM + "; fused_moe keeps gate and up, later the outputs, in one buffer and the product "
    "in another, both from a workspace made once for the largest batch, outside the sleeping pool",
    why="Routed rows of one layer for the largest batch that the engine accepts; they stay "
    "allocated while the engine sleeps.",
)

ENGINE_BUFFERS = Formula(
    "vLLM input buffers",
    "max_num_batched_tokens * hidden * value_bytes",
    category="engine",
    source="vLLM v1/worker/gpu_model_runner.py: inputs_embeds, made for every model before weights "
    "load, outside the sleeping pool; issue 35023 asks to leave it out, pull request 35975, which "
    "did, was closed unmerged",
    why="Embeddings of the largest batch have a buffer, also where prompts come as token ids.",
    ignores="ids, positions and slots: 20 bytes a token",
)

ENGINE_GRAPHS = Formula(
    "vLLM CUDA graphs",
    "captures * (capture_bytes + layers * layer_bytes) * times // 1000",
    category="engine",
    source="vLLM captures piecewise graphs for 1, 2, 4, 8 … tokens up to min(2 max_num_seqs, 512) "
    "and full ones up to max_num_seqs; bytes by 24 start-up logs; where adapters are served once "
    "more with them, 2.38 GiB for 0.76 (catalog/device_constants.py)",
    why="Captured graphs keep their nodes and buffers, also while the engine sleeps. An engine "
    "that serves adapters captures each size both with and without adapters "
    "(cudagraph_specialize_lora).",
)

ENGINE_LIBRARIES = Formula(
    "vLLM libraries",
    "library_bytes",
    category="engine",
    source="catalog/device_constants.py: what vLLM logs as memory outside PyTorch, from "
    "start-up logs; with communicators only where the engine is spread over GPUs; at most more "
    "where it serves adapters, by one log and the threads a card holds at once",
    why="The driver keeps handles, code and communicators for the engine, also while the engine "
    "sleeps.",
)

ENGINE_KV_POOL = Formula(
    POOL,
    "maximum(engine_bytes - weights_bytes - profiled_bytes - kept_bytes, one_sequence_bytes)",
    category="engine",
    source=VLLM + ": what its share of the card leaves after weights, profile peak, libraries and "
    "graphs",
    why="The engine turns the rest of its gpu_memory_utilization into KV cache, which must hold at "
    "least one full-length sequence.",
)

REWARD_ENGINE = Formula(
    "reward model's engine, by its memory utilization",
    "card_bytes * share_percent // 100 - kept_bytes",
    category="engine",
    source="verl 0.9.1 trainer/config/reward/reward.yaml: reward_model.rollout with "
    "gpu_memory_utilization 0.5 on the trainer's GPUs (enable_resource_pool false); "
    "experimental/reward_loop/reward_loop.py, compute_rm_score: wake_up, score, sleep",
    why="A served reward model takes its gpu_memory_utilization while it scores, KV cache "
    "included; what it keeps while asleep is a separate term.",
    ignores="another share, which no field says",
)

PACKED_WEIGHTS = Formula(
    "packed weights in transit",
    "minimum(buffers * maximum(buffer_bytes, largest_bytes), weight_bytes)",
    category="buffers",
    source="TRL 1.16.0 trl/generation/vllm_client.py, update_named_params; vLLM "
    "vllm/distributed/weight_transfer/packed_tensor.py: 1 GiB, 2 buffers; a buffer is closed by "
    "the weight that exceeds it",
    why="Weights are packed into buffers, and each buffer is sent while the next one is filled; "
    "the receiver allocates a new buffer before it frees the one that it replaces.",
)

SYNC_BUCKET = Formula(
    "weight sync bucket",
    "buckets * bucket_bytes",
    category="buffers",
    source="verl 0.9.1 rollout.checkpoint_engine.update_weights_bucket_megabytes = 2048; "
    "nccl_checkpoint_engine.py, prepare: every process one to send and one to receive; "
    "bucketed_weight_transfer.py: one more from its process to vLLM's",
    why="Updated weights travel to the engine in buckets. A colocated engine needs one bucket; "
    "with dedicated rollout GPUs every GPU needs one to send and one to receive, and each engine "
    "GPU a third to hand weights to vLLM. No weight bucket counts towards gpu_memory_utilization.",
)
