"""What a GRADE step holds over several of its moments, as bundles that are added up once."""

from __future__ import annotations

from collections.abc import Iterator

from planner.formulas import soft_generation as soft
from planner.methods.grade import reference_run, soft_tokens
from planner.methods.grade.policy_graph import Steps
from planner.methods.grade.reward_graph import Rewarded
from planner.methods.grade.soft_tokens import FP32, INT64, Soft
from planner.numeric import Num, maximum
from planner.phases.scene import Scene, shared
from planner.term import Term

Bundles = tuple[tuple[Term, ...], ...]


class Held:
    """The policy's steps, the reward's graph, the sampled tokens, and what has a name."""

    def __init__(self, scene: Scene) -> None:
        """``scene`` is that of a GRADE plan or grid."""
        self.soft = Soft(scene)
        self.scene, self.plan, self.q, self.memory = scene, scene.plan, scene.q, scene.memory
        self.role, self.own = scene.policy, self.soft.own
        self.steps, self.reward = Steps(scene), Rewarded(self.soft)
        self.count = scene.plan.response_tokens
        self.batch = self.own.grade_kl == "batch"
        if self.own.grade_step_checkpointing:
            self.all_steps: Bundles = (self.steps.finished(0),)
        else:
            last = (*self.steps.saved_layers(0), *self.steps.after_layers(0))
            self.all_steps = (self.steps.finished(1), last)
        self.batch_kl = reference_run.batch_kept(self.soft) if self.batch else ()
        self.rows = tuple(self._rows())
        self.names = tuple(self._names())

    @shared
    def tokens(
        self, back: int, moment: soft_tokens.Moment, *, kept_logits: bool = False
    ) -> Iterator[Term]:
        """What sampling keeps of all tokens but the last ``back``.

        ``kept_logits`` counts those that wait for a batch KL, until it is done.
        """
        count = maximum(self.count - back, 0)
        mixtures = maximum(self.count - max(back, 1), 0)
        for term in soft_tokens.kept(self.soft, count, mixtures, moment):
            if kept_logits or term.name != soft.KEPT_LOGITS.name:
                yield term

    def below(self, back: int) -> tuple[Term, ...]:
        """What earlier steps hold while the last step but ``back`` goes backward.

        A checkpointed step keeps its own inputs until all of it went backward; they are among
        what its layers save, unless the first layer begins with an fp32 copy of them.
        """
        among = self.plan.gradient_checkpointing == "full" or self.q.compute_bytes == FP32
        return self.steps.finished(back + (among or not self.own.grade_step_checkpointing))

    def _rows(self) -> Iterator[Term]:
        """Prompt ids, and the mask of padded ones, as the micro-batch brings them."""
        yield self.row("ids of the micro-batch", INT64, 1, self.q.row_tokens)
        if self.plan.batch_shape == "padded":
            yield self.row("mask of the micro-batch", INT64, 1, self.q.row_tokens)

    def _names(self) -> Iterator[Term]:
        """What the running step reads and nothing else keeps."""
        checkpointed, longest = self.own.grade_step_checkpointing, self.steps.longest
        kept = self.plan.gradient_checkpointing == "full" or checkpointed
        if not kept and self.q.compute_bytes != FP32:
            hidden = self.role.arch.hidden
            yield self.row("embeddings so far", self.q.compute_bytes, hidden, longest)
        if self.own.grade_kl != "none":
            yield self.row("hard tokens so far", INT64, 1, longest)
        if self.plan.batch_shape == "padded" and not checkpointed:
            yield self.row("mask so far", INT64, 1, longest)

    def row(self, label: str, value_bytes: Num, width: Num, tokens: Num) -> Term:
        """One row of ``width`` values for each of ``tokens`` positions."""
        return soft.PROMPT_ROWS(
            self.role.name,
            label=label,
            value_bytes=value_bytes,
            sequences=self.q.micro_rows,
            tokens=tokens,
            width=width,
        )
