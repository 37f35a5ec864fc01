"""The cache of keys and values that transformers' ``generate`` fills, and what reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from planner.catalog.architecture import Architecture
from planner.formulas import generation
from planner.numeric import Num
from planner.phases.scene import Scene
from planner.plan.fields import FLASH
from planner.term import Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """Whose keys and values are kept, of how many rows."""

    role: str
    arch: Architecture
    sequences: Num
    value_bytes: int

    def held(self, tokens: Num, sliding_layers: int, layers: int | None = None) -> Term:
        """The cache of ``tokens`` a sequence, of all layers unless told how many."""
        arch = self.arch
        layers = arch.cache_layers if layers is None else layers
        return generation.KV_CACHE(
            self.role,
            tensors=2 * layers,
            kv_heads=arch.kv_heads,
            head_dim=arch.head_dim,
            value_bytes=self.value_bytes,
            sequences=self.sequences,
            layers=layers,
            sliding_layers=sliding_layers,
            tokens=tokens,
            window=arch.sliding_window,
        )

    def growth(self, tokens: Num) -> Term:
        """One layer's keys, copied into a longer tensor."""
        return generation.KV_GROWTH(
            self.role,
            kv_heads=self.arch.kv_heads,
            head_dim=self.arch.head_dim,
            value_bytes=self.value_bytes,
            sequences=self.sequences,
            tokens=tokens,
        )

    def states(self) -> Iterator[Term]:
        """What layers of linear attention keep, which is as much after any token."""
        if self.arch.stateful_layers:
            yield generation.LINEAR_STATES(
                self.role,
                tensors=2 * self.arch.stateful_layers,
                layers=self.arch.stateful_layers,
                sequences=self.sequences,
                state_values=self.arch.state_values,
                convolution_values=self.arch.convolution_values,
                value_bytes=self.value_bytes,
            )

    def new_states(self) -> Iterator[Term]:
        """One layer's states beside those they replace."""
        if self.arch.stateful_layers:
            yield generation.NEW_STATES(
                self.role, sequences=self.sequences, state_values=self.arch.state_values
            )

    def filled(self, tokens: Num, sliding_layers: int, *, own: bool = True) -> Iterator[Term]:
        """The cache of the prompts while the last layer reads them.

        ``own`` says that the layer is computing: then its own part is counted with its tensors,
        or, for an architecture nobody derived, as part of the whole and while it is copied.
        """
        if own and self.arch.measured:
            yield self.held(tokens, sliding_layers)
            yield self.growth(tokens)
            yield from self.states()
            yield from self.new_states()
            return
        yield from self.states()
        yield self.held(tokens, sliding_layers, max(self.arch.cache_layers - 1, 0))


def sliding(arch: Architecture) -> int:
    """Layers whose cache is a window."""
    return arch.sliding_layers if arch.sliding_window else 0


def of_policy(scene: Scene) -> Cache:
    """What ``generate`` fills for all prompts of a step."""
    return Cache(
        role="policy",
        arch=scene.policy.arch,
        sequences=scene.q.sequences_per_gpu_step,
        value_bytes=_cache_bytes(scene),
    )


def _cache_bytes(scene: Scene) -> int:
    """Under autocast rotated keys are as wide as the fp32 rotary tables, and widen the cache.

    Liger's kernel answers in the keys' own format.
    """
    widens = scene.policy.arch.rotary and not scene.plan.liger
    if scene.precision == "autocast-bf16" and widens:
        return 4
    return scene.q.compute_bytes


def attends(scene: Scene, tokens: Num) -> Iterator[Term]:
    """What one layer's attention of the new token needs beside the cache."""
    plan, arch, width = scene.plan, scene.policy.arch, scene.q.compute_bytes
    sizes = {"sequences": scene.q.sequences_per_gpu_step, "tokens": tokens}
    every = {"heads": arch.heads, **sizes}
    eager, grouped = plan.attention == "eager", arch.heads != arch.kv_heads
    if eager:
        yield generation.DECODE_SCORES("policy", tensors=2, value_bytes=width, **every)
    cache_bytes, size = _cache_bytes(scene), arch.head_dim
    repeats = eager and grouped
    if repeats:
        yield generation.REPEATED_CACHE(
            "policy", tensors=2, head_dim=size, value_bytes=cache_bytes, **every
        )
    full = plan.batch_shape == "full"
    if plan.attention == "sdpa" and full and plan.dtype == "fp32" and grouped:
        yield generation.MATH_CACHE("policy", tensors=3, head_dim=size, value_bytes=width, **every)
    if plan.attention in FLASH and not full:
        heads = arch.kv_heads
        yield generation.UNPADDED_CACHE(
            "policy", tensors=3, kv_heads=heads, head_dim=size, value_bytes=width, **sizes
        )
    if cache_bytes > width:
        copies, heads = 1 if eager else 2, arch.heads if repeats else arch.kv_heads
        yield generation.CAST_CACHE(
            "policy", tensors=copies, copies=copies, heads=heads, head_dim=size, **sizes
        )


def expert_copies(scene: Scene) -> Iterator[Term]:
    """A sparse layer's weights as decoding copies them for each token."""
    arch = scene.policy.arch
    if arch.sparse_layers:
        yield generation.DECODE_EXPERTS(
            "policy",
            layout=((1, 2 / 3), (1, 1 / 3)),
            sequences=scene.q.sequences_per_gpu_step,
            experts_per_token=arch.experts_per_token,
            expert_intermediate=arch.expert_intermediate,
            hidden=arch.hidden,
            value_bytes=4 if scene.precision == "autocast-bf16" else scene.q.compute_bytes,
        )
