"""What a forward or backward pass is run on: sizes, masks, attention, number formats.

Pure data; imports :mod:`planner.numeric` only.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.numeric import Num

BATCH_SHAPES = ("full", "padded", "packed")
ATTENTIONS = ("eager", "sdpa", "flash")
PRECISIONS = ("bf16", "fp16", "fp32", "autocast-bf16")
TRAINS = ("all", "lora", "inputs", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One micro-batch and the way a model runs on it.

    Raises:
        ValueError: for a word outside the lists above, or a combination that cannot run;
            the message names the field and the fix.
    """

    sequences: Num
    """Rows of the micro-batch on one GPU; 1 when packed."""
    tokens: Num
    """Tokens per row, padded or capped length."""
    batch_shape: str
    """``full`` (no pad token, no mask), ``padded`` (at least one pad token, so that
    Transformers builds a mask) or ``packed`` (rows joined, kept apart by position)."""
    alone: Num = 0
    """In a sweep, 1 where a packed row is one sequence: there Transformers makes no mask."""
    attention: str
    """``eager``, ``sdpa`` or ``flash`` (the flash-attn package)."""
    precision: str
    """``bf16``, ``fp16``, ``fp32``, or ``autocast-bf16`` (fp32 weights, bf16 autocast)."""
    trains: str
    """``all`` weights, ``lora`` adapters only, ``inputs`` (weights are frozen and gradients pass
    through them), or ``none`` (a forward without gradients)."""
    lora_targets: tuple[str, ...] = ()
    """Layers with an adapter, in the words of :func:`planner.formulas.lora.lora_weights`.
    Adapters compute in passes without gradients too, unless they are disabled."""
    lora_rank: int = 0
    """Rank of every adapter."""
    fp32_adapters: bool = True
    """Adapters compute in fp32; false when FSDP or ZeRO gathers them in the compute dtype."""
    drops_adapters: bool = False
    """What adapters are given goes through dropout first, as in training mode."""
    autocasts_adapters: bool = False
    """The forward runs under autocast on half-precision weights, which fp32 adapters meet."""
    casts_inputs: bool = False
    """FSDP casts what a layer is given, rotary tables too, to the compute dtype."""
    sums_gradients: bool = False
    """The backward adds weight gradients to those of a later use of the same weights."""
    positions: Num = 1
    """Rows of the rotary tables: one for all sequences, unless each numbers its own tokens."""
    fills_cache: bool = False
    """Keys and values are copied into a cache, as when a prompt is read before generating."""
    accumulates: Num | None = None
    """1 where a layer's weight gradients are added to those of earlier micro-batches, 0 where
    they stay as they are (an array in a sweep); None leaves weight gradients out."""
    compiled: bool = False
    """Each decoder layer goes through ``torch.compile``."""
    four_bit: bool = False
    """Frozen weights of projections are in 4 bits."""
    cudnn: bool = False
    """The card asks cuDNN for attention first."""
    multiprocessors: int = 0
    """Of the card, where Liger's kernels run; 0 where they do not."""

    def __post_init__(self) -> None:
        """Refuse unknown words and impossible combinations."""
        for name, allowed in (
            ("batch_shape", BATCH_SHAPES),
            ("attention", ATTENTIONS),
            ("precision", PRECISIONS),
            ("trains", TRAINS),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; choose one of {', '.join(allowed)}"
                )
        if self.attention == "flash" and self.precision == "fp32":
            raise ValueError(
                "attention is 'flash' but precision is 'fp32': flash-attn has half-precision "
                "kernels only; set attention to 'sdpa' or precision to 'bf16'"
            )
        if self.trains == "lora":
            if not self.lora_targets:
                raise ValueError(
                    "lora_targets is empty; name modules such as q_proj, or all-linear"
                )
            if self.lora_rank < 1:
                raise ValueError(f"lora_rank is {self.lora_rank}; set it to 1 or more")
        elif (self.lora_targets or self.lora_rank) and self.trains != "none":
            raise ValueError(
                f"lora_targets and lora_rank are set but trains is {self.trains!r}; "
                "set trains to 'lora' (or 'none', for a pass without gradients) or leave them out"
            )

    def __hash__(self) -> int:
        """Of what tells workloads of a plan apart, and of all that may be an array."""
        return hash((self.sequences, self.tokens, self.trains, self.positions, self.accumulates))

    @property
    def value_bytes(self) -> int:
        """Bytes of one activation value (autocast computes in bf16)."""
        return 4 if self.precision == "fp32" else 2
