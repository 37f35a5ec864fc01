"""The policy's graph over the generated tokens: what finished steps and a running one hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from planner.footprint import Term
from planner.formulas import soft_generation as soft
from planner.formulas.activations import (
    layer_backward_transient,
    layer_forward_transient,
    layer_saved,
    model_saved,
)
from planner.methods.grade.fields import own
from planner.methods.grade.sums import BLOCK, over_steps
from planner.numeric import Num, maximum, round_up
from planner.phases import saved
from planner.phases.role import Role
from planner.phases.scene import Scene

ONCE = ("token ids",)
"""What a model saves once for all steps: only the prompt is looked up by id."""

HEAD_INPUTS = ("final norm output", "input of the language-model head")
"""What the head keeps for its weight's gradient."""


class Instead:
    """Reads like a plan (or grid), with some fields replaced."""

    def __init__(self, plan: Any, **values: Any) -> None:
        """``values`` stand in for the plan's."""
        self._plan = plan
        self._values = values

    def __getattr__(self, field: str) -> Any:
        values = self.__dict__["_values"]
        return values[field] if field in values else getattr(self.__dict__["_plan"], field)


def scene_at(scene: Scene, tokens: Num, **instead: Any) -> Scene:
    """The scene of one forward over rows of ``tokens`` positions."""
    q = replace(scene.q, micro_row_tokens=tokens)
    plan: Any = Instead(scene.plan, **instead) if instead else scene.plan
    return replace(scene, setup=replace(scene.setup, q=q, plan=plan), memory={})


