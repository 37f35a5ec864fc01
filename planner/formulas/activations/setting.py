"""What decides which tensors a layer makes, apart from sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from planner.catalog.architecture import Architecture
from planner.formulas.activations.tape import Tape

OLMO = ("olmo2", "olmo3")
GLM = ("glm", "glm4")


class Setting(NamedTuple):
    """The words of a workload that change the list of tensors.

    A tuple, since all that was found of a layer is looked up by it.
    """

    attention: str
    masked: bool
    """The layer gets a mask tensor."""
    unpadded: bool
    """flash-attn gets copies without the pad tokens."""
    packed: bool
    """flash-attn gets all rows as one, every operand side by side."""
    precision: str
    trains: str
    adapted: frozenset[str] = frozenset()
    """Paths of linear modules with an adapter, such as ``self_attn.q_proj``."""
    fp32_adapters: bool = True
    """Adapters compute in fp32, as peft keeps them."""
    drops_adapters: bool = False
    """Dropout stands before every adapter."""
    autocasts_adapters: bool = False
    """Autocast around half-precision weights: fp32 adapters multiply copies of theirs."""
    kernels: str = "cuda"
    """``cuda`` is what a plan means; ``cpu`` mirrors CPU kernels, for checks without a GPU."""
    casts_inputs: bool = False
    """Each layer has tables of its own in the compute dtype, where the model's are wider."""
    cached: bool = False
    """Keys and values are copied into a cache, and read from there."""
    input_needs_gradient: bool = True
    compiled: bool = False
    """The layer is one compiled graph."""
    sums_gradients: bool = False
    """A weight's gradient and its sum with that of a later use are tensors of the backward."""
    weight_gradients: str = ""
    """``kept`` from their making to the layer's end, ``added`` to earlier ones at once, or not
    counted."""
    sparse: bool = False
    """The layer routes its tokens to experts."""
    four_bit: bool = False
    """Projections have frozen 4-bit weights."""
    one_row: bool = False
    """The micro-batch is a single row, whose heads eager attention multiplies as they lie; told
    only where that changes what is kept."""
    cudnn: bool = False
    """cuDNN takes attention in half precision before other kernels do."""
    liger: bool = False
    """Liger's kernels stand in for norms, rotation and the gated product."""

    @property
    def value(self) -> str:
        """Number format of matrix products."""
        return "fp32" if self.precision == "fp32" else "value"

    @property
    def weight(self) -> str:
        """Number format of weights and of the residual stream."""
        return "fp32" if self.precision in ("fp32", "autocast-bf16") else "value"

    @property
    def autocast(self) -> bool:
        """Matrix products cast their inputs."""
        return self.precision == "autocast-bf16"

    @property
    def in_autocast(self) -> bool:
        """Operations run in the formats of autocast's lists, whatever weights are kept in."""
        return self.autocast or self.autocasts_adapters

    @property
    def all_weights(self) -> bool:
        """Base weights get gradients."""
        return self.trains == "all"


def table_width(arch: Architecture, setting: Setting) -> str:
    """Number format of the model's rotary tables, which OLMo leaves in fp32."""
    return "fp32" if arch.family in OLMO else setting.weight


def own_tables(arch: Architecture, setting: Setting) -> bool:
    """Whether FSDP makes tables for each layer, cast to what it computes in."""
    return setting.casts_inputs and table_width(arch, setting) != setting.weight


def rotary_width(arch: Architecture, setting: Setting) -> str:
    """Number format of the rotary tables as a layer has them."""
    return setting.weight if own_tables(arch, setting) else table_width(arch, setting)


Part: TypeAlias = "Callable[..., Any]"
"""A function of a layer, a tensor and whatever else it needs."""


def unwrapped(_: str, part: Part) -> Part:
    """The part as it is."""
    return part


@dataclass(slots=True)
class Layer:
    """One run of one layer: the tape, the architecture and the setting."""

    tape: Tape
    arch: Architecture
    setting: Setting
    wrap: Callable[[str, Part], Part] = unwrapped
    """What stands around a part, by its name: ``attention``, ``mlp``, or a linear module's path.

    A way of dividing a layer among GPUs adds its collectives there, and sets the tape's region.
    """

    @property
    def heads_joined(self) -> bool:
        """Queries and keys are joined from a rotated part and the rest, so they lie by head."""
        return self.arch.family in ("phi3", "gpt_neox", *GLM)

    @property
    def heads_fused(self) -> bool:
        """Values are a slice of what one projection made for all three."""
        return self.arch.fused_qkv or self.arch.family in ("gpt2", "gpt_neox")
