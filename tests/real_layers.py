"""Small real models of Transformers, and what a run of one keeps and has alive.

Nothing here knows a formula. Saved tensors are seen by torch's own hooks and counted by
storage, parameters aside; live bytes by a dispatch mode, or by the profiler, which does
not change autograd's branches as a mode does.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import transformers
from peft import LoraConfig, get_peft_model
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModelForCausalLM

from live_bytes import IN_PLACE
from planner.catalog import families
from planner.catalog.architecture import Architecture
from planner.formulas.activations import Workload
from planner.formulas.activations.layers import settings
from planner.formulas.activations.setting import Setting
from planner.formulas.activations.tape import Label
from planner.formulas.activations.terms import sizes_of

transformers.logging.set_verbosity_error()
torch.set_num_threads(1)

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
MIDDLE = 1
"""The layer that is looked at: neither the first nor the last of three."""

# 6 heads of 16 over 2 key heads, an MLP that is no multiple of the width of 96.
SIZES: dict[str, Any] = {
    "hidden_size": 96,
    "intermediate_size": 200,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 101,
    "max_position_embeddings": 512,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
CHANGES: dict[str, dict[str, Any]] = {
    "mistral": {"sliding_window": None},
    "gemma2": {"head_dim": 24, "sliding_window": 16},
    "gemma3_text": {
        "head_dim": 24,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention", "full_attention"],
    },
    # Phi-3's heads fill its width; a quarter of each head is left unrotated.
    "phi3": {"head_dim": None, "num_attention_heads": 4, "partial_rotary_factor": 0.5},
    "gpt2": {"n_embd": 80, "n_layer": 3, "n_head": 5, "n_positions": 512},
    "olmo3": {
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention", "full_attention"],
    },
    # Pythia's heads fill the width, without groups; a quarter of each head is rotated.
    "gpt_neox": {"num_key_value_heads": None, "head_dim": None},
}
FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "phi3", "gemma2", "gemma3_text", "gpt2")
LATER = ("glm", "glm4", "gpt_neox", "olmo2", "olmo3", "smollm3", "starcoder2")
"""Families built from the same operations, run in fewer combinations."""
OWN_NAMES = {
    "phi3": {
        "q_proj": "qkv_proj",
        "k_proj": "qkv_proj",
        "v_proj": "qkv_proj",
        "gate_proj": "gate_up_proj",
        "up_proj": "gate_up_proj",
    },
    "gpt2": {
        "q_proj": "attn.c_attn",
        "k_proj": "attn.c_attn",
        "v_proj": "attn.c_attn",
        "o_proj": "attn.c_proj",
        "gate_proj": "mlp.c_fc",
        "up_proj": "mlp.c_fc",
        "down_proj": "mlp.c_proj",
    },
    "starcoder2": {
        "gate_proj": "mlp.c_fc",
        "up_proj": "mlp.c_fc",
        "down_proj": "mlp.c_proj",
    },
    **dict.fromkeys(("glm", "glm4"), {"gate_proj": "gate_up_proj", "up_proj": "gate_up_proj"}),
    "gpt_neox": {
        "q_proj": "query_key_value",
        "k_proj": "query_key_value",
        "v_proj": "query_key_value",
        "o_proj": "attention.dense",
        "gate_proj": "dense_h_to_4h",
        "up_proj": "dense_h_to_4h",
        "down_proj": "dense_4h_to_h",
    },
}
"""What peft has to be told where a family fuses or renames projections."""
OWN_TABLES = ("glm", "glm4")
"""Families whose layers each keep rotary tables of their own, spread over pairs of channels."""
GPT2_KEYS = ("vocab_size", "bos_token_id", "eos_token_id")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One run of one small model."""

    family: str
    attention: str = "sdpa"
    precision: str = "bf16"
    padded: bool = False
    targets: tuple[str, ...] = ()
    rows: int = 2
    tokens: int = 24
    gradients: bool = True
    compiled: bool = False
    changes: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        """Short name of the test case."""
        words = [self.family, self.attention, self.precision]
        words += ["padded"] * self.padded + ["lora"] * bool(self.targets)
        return "-".join([*words, *(f"{key}={value}" for key, value in self.changes)])

    @property
    def config(self) -> Any:
        """The model's configuration."""
        keep = GPT2_KEYS if self.family == "gpt2" else tuple(SIZES)
        sizes = {key: SIZES[key] for key in keep} | CHANGES.get(self.family, {})
        if self.family == "gpt2" and self.attention == "sdpa":
            # The CPU has no fused kernel with dropout; CUDA's keeps no tensor for it.
            sizes["attn_pdrop"] = 0.0
        sizes |= dict(self.changes)
        return AutoConfig.for_model(
            self.family, **{key: value for key, value in sizes.items() if value is not None}
        )

    @cached_property
    def architecture(self) -> Architecture:
        """As the catalog reads the same configuration; asked for each of a layer's storages."""
        read = families.read(self.config.to_dict())
        assert read is not None
        return read.architecture()

    @property
    def workload(self) -> Workload:
        """The same run in the words of the formulas."""
        trains = ("lora" if self.targets else "all") if self.gradients else "none"
        return Workload(
            sequences=self.rows,
            tokens=self.tokens,
            batch_shape="padded" if self.padded else "full",
            attention=self.attention,
            precision=self.precision,
            trains=trains,
            lora_targets=self.targets if trains == "lora" else (),
            lora_rank=4 if trains == "lora" else 0,
            compiled=self.compiled,
        )

    @property
    def setting(self) -> Setting:
        """The layer's setting, for the kernels of the CPU that the test runs on."""
        return settings(self.architecture, self.workload, False)[0][0]._replace(kernels="cpu")

    def bytes_of(self, label: Label, copies: int = 1) -> int:
        """Bytes of a storage in this case."""
        sizes = {**sizes_of(self.architecture, self.workload), "copies": copies}
        return int(label[0].formula.of(sizes))

    def build(self) -> Any:
        """The model, in train mode unless gradients are off."""
        torch.manual_seed(0)
        model: Any = AutoModelForCausalLM.from_config(
            self.config,
            attn_implementation=self.attention,
            dtype=DTYPES.get(self.precision, torch.float32),
        )
        if self.targets:
            own = OWN_NAMES.get(self.family, {})
            model = with_adapters(model, {own.get(name, name) for name in self.targets})
        if not self.gradients:
            return model.eval().requires_grad_(False)
        model = model.train()
        if self.compiled:
            torch._dynamo.reset()
            for layer in layers_of(model):
                layer.compile(backend="aot_eager_decomp_partition", dynamic=False)
        return model

    def inputs(self) -> dict[str, Any]:
        """Random tokens; the first row starts with three pad tokens when padded."""
        generator = torch.Generator().manual_seed(1)
        ids = torch.randint(3, 100, (self.rows, self.tokens), generator=generator)
        mask = None
        if self.padded:
            mask = torch.ones_like(ids)
            mask[0, :3] = 0
        return {"input_ids": ids, "attention_mask": mask, "use_cache": False}

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Gradients and autocast as the case says."""
        lowered = self.precision == "autocast-bf16"
        with (
            torch.set_grad_enabled(self.gradients),
            torch.autocast("cpu", torch.bfloat16, enabled=lowered),
        ):
            yield


def with_adapters(model: Any, targets: set[str]) -> Any:
    config = LoraConfig(
        r=4, lora_alpha=8, lora_dropout=0.0, target_modules=sorted(targets), task_type="CAUSAL_LM"
    )
    with warnings.catch_warnings():
        # peft asks for a property that Transformers has renamed.
        warnings.simplefilter("ignore", FutureWarning)
        # peft sets fan_in_fan_out for GPT-2's Conv1D itself, and says so.
        warnings.simplefilter("ignore", UserWarning)
        return get_peft_model(model, config)


def body_of(model: Any) -> Any:
    """The model without its head."""
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    return getattr(inner, inner.base_model_prefix)


def layers_of(model: Any) -> Any:
    body = body_of(model)
    return body.h if hasattr(body, "h") else body.layers


def saved_storages(case: Case, *, head: bool = False) -> dict[str, list[tuple[int, Any]]]:
    """Bytes and shape of what autograd saves, by where: ``before``, ``layer``, ``after``, ...

    ``layer`` is the middle layer; rotary tables, which layers share, go to ``shared``.
    """
    model = case.build()
    layers = layers_of(model)
    seen: dict[int, tuple[str, int, Any]] = {}
    alive: list[torch.Tensor] = []
    fixed = {
        tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())
    }
    place = ["before"]

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in fixed and storage.nbytes():
            alive.append(tensor)
            table = tensor.dim() == 4 and tuple(tensor.shape[:3]) == (1, 1, case.tokens)
            table = table and case.family not in OWN_TABLES
            where = "shared" if table and case.rows > 1 else place[0]
            entry = (where, storage.nbytes(), tuple(tensor.shape))
            seen.setdefault(storage.data_ptr(), entry)
        return tensor

    for index, layer in enumerate(layers):
        inside = "layer" if index == MIDDLE else f"layer {index}"
        outside = "after" if index == len(layers) - 1 else "between"
        layer.register_forward_pre_hook(lambda *_, name=inside: place.__setitem__(0, name))
        layer.register_forward_hook(lambda *_, name=outside: place.__setitem__(0, name))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), case.computing():
        output = (model if head else body_of(model))(**case.inputs())
    found: dict[str, list[tuple[int, Any]]] = {}
    for where, size, shape in seen.values():
        found.setdefault(where, []).append((size, shape))
    del output
    return found


class Births(TorchDispatchMode):
    """Writes down the birth and death of every storage that an operator hands out."""

    def __init__(self, outside: Any) -> None:
        super().__init__()
        self.log: list[tuple[str, int, int]] = []
        self.known: dict[int, Any] = {}
        self.count = 0
        for tensor in outside:
            storage = tensor.untyped_storage()
            self.known[storage._cdata] = (0, storage)

    def mark(self, name: str) -> None:
        self.log.append((name, 0, 0))

    def identity(self, tensor: torch.Tensor) -> int:
        """Number of the tensor's storage in the log."""
        return int(self.known[tensor.untyped_storage()._cdata][0])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not torch.is_grad_enabled():  # a backward, which writes in place without a mode
            func = IN_PLACE.get(func, func)
        outputs = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(outputs):
            if isinstance(leaf, torch.Tensor):
                self.meet(leaf.untyped_storage())
        return outputs

    def meet(self, storage: Any) -> None:
        handle, size = storage._cdata, storage.nbytes()
        if handle in self.known or not size:
            return
        self.count += 1
        number = self.count

        def gone(_: Any) -> None:
            self.log.append(("", -size, number))
            self.known.pop(handle, None)

        self.known[handle] = (number, weakref.ref(storage, gone))
        self.log.append(("", size, number))


