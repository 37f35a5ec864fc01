"""Seconds of one forward of a generator, kernel by kernel: a decoding step, or prompts.

What depends on the number of rows alone is :mod:`planner.timing.engine_kernels`'s; here are
attention, captured sizes, and the host. Sizes may be arrays; a card whose peaks are unknown gives
None.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from planner.catalog.architecture import Architecture
from planner.catalog.efficiencies import typical
from planner.catalog.gpu_catalog import Gpu
from planner.formulas.decoding import HOST_STEP, STEP
from planner.formulas.memory_bound import USUAL_KERNELS
from planner.kernels import decode_attention_seconds, prefill_attention_seconds
from planner.numeric import Num
from planner.timing.engine_kernels import CAPTURED, KNOTS, SIZES, Parts, parts_of

Alike = tuple[int, dict[str, Any]]
"""So many layers, and the sizes at which one's attention is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generator:
    """A model as a generator runs it, on one engine's GPUs.

    ``engine`` is ``hf`` for transformers' ``generate``, which launches every kernel from the host.
    """

    arch: Architecture
    gpu: Gpu
    dtype: str
    weights: str = ""
    """Dtype of the layers' products where it is another one, such as ``fp8``."""
    tensor_parallel: int = 1
    expert_parallel: bool = False
    """Each of its GPUs has whole experts, and not a slice of every one."""
    kv_value_bytes: float = 2
    engine: Literal["hf", "vllm"] = "vllm"
    eager: bool = False
    """Without CUDA graphs: no padding, and a launch for every kernel."""
    kernels: int = USUAL_KERNELS
    """Kernels of one layer's forward, where transformers launches them."""
    logprobs: bool = True
    """The sampler answers the chosen tokens' log-probs, too."""
    async_scheduling: bool = True
    """The host prepares the next step while the card computes this one."""

    def parts(self, rows: Num) -> Parts | None:
        """Of a forward of so many rows, all of which meet the head."""
        return parts_of(
            self.arch,
            self.gpu,
            rows=rows,
            dtype=self.dtype,
            weights=self.weights or self.dtype,
            tensor_parallel=self.tensor_parallel,
            expert_parallel=self.expert_parallel,
            logprobs=self.logprobs,
        )

    def rows(self, sequences: Num) -> Num:
        """Rows that a step computes for so many running sequences."""
        graphs = self.engine == "vllm" and not self.eager
        return padded(sequences) if graphs else sequences

    def attention(self, sequences: Num, context_tokens: Num) -> Num | None:
        """Seconds of all layers' attention in one decoding step."""
        asked = self.decode_kernels(sequences, context_tokens)
        return _layers_together(decode_attention_seconds, self.gpu, asked)

    def decode_kernels(self, sequences: Num, context_tokens: Num) -> Iterator[Alike]:
        """Layers whose attention is alike in a decoding step, and the sizes of one."""
        return self._attention_kernels(
            kv_value_bytes=self.kv_value_bytes,
            sequences=sequences,
            context_tokens=context_tokens,
        )

    def prefill_kernels(self, prompts: Num, tokens: Num) -> Iterator[Alike]:
        """The same in one pass over whole prompts."""
        return self._attention_kernels(sequences=prompts, tokens=tokens)

    def _attention_kernels(self, **sizes: Num) -> Iterator[Alike]:
        """Of layers that keep keys and values: those that see everything, those with a window."""
        arch = self.arch
        sizes |= {
            "heads": arch.heads / self.tensor_parallel,
            "kv_heads": max(arch.kv_heads / self.tensor_parallel, 1.0),
            "head_dim": arch.head_dim,
            "dtype": self.dtype,
        }
        sliding = arch.sliding_layers if arch.sliding_window else 0
        for layers, window in ((arch.cache_layers - sliding, 0), (sliding, arch.sliding_window)):
            if layers:
                yield layers, {**sizes, "window": window}

    def host(self, sequences: Num) -> Num:
        """Seconds of the host's part in a decoding step; launches are :attr:`launches`."""
        if self.engine == "hf":
            return 0.0
        logprob = typical("engine-host-seconds-per-logprob", self.gpu) if self.logprobs else 0.0
        return HOST_STEP(
            sequences=sequences,
            step_seconds=typical("engine-host-seconds-per-step", self.gpu),
            sequence_seconds=typical("engine-host-seconds-per-sequence", self.gpu) + logprob,
        )

    def beside(self, kernels: Num, sequences: Num) -> dict[str, Num]:
        """Seconds of kernels, host and launches of a decoding step, and whether they take turns."""
        return {
            "kernel_seconds": kernels,
            "in_turn": int(not self.async_scheduling),
            "host_seconds": self.host(sequences),
            "launch_seconds": self.launches,
        }

    @property
    def launches(self) -> float:
        """Seconds to launch all layers' kernels from the host; 0 where graphs have them."""
        return self.arch.layers * self.launch

    @property
    def launch(self) -> float:
        """Seconds to launch one layer's kernels from the host; 0 where graphs have them."""
        if self.engine == "hf":
            usual = typical("hf-step-seconds-per-layer", self.gpu)
            return self.kernels / USUAL_KERNELS * usual
        return typical("engine-eager-seconds-per-layer", self.gpu) if self.eager else 0.0

    def step(self, sequences: Num, context_tokens: Num) -> Num | None:
        """Seconds of one decoding step of ``sequences``, each behind ``context_tokens``."""
        parts = self.parts(self.rows(sequences))
        attended = self.attention(sequences, context_tokens)
        if parts is None or attended is None:
            return None
        return STEP(**self.beside(sum(parts) + attended, sequences))

    def prefill(self, tokens: Num) -> tuple[Num, Num] | None:
        """Seconds of one pass of ``tokens`` positions through the layers, and of its launches.

        Attention is left out.
        """
        parts = self.parts(tokens)
        return None if parts is None else (parts.layers, self.launches)

    def prefill_attention(self, prompts: Num, tokens: Num) -> Num | None:
        """Seconds of all layers' attention of whole prompts in one pass."""
        asked = self.prefill_kernels(prompts, tokens)
        return _layers_together(prefill_attention_seconds, self.gpu, asked)


def padded(sequences: Num) -> Num:
    """Rows of the smallest captured graph that holds so many sequences; beyond all, no more."""
    if not isinstance(sequences, np.ndarray):
        return sequences if sequences > CAPTURED else SIZES[bisect_left(SIZES, sequences)]
    graph = KNOTS[np.searchsorted(KNOTS, np.minimum(sequences, CAPTURED))]
    return np.where(sequences > CAPTURED, sequences, graph)


def _layers_together(
    kernel: Callable[..., Num | None], gpu: Gpu, asked: Iterable[Alike]
) -> Num | None:
    seconds: Num = 0.0
    for layers, sizes in asked:
        one = kernel(gpu, **sizes)
        if one is None:
            return None
        seconds = seconds + layers * one
    return seconds
