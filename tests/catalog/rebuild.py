"""Builds catalog rows and variants with transformers on the meta device; prints JSON.

Run as a process of its own (fixture ``rebuilt``): it needs torch, transformers and
peft, which the tested package must not import. Reads configs by ``part/name``.
"""

from __future__ import annotations

import copy
import inspect
import json
import sys
import warnings
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForTokenClassification,
    Conv1D,
)

SPARSE = ("mixtral", "olmoe", "qwen3_moe")
FAMILIES = {
    *("gemma2", "gemma3_text", "gpt2", "llama", "mistral", "phi3", "qwen2", "qwen3"),
    *("glm", "glm4", "gpt_neox", "olmo2", "olmo3", "smollm3", "starcoder2"),
    *SPARSE,
}
EVERY = ["q_proj", "k_proj", "v_proj", "o_proj"]
"""All linear layers of a model whose MLPs are experts."""
RANK = 8
ATTENTION_NAMES = ("attn", "attention", "self_attn")
ATTENTION = {
    "gpt2": ["attn.c_attn"],
    "gpt_neox": ["query_key_value"],
    "phi3": ["qkv_proj"],
}
EXTRAS: dict[str, dict[str, Any]] = {}
"""Rows of equal shapes share them: building takes most of the time."""
FEED_FORWARD = {
    **dict.fromkeys(("glm", "glm4"), ["gate_up_proj", "down_proj"]),
    "gpt2": ["mlp.c_fc", "mlp.c_proj"],
    "gpt_neox": ["dense_h_to_4h", "dense_4h_to_h"],
    "phi3": ["gate_up_proj", "down_proj"],
    "starcoder2": ["mlp.c_fc", "mlp.c_proj"],
}


def main() -> None:
    """What is asked for, and the defaults of the config classes."""
    warnings.simplefilter("ignore")
    json.dump(
        {
            "built": {
                case: partly(config) if case.startswith("lora/") else built(config)
                for case, config in json.load(sys.stdin).items()
            },
            "defaults": {family: defaults(family) for family in sorted(FAMILIES)},
        },
        sys.stdout,
    )


def read_config(config: dict[str, Any]) -> Any:
    """The config object, of the text part for a multimodal model."""
    whole = AutoConfig.for_model(**copy.deepcopy(config))
    return getattr(whole, "text_config", whole)


def defaults(family: str) -> dict[str, Any]:
    """What the config class fills in when a config.json says nothing."""
    found = AutoConfig.for_model(family).to_dict()
    return {name: value for name, value in found.items() if not isinstance(value, dict)}


def built(config: dict[str, Any]) -> dict[str, Any]:
    """Counts of the whole model; names, shapes and switches where a family is derived."""
    full = read_config(config)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(full)
        found: dict[str, Any] = {"params": count(model)}
        if full.model_type in FAMILIES:
            found["tensors"] = {name: p.numel() for name, p in model.named_parameters()}
            found["switches"] = switches(model)
            shape = json.dumps([full.model_type, found["tensors"]])
            if shape not in EXTRAS:
                EXTRAS[shape] = extras(full)
            found |= EXTRAS[shape]
    return found


def extras(config: Any) -> dict[str, Any]:
    """Other heads and adapters on the same shapes."""
    return {
        "token_score": token_score(config),
        "lora": {"all": lora(config, EVERY if config.model_type in SPARSE else "all-linear")},
    }


def count(model: torch.nn.Module) -> int:
    """Parameters, shared ones once."""
    return sum(p.numel() for p in model.parameters())


def one_label(config: Any) -> Any:
    """The same config for a head of one score."""
    labelled = copy.deepcopy(config)
    labelled.num_labels = 1
    return labelled


def token_score(config: Any) -> int:
    """A critic; Gemma 3 and OLMo have no class for it, so their body and a linear layer."""
    if config.model_type in ("gemma3_text", "olmo2", "olmo3", "olmoe"):
        return count(AutoModel.from_config(config)) + config.hidden_size + 1
    return count(AutoModelForTokenClassification.from_config(one_label(config)))


def lora(config: Any, targets: str | list[str]) -> tuple[int, int]:
    """Trainable parameters and tensors that peft makes."""
    model = AutoModelForCausalLM.from_config(config)
    adapted = get_peft_model(
        model, LoraConfig(r=RANK, target_modules=targets, task_type="CAUSAL_LM")
    )
    trained = [p for p in adapted.parameters() if p.requires_grad]
    return sum(p.numel() for p in trained), len(trained)


def partly(config: dict[str, Any]) -> dict[str, Any]:
    """LoRA on some of the layers, under the names of the family's own modules."""
    full = read_config(config)
    family = full.model_type
    attention = ATTENTION.get(family, ["q_proj", "k_proj", "v_proj"])
    feed_forward = FEED_FORWARD.get(family, ["gate_proj", "up_proj", "down_proj"])
    with torch.device("meta"):
        if family in SPARSE:
            return {"attention": lora(full, attention), "all-linear": lora(full, "all-linear")}
        return {"attention": lora(full, attention), "feed_forward": lora(full, feed_forward)}


def switches(model: Any) -> dict[str, Any]:
    """What the modules look like, by their own attributes."""
    body = getattr(model, model.base_model_prefix)
    layers = body.h if hasattr(body, "h") else body.layers
    layer = layers[0]
    attention = next(m for n, m in layer.named_children() if n in ATTENTION_NAMES)
    norms = [m for m in layer.children() if type(m).__name__.endswith("Norm")]
    names = [n for n, m in layer.named_modules() if isinstance(m, torch.nn.Linear | Conv1D)]
    acts = [
        m for n, m in layer.named_modules() if n.endswith((".act", ".activation_fn", ".act_fn"))
    ]
    return {
        "modules": sorted(names),
        "head_dim": getattr(attention, "head_dim", None) or attention.head_size,
        "parallel_residual": getattr(layer, "use_parallel_residual", False),
        "windows": windows(model.config, layers),
        "rotary_dim": rotary_dim(body),
        "norms": len(norms),
        "norm": type(norms[0]).__name__,
        "qk_norm": hasattr(attention, "q_norm"),
        "tied": model.get_output_embeddings().weight is model.get_input_embeddings().weight,
        "dropout": sorted({m.p for m in model.modules() if isinstance(m, torch.nn.Dropout)}),
        "activation": type(acts[0]).__name__,
        "logit_softcap": getattr(model.config, "final_logit_softcapping", None),
        "attention_softcap": softcap(model.config, attention),
    }


def windows(config: Any, layers: Any) -> list[int]:
    """The window of every sliding layer, as the attention modules get it."""
    if config.model_type in ("mistral", "mixtral", "phi3", "starcoder2"):
        return [config.sliding_window] * len(layers) if config.sliding_window else []
    if config.model_type in ("glm", "glm4", "gpt2", "gpt_neox", "llama", "olmo2", "olmoe"):
        return []
    found = [layer.self_attn.sliding_window for layer in layers]
    return [window for window in found if window is not None]


def rotary_dim(body: Any) -> int:
    """Twice the number of rotary frequencies; 0 without a rotary embedding."""
    rotary = getattr(body, "rotary_emb", None)
    if rotary is None:
        return 0
    return 2 * next(b.numel() for n, b in rotary.named_buffers() if n.endswith("inv_freq"))


def softcap(config: Any, attention: Any) -> float | None:
    """Gemma 2 passes its softcap to the kernel; Gemma 3 keeps it and passes nothing."""
    passed = "softcap=" in inspect.getsource(type(attention).forward)
    return config.attn_logit_softcapping if passed else None


if __name__ == "__main__":
    main()
