"""The model that embeds: what it holds, where, and what a prompt costs it.

A plan without a model knows nothing of it: no bytes and no time are made up for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planner.catalog import Architecture, Gpu, gpu, model
from planner.formulas import allocator, compute, sampling, state
from planner.formulas.activations.layers import layer_forward_transient
from planner.formulas.activations.model import model_saved
from planner.formulas.activations.workload import Workload
from planner.formulas.parameters import parameter_count
from planner.numeric import Num
from planner.term import Term
from planner.values.dtypes import BYTES

if TYPE_CHECKING:
    from planner.sampling.plan import SamplingPlan

ROLE = "model"


@dataclass(frozen=True, slots=True)
class Embedder:
    """A plan's model on its device; ``gpu`` is None on a CPU."""

    arch: Architecture
    gpu: Gpu | None
    plan: SamplingPlan

    @property
    def host(self) -> bool:
        """Whether it computes in host RAM."""
        return self.gpu is None

    def weights(self) -> Term:
        """Its weights where it computes."""
        return state.WEIGHTS(
            ROLE,
            label="weights of the model",
            host=self.host,
            parameters=parameter_count(self.arch),
            shards=1,
            value_bytes=BYTES[self.plan.model_dtype],
        )

    def process(self) -> tuple[Term, ...]:
        """What a card's driver and libraries take beside it."""
        if self.gpu is None:
            return ()
        capability = self.gpu.compute_capability or ""
        return (
            allocator.context("driver", self.gpu),
            allocator.CUBLAS(
                "driver",
                handles=1,
                workspace_bytes=allocator.cublas_workspace_bytes(capability),
            ),
        )

    def forward(self) -> tuple[Term, ...]:
        """What one batch's forward holds at its peak: a layer's, the head's, or the check's."""
        saved = model_saved(self.arch, self._workload(self.plan.batch_size), role=ROLE)
        moments = [(*saved, *layer_forward_transient(
            self.arch, self._workload(self.plan.batch_size), role=ROLE
        ))]
        if self.plan.embedding == "logits":
            moments += self._head(saved)
        best = max(moments, key=lambda terms: sum(term.bytes for term in terms))
        return tuple(term._replace(host=self.host) for term in best)

    def _head(self, saved: tuple[Term, ...]) -> list[tuple[Term, ...]]:
        sizes: dict[str, Any] = {
            "vocabulary": self.arch.vocab, "value_bytes": BYTES[self.plan.model_dtype],
        }  # fmt: skip
        batch, tokens = self.plan.batch_size, self.plan.prompt_tokens
        if self.plan.assembly == "concatenate":
            whole = sampling.BATCH_LOGITS(ROLE, batch_size=batch, prompt_tokens=tokens, **sizes)
            return [(*saved, whole)]
        one = model_saved(self.arch, self._workload(1), role=ROLE)
        return [
            (*saved, sampling.POOLED_LOGITS(ROLE, batch_size=batch, **sizes)),
            (*one, sampling.CHECKED_LOGITS(ROLE, prompt_tokens=tokens, **sizes)),
        ]

    def _workload(self, rows: int) -> Workload:
        return Workload(
            sequences=rows,
            tokens=self.plan.prompt_tokens,
            batch_shape="padded",
            attention="sdpa",
            precision=self.plan.model_dtype,
            trains="none",
        )

    def flops_a_token(self) -> Num:
        """FLOPs of a forward by tokens; the head sees every one only as the document has it."""
        whole = self.plan.embedding == "logits" and self.plan.assembly == "concatenate"
        tokens = self.plan.prompt_tokens
        flops = compute.forward_flops(self.arch, tokens=tokens, row_tokens=tokens, head=whole)
        return flops / tokens


def embedder_of(plan: SamplingPlan) -> Embedder | None:
    """The plan's model; None where it names none."""
    if not plan.model:
        return None
    arch = model(plan.model).architecture
    assert arch is not None, "a rule of the plan"
    return Embedder(arch, None if plan.device == "cpu" else gpu(plan.device), plan)
