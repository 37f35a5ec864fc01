"""Small configs that turn each family's switches away from the usual.

Every one is read by our schemas and built by transformers; the two must agree.
"""

from __future__ import annotations

from typing import Any

LLAMA = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 100,
}
GEMMA = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 11, "vocab_size": 100}
GPT2 = {"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 4, "vocab_size": 90}

VARIANTS: dict[str, dict[str, Any]] = {
    "llama plain": {"model_type": "llama", **LLAMA},
    "llama biases": {"model_type": "llama", **LLAMA, "attention_bias": True, "mlp_bias": True},
    "llama wide heads": {"model_type": "llama", **LLAMA, "head_dim": 32, "num_key_value_heads": 2},
    "llama null heads": {
        "model_type": "llama",
        **LLAMA,
        "head_dim": None,
        "num_key_value_heads": None,
    },
    "llama tied": {"model_type": "llama", **LLAMA, "tie_word_embeddings": True},
    "llama gelu": {"model_type": "llama", **LLAMA, "hidden_act": "gelu"},
    "qwen2 plain": {"model_type": "qwen2", **LLAMA, "num_key_value_heads": 2},
    "qwen2 head_dim": {"model_type": "qwen2", **LLAMA, "num_key_value_heads": 2, "head_dim": 48},
    "qwen2 window unused": {
        "model_type": "qwen2",
        **LLAMA,
        "num_key_value_heads": 4,
        "sliding_window": 16,
        "max_window_layers": 2,
    },
    "qwen2 window": {
        "model_type": "qwen2",
        **LLAMA,
        "num_key_value_heads": 4,
        "use_sliding_window": True,
        "sliding_window": 16,
        "max_window_layers": 3,
    },
    "qwen2 window never": {
        "model_type": "qwen2",
        **LLAMA,
        "num_key_value_heads": 4,
        "use_sliding_window": True,
        "sliding_window": 16,
    },
    "qwen3 plain": {"model_type": "qwen3", **LLAMA, "num_key_value_heads": 2},
    "qwen3 types": {
        "model_type": "qwen3",
        **LLAMA,
        "num_key_value_heads": 2,
        "use_sliding_window": True,
        "sliding_window": 8,
        "attention_bias": True,
        "head_dim": 16,
        "layer_types": [
            "full_attention",
            "sliding_attention",
            "sliding_attention",
            "full_attention",
        ],
    },
    "qwen3 types, window unused": {
        "model_type": "qwen3",
        **LLAMA,
        "num_key_value_heads": 2,
        "sliding_window": 8,
        "layer_types": ["sliding_attention"] * 4,
    },
    "mistral default window": {"model_type": "mistral", **LLAMA, "num_key_value_heads": 1},
    "mistral no window": {
        "model_type": "mistral",
        **LLAMA,
        "num_key_value_heads": 2,
        "sliding_window": None,
    },
    "mistral head_dim": {
        "model_type": "mistral",
        **LLAMA,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "tie_word_embeddings": True,
    },
    "gemma2 plain": {"model_type": "gemma2", **GEMMA},
    "gemma2 caps off": {
        "model_type": "gemma2",
        **GEMMA,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "tie_word_embeddings": False,
        "attention_bias": True,
        "sliding_window": 32,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 24,
    },
    "gemma3 plain": {"model_type": "gemma3_text", **GEMMA},
    "gemma3 pattern": {
        "model_type": "gemma3_text",
        **GEMMA,
        "sliding_window_pattern": 3,
        "sliding_window": 20,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
    },
    "gemma3 types": {
        "model_type": "gemma3_text",
        **GEMMA,
        "layer_types": ["full_attention"] * 11,
    },
    "gemma3 multimodal": {
        "model_type": "gemma3",
        "text_config": {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6},
    },
    "phi3 plain": {"model_type": "phi3", **LLAMA, "vocab_size": 32_064},
    "phi3 partial rotary": {
        "model_type": "phi3",
        **LLAMA,
        "vocab_size": 32_064,
        "num_key_value_heads": 2,
        "partial_rotary_factor": 0.5,
        "sliding_window": 12,
        "tie_word_embeddings": True,
    },
    "phi3 partial rotary, new place": {
        "model_type": "phi3",
        **LLAMA,
        "vocab_size": 32_064,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.75,
        },
    },
    "gpt2 plain": GPT2,
    "gpt2 n_inner": {
        **GPT2,
        "n_inner": 100,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": False,
        "n_positions": 32,
        "activation_function": "gelu",
    },
    "gpt2 other names": {
        "model_type": "gpt2",
        "hidden_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "vocab_size": 90,
        "max_position_embeddings": 64,
    },
}