class Steps:
    """The policy's forwards: step t runs over ``prompt + t`` positions."""

    def __init__(self, scene: Scene) -> None:
        """``scene`` is that of a GRADE plan or grid."""
        plan = scene.plan
        self.scene = scene
        self.role = scene.policy
        self.prompt = plan.prompt_tokens
        self.count = plan.response_tokens
        self.longest = self.prompt + self.count - 1
        self._base_tokens = round_up(self.longest + 1, BLOCK)
        self._base = scene_at(scene, self._base_tokens)
        self._scenes: dict[int, Scene] = {}

    def at(self, back: int) -> Scene:
        """The scene of the last step but ``back``."""
        if back not in self._scenes:
            self._scenes[back] = scene_at(self.scene, self.longest - back)
        return self._scenes[back]

    def finished(self, back: int) -> tuple[Term, ...]:
        """What all steps but the last ``back`` keep of the policy: graphs, or their inputs."""
        steps = maximum(self.count - back, 0)
        return self.scene.once(("finished", back), lambda: self._finished(steps))

    def _finished(self, steps: Num) -> tuple[Term, ...]:
        if own(self.scene.plan).grade_step_checkpointing:
            return self._inputs(steps)
        terms = _whole(self._base, self.role, soft_inputs=True)
        if not self.role.adapters or self.scene.plan.gradient_checkpointing == "full":
            found = over_steps(terms, self._base_tokens, self.prompt, steps)
            return (*found, *self._positions(steps))
        first = _whole(scene_at(self.scene, self.prompt), self.role, soft_inputs=False)
        return (*first, *over_steps(terms, self._base_tokens, self.prompt + 1, steps - 1))

    def _inputs(self, steps: Num) -> tuple[Term, ...]:
        """The rows of embeddings, and masks, that checkpointed steps start again from."""
        q = self.scene.q
        sizes = {"steps": steps, "first_tokens": self.prompt}
        rows = [
            soft.STEP_ROWS(
                self.role.name,
                label="inputs of checkpointed steps",
                tensors=steps,
                token_bytes=q.compute_bytes * q.micro_rows * self.role.arch.hidden,
                **sizes,
            )
        ]
        if self.scene.plan.batch_shape == "padded":
            rows.append(
                soft.STEP_ROWS(
                    self.role.name,
                    label="masks of checkpointed steps",
                    tensors=steps,
                    token_bytes=8 * q.micro_rows,
                    **sizes,
                )
            )
        return (*rows, *self._held_by_checkpoints(steps))

    def _held_by_checkpoints(self, steps: Num) -> tuple[Term, ...]:
        """Masks and rotary tables, which each layer's own checkpoint refers to."""
        if self.scene.plan.gradient_checkpointing == "none":
            return ()
        found = tuple(
            term
            for term in saved.all_layers(self._base, self.role)
            if term.name.startswith(("attention mask", "rotary"))
        )
        found = over_steps(found, self._base_tokens, self.prompt, steps)
        return (*found, *self._positions(steps))

    def _positions(self, steps: Num) -> tuple[Term, ...]:
        """Position ids, which each layer's own checkpoint refers to."""
        if self.scene.plan.gradient_checkpointing == "none":
            return ()
        ids = soft.STEP_ROWS(
            self.role.name,
            label="position ids of every step",
            tensors=steps,
            token_bytes=8,
            steps=steps,
            first_tokens=self.prompt,
        )
        return (ids,)

    def saved_layers(self, back: int, done: int = 0) -> tuple[Term, ...]:
        """What the layers of the last step but ``back`` have saved, but for those ``done``.

        Its row has soft tokens; only the very first step's has none, and counts as if it had.
        """

        def make() -> Iterator[Term]:
            found = saved.all_layers(self.at(back), self.role, done, soft_inputs=True)
            return (term for term in found if term.name not in ONCE)

        return self.scene.once(("saved in step", back, done), make)

    def going_backward(self, back: int) -> tuple[Term, ...]:
        """The same while the last layer goes backward.

        A layer that was recomputed inside a recomputed step has let go of its input, which
        in half precision no operation keeps.
        """
        plan = self.scene.plan
        nested = own(plan).grade_step_checkpointing and plan.gradient_checkpointing == "full"
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
        return saved.final_norm(self.at(back), self.role)

    def first_layer(self, back: int) -> tuple[Term, ...]:
        """What is left of that step when its backward reaches the first layer."""
        return saved.first_layers(self.at(back), self.role, 1)

    def backward(self, back: int) -> tuple[Term, ...]:
        """What passes during one layer's backward of that step.

        All steps but the last add their gradients to those of later ones.
        """
        return self.scene.once(("backward of step", back), lambda: self._backward(back))

    def _backward(self, back: int) -> tuple[Term, ...]:
        if not back:
            return saved.layer_backward(self.at(back), self.role)
        workload = replace(self.at(back).training_workload(self.role), sums_gradients=True)
        arch, name = self.role.arch, self.role.name
        found = layer_backward_transient(arch, workload, role=name)
        if self.scene.plan.gradient_checkpointing == "none":
            return found
        return (*layer_saved(arch, workload, role=name, layers=1, recomputed=True), *found)

    def recomputing(self, back: int) -> tuple[Term, ...]:
        """What stands while a layer of that step is run again before it goes backward."""
        if self.scene.plan.gradient_checkpointing == "none":
            return ()
        workload = self.at(back).training_workload(self.role)
        arch, name = self.role.arch, self.role.name
        return (
            *layer_saved(arch, workload, role=name, layers=1, recomputed=True),
            *layer_forward_transient(arch, workload, role=name),
        )

    def forward(self) -> tuple[Term, ...]:
        """What stands during the last layer of the last step's forward."""
        last = self.at(0)
        plan, workload = self.scene.plan, last.training_workload(self.role)
        if not own(plan).grade_step_checkpointing:
            found = (*self.saved_layers(0), *saved.layer_forward(last, self.role))
            alive = plan.gradient_checkpointing == "none"
            # The running step's mask, which checkpoints would hold and nothing else does.
            return (*found, *saved.masks(last, self.role)) if alive else found
        bare = replace(workload, trains="none")
        return (
            *model_saved(self.role.arch, bare, role=self.role.name),
            *layer_forward_transient(self.role.arch, bare, role=self.role.name),
        )


def in_norm(saved_after: tuple[Term, ...]) -> tuple[Term, ...]:
    """What is left, in a final norm's backward, of what it and the head had saved."""
    gone = (*HEAD_INPUTS, "final norm normalised")
    return tuple(term for term in saved_after if term.name not in gone)


def _whole(scene: Scene, role: Role, *, soft_inputs: bool) -> tuple[Term, ...]:
    layers = saved.all_layers(scene, role, soft_inputs=soft_inputs)
    found = (*layers, *saved.final_norm(scene, role))
    return tuple(term for term in found if term.name not in ONCE)
