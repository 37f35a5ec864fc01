"""What a GRADE step holds over several of its moments, as bundles that are added up once."""

from __future__ import annotations

from collections.abc import Iterator

from planner.footprint import Term
from planner.formulas import soft_generation as soft
from planner.methods.grade import judged, sampled
from planner.methods.grade.fields import own
from planner.methods.grade.rewarded import Rewarded
from planner.methods.grade.unrolled import Steps
from planner.numeric import Num, maximum
from planner.phases.role import Role
from planner.phases.scene import Scene

FP32, INT64 = sampled.FP32, sampled.INT64

Bundles = tuple[tuple[Term, ...], ...]


class Held:
    """The policy's steps, the reward's graph, the sampled tokens, and what has a name."""

    def __init__(self, scene: Scene) -> None:
        """``scene`` is that of a GRADE plan or grid."""
        self.scene, self.plan, self.q = scene, scene.plan, scene.q
        self.role: Role = scene.policy
        self.steps, self.reward = Steps(scene), Rewarded(scene)
        count = scene.plan.response_tokens
        self.count = count
        self.batch = own(scene.plan).grade_kl == "batch"
        self.all_but_last = self.steps.finished(1)
        self.last = (*self.steps.saved_layers(0), *self.steps.after_layers(0))
        if own(scene.plan).grade_step_checkpointing:
            self.all_steps: Bundles = (self.steps.finished(0),)
        else:
            self.all_steps = (self.all_but_last, self.last)
        self.batch_kl = judged.batch_kept(scene) if self.batch else ()
        self.rows = tuple(self._rows())
        self.names = tuple(self._names())

    def tokens(
        self, back: int, moment: sampled.Moment, *, kept_logits: bool = False
    ) -> tuple[Term, ...]:
        """What sampling keeps of all tokens but the last ``back``.

        ``kept_logits`` counts those that wait for a batch KL, until it is done.
        """

        def make() -> Iterator[Term]:
            count = maximum(self.count - back, 0)
            mixtures = maximum(self.count - max(back, 1), 0)
            found = sampled.kept(self.scene, count, mixtures, moment)
            return (t for t in found if kept_logits or t.name != soft.KEPT_LOGITS.name)

        return self.scene.once(("sampled", back, moment, kept_logits), make)

    def below(self, back: int) -> tuple[Term, ...]:
        """What earlier steps hold while the last step but ``back`` goes backward.

        A checkpointed step keeps its own inputs until all of it went backward; they are among
        what its layers save, unless the first layer begins with an fp32 copy of them.
        """
        shared = self.plan.gradient_checkpointing == "full" or self.q.compute_bytes == FP32
        inputs = 1 if own(self.plan).grade_step_checkpointing and not shared else 0
        return self.steps.finished(back + 1 - inputs)

    def _rows(self) -> Iterator[Term]:
        """Prompt ids, and the mask of padded ones, as the micro-batch brings them."""
        yield self.row("ids of the micro-batch", INT64, 1, self.q.row_tokens)
        if self.plan.batch_shape == "padded":
            yield self.row("mask of the micro-batch", INT64, 1, self.q.row_tokens)

    def _names(self) -> Iterator[Term]:
        """What the running step reads and nothing else keeps."""
        plan = self.plan
        kept = plan.gradient_checkpointing == "full" or own(plan).grade_step_checkpointing
        if not kept and self.q.compute_bytes != FP32:
            hidden = self.role.arch.hidden
            yield self.row("embeddings so far", self.q.compute_bytes, hidden, self.steps.longest)
        if own(plan).grade_kl != "none":
            yield self.row("hard tokens so far", INT64, 1, self.steps.longest)
        if plan.batch_shape == "padded" and not own(plan).grade_step_checkpointing:
            yield self.row("mask so far", INT64, 1, self.steps.longest)

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
