"""Configs of tiny models, one of each family: the smallest that have all a family's tensors."""

from __future__ import annotations

from typing import Any

LLAMA: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GEMMA: dict[str, Any] = {
    **LLAMA,
    "tie_word_embeddings": True,
    "sliding_window": 32,
    "query_pre_attn_scalar": 16,
    "hidden_act": "gelu_pytorch_tanh",
    "hidden_activation": "gelu_pytorch_tanh",
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "qwen2": {**LLAMA, "tie_word_embeddings": True},
    "qwen3": LLAMA,
    "mistral": {**LLAMA, "sliding_window": None},
    "phi3": {**LLAMA, "sliding_window": None, "original_max_position_embeddings": 512},
    "gemma2": GEMMA,
    "gemma3_text": {**GEMMA, "sliding_window_pattern": 2},
    "gpt2": {
        "n_embd": 64,
        "n_head": 4,
        "n_layer": 4,
        "n_positions": 512,
        "vocab_size": 1000,
        "activation_function": "gelu_new",
        # A CPU keeps dropout's noise in the compute dtype, a GPU as booleans.
        "attn_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "resid_pdrop": 0.0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": True,
    },
    "olmo2": LLAMA,
    "olmo3": {**LLAMA, "sliding_window": 32},
    "smollm3": LLAMA,
    "glm": LLAMA,
    "glm4": LLAMA,
    "starcoder2": {**LLAMA, "sliding_window": None, "hidden_act": "gelu_pytorch_tanh"},
    "gpt_neox": {**LLAMA, "rotary_pct": 0.25, "hidden_act": "gelu"},
}
MIXTURES: dict[str, dict[str, Any]] = {
    "qwen3_moe": {
        **LLAMA,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 48,
        "norm_topk_prob": True,
    },
    "mixtral": {
        **LLAMA,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "intermediate_size": 96,
    },
    "olmoe": {**LLAMA, "num_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 48},
}
MIXTURES["two kinds"] = {
    **MIXTURES["qwen3_moe"],
    "model_type": "qwen3_moe",
    "mlp_only_layers": [0, 2],
}
# So few words that the peak is in the layers, whichever kind needs more.
MIXTURES["wide experts"] = {**MIXTURES["two kinds"], "vocab_size": 50}
MIXTURES["wide MLP"] = {**MIXTURES["wide experts"], "intermediate_size": 704}
CONFIGS |= MIXTURES
