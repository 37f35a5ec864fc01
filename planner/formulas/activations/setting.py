"""What decides which tensors a layer makes, apart from sizes."""

from __future__ import annotations

from dataclasses import dataclass

from planner.catalog.architecture import Architecture
from planner.formulas.activations.tape import Tape

OLMO = ("olmo2", "olmo3")
GLM = ("glm", "glm4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The words of a workload that change the list of tensors; hashable."""

    attention: str
    masked: bool
    """The layer gets a mask tensor."""
    unpadded: bool
    """flash-attn gets copies without the pad tokens."""
    precision: str
    trains: str
    adapted: frozenset[str] = frozenset()
    """Paths of linear modules with an adapter, such as ``self_attn.q_proj``."""
    fp32_adapters: bool = True
    """Adapters compute in fp32, as peft keeps them."""
    kernels: str = "cuda"
    """``cuda`` is what a plan means; ``cpu`` mirrors CPU kernels, for checks without a GPU."""
    input_needs_gradient: bool = True
    compiled: bool = False
    """The layer is one compiled graph."""
    sums_gradients: bool = False
    """A weight's gradient and its sum with that of a later use are tensors of the backward."""
    sparse: bool = False
    """The layer routes its tokens to experts."""

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
    def all_weights(self) -> bool:
        """Base weights get gradients."""
        return self.trains == "all"


def rotary_width(arch: Architecture, setting: Setting) -> str:
    """Number format of the rotary tables, which OLMo leaves in fp32."""
    return "fp32" if arch.family in OLMO else setting.weight


@dataclass(slots=True)
class Layer:
    """One run of one layer: the tape, the architecture and the setting."""

    tape: Tape
    arch: Architecture
    setting: Setting

    @property
    def heads_joined(self) -> bool:
        """Queries and keys are joined from a rotated part and the rest, so they lie by head."""
        return self.arch.family in ("phi3", "gpt_neox", *GLM)
