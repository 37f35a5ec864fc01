"""The policy's graph over the generated tokens: what finished steps and a running one hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from planner.formulas import soft_generation as soft
from planner.formulas.activations.layers import (
    layer_backward_transient,
    layer_forward_transient,
    layer_saved,
)
from planner.formulas.activations.model import AUTOCAST_COPIES, model_saved
from planner.formulas.activations.workload import Workload
from planner.methods.grade.fields import own
from planner.methods.grade.sums import BLOCK, over_steps
from planner.numeric import Num, maximum, round_up
from planner.phases import activations
from planner.phases.memory import beside, whole
from planner.phases.role import Role
from planner.phases.scene import Scene, shared
from planner.plan.altered import altered
from planner.setup.setup import Setup
from planner.term import Term

ONCE = ("token ids",)
"""What a model saves once for all steps: only the prompt is looked up by id."""

COPY_OF = "bf16 weight of "
"""Begins the name of autocast's copy of one weight."""

HEAD_INPUTS = ("final norm output", "input of the language-model head")
"""What the head keeps for its weight's gradient."""


def scene_at(scene: Scene, tokens: Num, **instead: Any) -> Scene:
    """The scene of one forward over rows of ``tokens`` positions."""
    q = replace(whole(scene.q), micro_row_tokens=tokens)
    setup = Setup(plan=altered(scene.plan, instead), q=q, models=scene.setup.models)
    return replace(scene, setup=setup, memory=beside(scene.memory))


