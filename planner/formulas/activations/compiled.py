"""A decoder layer under ``torch.compile``: what AOTAutograd's partitioner saves.

The partitioner (min-cut) recomputes norms, rotations and activations from what matrix
products made, keeps one copy of an input that several projections share, and keeps the
layer's input. Measured on torch 2.13.0, one compiled graph per layer, static shapes:
``aot_eager_decomp_partition`` and ``inductor`` save the same tensors, and the list did
not change over the sizes tried (hidden 64-128, MLP 0.4-4 times that, grouped or not).
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from planner.catalog.architecture import Architecture
from planner.formulas.activations.decoder import Live, Record
from planner.formulas.activations.kinds import Kind
from planner.formulas.activations.linears import weight_shape
from planner.formulas.activations.setting import Setting
from planner.formulas.activations.tape import Label

FAMILIES = ("llama", "qwen2", "qwen3", "mistral")

PROJECTIONS = {
    "self_attn.q_proj": ("hidden", "query", "queries"),
    "self_attn.k_proj": ("hidden", "key", "keys"),
    "self_attn.v_proj": ("hidden", "key", "values"),
    "self_attn.o_proj": ("query", "hidden", "attention projection"),
    "mlp.gate_proj": ("hidden", "intermediate", "gate projection"),
    "mlp.up_proj": ("hidden", "intermediate", "up projection"),
    "mlp.down_proj": ("intermediate", "hidden", "MLP output"),
}
"""Path of every projection to the shape it reads, the shape it makes, and its name."""


def refuse_compiled(arch: Architecture, setting: Setting) -> None:
    """Raise ``ValueError`` for what was not measured under ``torch.compile``."""
    if arch.family not in FAMILIES:
        raise ValueError(
            f"compiled is set but the compiled layer of {arch.family!r} is not derived; set "
            f"compiled to false, or use one of {', '.join(FAMILIES)}"
        )
    if setting.trains == "lora" and (setting.attention == "eager" or setting.autocast):
        raise ValueError(
            "compiled is set with LoRA, which is derived for sdpa or flash attention without "
            "autocast only; set compiled to false, or attention to 'sdpa' and precision to 'bf16'"
        )
    if setting.trains == "lora" and not setting.fp32_adapters and setting.value != "fp32":
        raise ValueError(
            "compiled is set with LoRA whose adapters compute in half precision, which is not "
            "derived; set compiled to false"
        )


@lru_cache(maxsize=256)
def compiled_record(arch: Architecture, setting: Setting) -> Record:
    """The saved tensors of one compiled layer and the two peaks of its backward.

    The peaks are not exact: they list what the fused MLP and attention backward of
    inductor hold, gradients of weights aside (all of a layer's come out together).
    """
    refuse_compiled(arch, setting)
    stream: Label = (Kind("hidden", setting.weight), "layer input")
    attention = _attention(arch, setting)
    mlp = _mlp(setting)
    saved = Counter([stream, (Kind("token", "fp32"), "attention norm 1/rms"), *attention, *mlp])
    gradient: Label = (Kind("hidden", setting.weight), "gradient of layer output")
    value = setting.value
    at_mlp = saved + Counter([gradient])
    at_mlp -= Counter([(Kind("intermediate", value), "gated product")])
    at_mlp += Counter(
        [
            (Kind("intermediate", value), "gradient of gated product"),
            (Kind("intermediate", value), "gradient of up projection"),
        ]
    )
    at_attention = saved - Counter(mlp) + Counter([gradient, *_attention_gradients(arch, setting)])
    made: Label = (Kind("hidden", value), "MLP output")
    forward = saved + Counter([made, (Kind("hidden", setting.weight), "layer output")])
    again = forward + Counter([gradient])
    return Record(saved, (forward,), (at_mlp, at_attention), (again,))


def _attention(arch: Architecture, setting: Setting) -> list[Label]:
    value = setting.value
    labels = _inputs(setting, ("q_proj", "k_proj", "v_proj"), "hidden", "attention norm output")
    if arch.qk_norm:
        for shape, name in (("query", "queries"), ("key", "keys")):
            labels.append((Kind(shape, value), f"{name} before their norm"))
            labels.append((Kind(f"{shape} head", "fp32"), f"{name} 1/rms"))
    repeated = "query" if setting.masked and arch.kv_heads > 1 else "key"
    labels += [
        (Kind("query", value), "rotated queries"),
        (Kind(repeated, value), "rotated keys"),
        (Kind(repeated, value), "values"),
    ]
    if setting.attention == "eager":
        labels += [
            (Kind("score", value), "attention scores"),
            (Kind("score", value), "attention weights"),
            (Kind("query head", "fp32"), "softmax maxima"),
            (Kind("query head", "fp32"), "softmax sums"),
            (Kind("query", value), "attention output"),
        ]
    else:
        cuda = setting.kernels == "cuda"
        statistic = "padded query head" if setting.masked and cuda else "query head"
        labels += [
            (Kind("query", value), "attention output"),
            (Kind(statistic, "fp32"), "attention log-sum-exp"),
        ]
        if setting.masked:
            pair = "padded pair" if cuda else "pair"
            labels.append((Kind(pair, value), "attention mask as a bias"))
        if setting.trains == "lora":
            labels += _inputs(setting, ("o_proj",), "query", "adapter input of attention output")
    return [*labels, *_weights(setting, "self_attn")]


def _mlp(setting: Setting) -> list[Label]:
    value = setting.value
    return [
        (Kind("hidden", value), "attention projection"),
        (Kind("token", "fp32"), "MLP norm 1/rms"),
        *_inputs(setting, ("gate_proj", "up_proj"), "hidden", "MLP norm output"),
        (Kind("intermediate", value), "gate projection"),
        (Kind("intermediate", value), "up projection"),
        *_inputs(setting, ("down_proj",), "intermediate", "gated product"),
        *_weights(setting, "mlp"),
    ]


def _inputs(setting: Setting, names: tuple[str, ...], shape: str, label: str) -> list[Label]:
    """The input that projections share, kept once: for their weights or their adapters."""
    if setting.all_weights:
        return [(Kind(shape, setting.value), label)]
    adapted = any(path.split(".")[-1] in names for path in setting.adapted)
    return [(Kind(shape, "fp32"), label)] if adapted else []


def _weights(setting: Setting, module: str) -> list[Label]:
    """Low-rank outputs of adapters, and the bf16 weights that autocast makes."""
    labels: list[Label] = []
    for path, (given, made, name) in PROJECTIONS.items():
        if path.startswith(module):
            if path in setting.adapted:
                labels.append((Kind("rank", "fp32"), f"low-rank output of {name}"))
            if setting.autocast:
                labels.append(
                    (Kind(weight_shape(given, made), setting.value), f"bf16 weight of {name}")
                )
    return labels


def _attention_gradients(arch: Architecture, setting: Setting) -> Live:
    value = setting.value
    labels: list[Label] = [
        (Kind("query", value), "gradient of attention output"),
        (Kind("query", value), "gradient of queries"),
        (Kind("key", value), "gradient of keys"),
        (Kind("key", value), "gradient of values"),
    ]
    if setting.attention == "eager":
        labels += [
            (Kind("score", value), "gradient of attention weights"),
            (Kind("score", value), "gradient of attention scores"),
        ]
    elif not setting.masked and setting.kernels == "cuda":
        labels += [
            (Kind("flash statistic", "fp32"), "flash backward row sums"),
            (Kind("flash accumulator", "fp32"), "flash backward query gradient in fp32"),
        ]
    return Counter(labels)