@dataclass
class Heights:
    """Peaks of one layer's two passes, in bytes above what was alive when each began."""

    forward: int
    backward: int = 0


def heights(case: Case, *, checkpointed: bool = False) -> Heights:
    """Peaks of the middle layer in a real run, gradients of parameters left out."""
    model = case.build()
    if checkpointed:
        model.activation_checkpointing_enable({"use_reentrant": False})
    births = Births([*model.parameters(), *model.buffers()])
    passed: set[str] = set()

    def once(name: str) -> None:
        if name not in passed:
            passed.add(name)
            births.mark(name)

    watch(layers_of(model)[MIDDLE], once)
    with births:
        with case.computing():
            output = body_of(model)(**case.inputs()).last_hidden_state
        if case.gradients:
            output.backward(torch.ones_like(output))
    left_out = {births.identity(p.grad) for p in model.parameters() if p.grad is not None}
    found = tops(births.log, left_out)
    return Heights(found["forward"], found.get("backward", 0))


def watch(layer: Any, mark: Any) -> None:
    """Call ``mark`` when the layer's forward and backward begin and end."""

    def before(_: Any, arguments: Any) -> None:
        mark("forward")
        if arguments[0].requires_grad:
            arguments[0].register_hook(lambda _: mark("backward ended"))

    def after(_: Any, __: Any, output: Any) -> None:
        mark("forward ended")
        if output.requires_grad:
            output.register_hook(lambda _: mark("backward"))

    layer.register_forward_pre_hook(before)
    layer.register_forward_hook(after)