class Steps:
    """The policy's forwards: step t runs over ``prompt + t`` positions."""

    def __init__(self, scene: Scene) -> None:
        """``scene`` is that of a GRADE plan or grid."""
        plan = scene.plan
        self.scene, self.memory, self.role = scene, scene.memory, scene.policy
        self.prompt, self.count = plan.prompt_tokens, plan.response_tokens
        self._recomputes = plan.gradient_checkpointing != "none"
        self._checkpointed = own(plan).grade_step_checkpointing
        self.longest = self.prompt + self.count - 1
        self._base_tokens = round_up(self.longest + 1, BLOCK)
        self._base = scene_at(scene, self._base_tokens)
        self._scenes: dict[int, Scene] = {}

    def at(self, back: int) -> Scene:
        """The scene of the last step but ``back``."""
        if back not in self._scenes:
            self._scenes[back] = scene_at(self.scene, self.longest - back)
        return self._scenes[back]

    @shared
    def finished(self, back: int) -> Iterator[Term]:
        """What all steps but the last ``back`` keep of the policy: graphs, or their inputs."""
        steps = maximum(self.count - back, 0)
        if self._checkpointed:
            yield from self._inputs(steps)
            return
        terms = _whole(self._base, self.role, soft_inputs=True)
        if self.role.adapters and not self._recomputes:
            yield from _whole(scene_at(self.scene, self.prompt), self.role, soft_inputs=False)
            yield from over_steps(terms, self._base_tokens, self.prompt + 1, steps - 1)
        else:
            yield from over_steps(terms, self._base_tokens, self.prompt, steps)
            yield from self._positions(steps)

    def _inputs(self, steps: Num) -> Iterator[Term]:
        """The rows of embeddings, and masks, that checkpointed steps start again from."""
        rows, plan = self.scene.q.micro_rows, self.scene.plan
        width = self.scene.q.compute_bytes * self.role.arch.hidden
        yield self._rows("inputs of checkpointed steps", width * rows, steps)
        if plan.batch_shape == "padded":
            yield self._rows("masks of checkpointed steps", 8 * rows, steps)
        if self._recomputes:
            # Masks and rotary tables, which each layer's own checkpoint refers to.
            tables = (
                term
                for term in activations.all_layers(self._base, self.role)
                if term.name.startswith(("attention mask", "rotary"))
            )
            yield from over_steps(tables, self._base_tokens, self.prompt, steps)
        yield from self._positions(steps)

    def _positions(self, steps: Num) -> Iterator[Term]:
        """Position ids, which each layer's own checkpoint refers to."""
        if self._recomputes:
            yield self._rows("position ids of every step", 8, steps)

    def _rows(self, label: str, token_bytes: Num, steps: Num) -> Term:
        return soft.STEP_ROWS(
            self.role.name,
            label=label,
            tensors=steps,
            token_bytes=token_bytes,
            steps=steps,
            first_tokens=self.prompt,
        )

    @shared
    def saved_layers(self, back: int, done: int = 0) -> Iterable[Term]:
        """What the layers of the last step but ``back`` have saved, but for those ``done``.

        Its row has soft tokens; only the very first step's has none, and counts as if it had.
        """
        found = activations.all_layers(self.at(back), self.role, done, soft_inputs=True)
        return (term for term in found if term.name not in ONCE)

    def going_backward(self, back: int) -> tuple[Term, ...]:
        """The same while the last layer goes backward.

        A layer that was recomputed inside a recomputed step has let go of its input, which
        in half precision no operation keeps.
        """
        nested = self._checkpointed and self._recomputes
        return self.saved_layers(back, int(nested and self.scene.q.compute_bytes == 2))

    def at_head(self, back: int, *, summed: bool) -> tuple[Term, ...]:
        """The same at the head's backward; its input is gone once gradients are ``summed``."""
        found = self.after_layers(back)
        return tuple(term for term in found if not (summed and term.name in HEAD_INPUTS))

    def in_norm(self, back: int) -> tuple[Term, ...]:
        """The same in the final norm's own backward."""
        return in_norm(self.after_layers(back))

    def after_layers(self, back: int) -> tuple[Term, ...]:
        """What the last step but ``back`` has saved between its layers and its logits."""
        return activations.final_norm(self.at(back), self.role)

    def first_layer(self, back: int) -> Iterator[Term]:
        """What is left of that step when its backward reaches the first layer."""
        return activations.first_layers(self.at(back), self.role, 1)

    @shared
    def backward(self, back: int) -> Iterator[Term]:
        """What passes during one layer's backward of that step.

        All steps but the last add their gradients to those of later ones.
        """
        if not back:
            yield from activations.layer_backward(self.at(back), self.role)
            return
        workload = replace(self.at(back).training_workload(self.role), sums_gradients=True)
        yield from self._again(workload)
        yield from layer_backward_transient(self.role.arch, workload, role=self.role.name)

    def recomputing(self, back: int) -> Iterator[Term]:
        """What stands while a layer of that step is run again before it goes backward."""
        if self._recomputes:
            workload = self.at(back).training_workload(self.role)
            yield from self._again(workload)
            yield from layer_forward_transient(self.role.arch, workload, role=self.role.name)

    def _again(self, workload: Workload) -> tuple[Term, ...]:
        """What a layer that was run again has saved."""
        if not self._recomputes:
            return ()
        arch, name = self.role.arch, self.role.name
        return layer_saved(arch, workload, role=name, layers=1, recomputed=True)

    def run_again(self) -> tuple[Term, ...]:
        """What stands during the last layer of the last step's forward when it saves."""
        last = self.at(0)
        found = (*self.saved_layers(0), *activations.layer_forward(last, self.role))
        # The running step's mask, which checkpoints would hold and nothing else does.
        if self._recomputes:
            return self._cached(found)
        return (*found, *activations.masks(last, self.role))

    def forward(self) -> tuple[Term, ...]:
        """What stands during the last layer of the last step's forward."""
        last = self.at(0)
        if not self._checkpointed:
            return self.run_again()
        bare = replace(last.training_workload(self.role), trains="none")
        return self._cached(
            (
                *model_saved(self.role.arch, bare, role=self.role.name),
                *layer_forward_transient(self.role.arch, bare, role=self.role.name),
            )
        )

    def _cached(self, terms: tuple[Term, ...]) -> tuple[Term, ...]:
        """The terms, with autocast's copies of all adapters in the place of those of one layer.

        It keeps them until a step's forward ends. Where layers save for their own backward the
        copies are among what they save.
        """
        if not self.scene.setup.autocasts_adapters:
            return terms
        copies = AUTOCAST_COPIES(
            self.role.name,
            label="autocast copies of adapters",
            tensors=self.role.adapter_tensors,
            linear_parameters=self.role.adapters,
        )
        return (*(term for term in terms if not term.name.startswith(COPY_OF)), copies)


def in_norm(saved_after: tuple[Term, ...]) -> tuple[Term, ...]:
    """What is left, in a final norm's backward, of what it and the head had saved."""
    gone = (*HEAD_INPUTS, "final norm normalised")
    return tuple(term for term in saved_after if term.name not in gone)


def _whole(scene: Scene, role: Role, *, soft_inputs: bool) -> tuple[Term, ...]:
    layers = activations.all_layers(scene, role, soft_inputs=soft_inputs)
    found = (*layers, *activations.final_norm(scene, role))
    return tuple(term for term in found if term.name not in ONCE)
