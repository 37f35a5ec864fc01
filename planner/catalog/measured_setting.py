"""The ways a decoder runs of which a dry run measures what its layers keep.

A setting is written as text, ``sdpa/padded/bf16`` or with adapters ``sdpa/padded/bf16/lora fp32
self_attn.q_proj,self_attn.v_proj``: so a measurement's file names it, and so a worker is asked.
"""

from __future__ import annotations

from dataclasses import dataclass

LORA, FP32, DROPS, AUTOCAST = "lora", "fp32", "dropout", "autocast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """LoRA adapters while a model runs: where they are, and how they compute."""

    modules: tuple[str, ...]
    """Modules of a layer, as the model calls them: ``self_attn.q_proj``."""
    fp32: bool
    """Kept and computed in fp32 beside a half-precision base; else in the base's format."""
    drops: bool
    """What they are given goes through dropout first."""
    autocast: bool
    """The forward runs under autocast on half-precision weights."""

    @property
    def text(self) -> str:
        """As a setting's text ends."""
        switches = ((FP32, self.fp32), (DROPS, self.drops), (AUTOCAST, self.autocast))
        said = (LORA, *(name for name, on in switches if on), ",".join(sorted(self.modules)))
        return " ".join(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSetting:
    """One way to run; ``precision`` is ``bf16``, ``fp32`` or ``autocast-bf16``."""

    attention: str
    batch_shape: str
    precision: str
    adapters: Adapters | None = None

    @property
    def text(self) -> str:
        """Its name."""
        said = f"{self.attention}/{self.batch_shape}/{self.precision}"
        return said if self.adapters is None else f"{said}/{self.adapters.text}"

    @property
    def autocast(self) -> bool:
        """Whether the forward runs under autocast."""
        by_adapters = self.adapters is not None and self.adapters.autocast
        return by_adapters or self.precision == "autocast-bf16"

    @property
    def words(self) -> str:
        """As a sentence names it."""
        said = f"{self.batch_shape} rows in {self.precision}"
        return said if self.adapters is None else f"{said} and these adapters"


def read_setting(text: str) -> MeasuredSetting:
    """The setting of a name; ``ValueError`` for anything else."""
    attention, batch_shape, precision, *rest = text.split("/")
    adapters = None
    if rest:
        name, *switches, modules = rest[0].split(" ")
        if name != LORA or len(rest) > 1:
            raise ValueError(f"{text!r} is no setting")
        adapters = Adapters(
            modules=tuple(modules.split(",")),
            fp32=FP32 in switches,
            drops=DROPS in switches,
            autocast=AUTOCAST in switches,
        )
    return MeasuredSetting(
        attention=attention, batch_shape=batch_shape, precision=precision, adapters=adapters
    )