def tops(log: list[tuple[str, int, int]], left_out: set[int] | None = None) -> dict[str, int]:
    """Highest live bytes after each mark, above those at the mark."""
    live, current, found, base = 0, "", dict[str, int](), 0
    for name, change, number in log:
        if name:
            current, base = name, live
            found[name] = 0
        elif number not in (left_out or ()):
            live += change
            if current:
                found[current] = max(found[current], live - base)
    return found


def profiled_backward_height(case: Case) -> int:
    """As :func:`heights`, from the profiler, once gradients exist (they are added in place)."""
    model = case.build()

    def step() -> None:
        output = body_of(model)(**case.inputs()).last_hidden_state
        output.backward(torch.ones_like(output))

    step()

    def mark(name: str) -> None:
        with record_function(f"mark {name}"):
            pass

    watch(layers_of(model)[MIDDLE], mark)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        step()
    events: list[tuple[int, str, int]] = []

    def walk(nodes: Any) -> None:
        for node in nodes:
            if node.tag == _EventType.Allocation:
                events.append((node.start_time_ns, "", node.extra_fields.alloc_size))
            elif node.name.startswith("mark "):
                events.append((node.start_time_ns, node.name.removeprefix("mark "), 0))
            walk(node.children)

    walk(profiler.profiler.kineto_results.experimental_event_tree())
    events.sort(key=lambda event: event[0])
    return tops([(name, size, -1) for _, name, size in events])["backward"]
