"""One step of verl's trainer on one GPU, by its engines: what its workers are told, in order."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from functools import wraps
from typing import Any

from verl.utils import tensordict_utils as tu

from planner.frameworks.verl.run.made import Made
from planner.plan import Plan
from planner.values import step_phases

FORWARD, BACKWARD, UPDATE = (phase.name for phase in step_phases.UPDATE)
OLD, REFERENCE = step_phases.OLD_LOG_PROBS.name, step_phases.REFERENCE_LOG_PROBS.name
VALUES, CRITIC = step_phases.VALUES.name, step_phases.CRITIC_UPDATE.name

Mark = Callable[[str, bool], None]
"""Told a phase's name, and whether it begins or ends."""
Region = Callable[[str], AbstractContextManager[None]]
"""Inside, what is made belongs to a role."""


class Steps:
    """verl's passes over a step's sequences (``trainer/ppo/v1/trainer_base.py``).

    Args:
        plan: what is trained.
        engines: by role.
        batch: of a pass with gradient, or without.
        mark: told where phases begin and end.
        between: called where a worker's pass is over.
        region: who makes what.
    """

    def __init__(
        self,
        plan: Plan,
        engines: Mapping[str, Made],
        batch: Callable[[bool], Any],
        mark: Mark,
        between: Callable[[], None] = lambda: None,
        region: Region = lambda _: nullcontext(),
    ) -> None:
        self._plan, self._engines, self.given = plan, engines, batch
        self._mark, self._between, self._region = mark, between, region
        self._now = ""
        for role in ("policy", "critic"):
            if role in engines:
                self._watch(engines[role].engine, role)

    def step(self) -> None:
        """Log-probs and values, the critic's update, the policy's."""
        self._infer(OLD, "policy", calculate_entropy=True)
        if self._plan.kl != "none":
            base = self._plan.reference == "adapter-disabled"
            role = "policy" if base else "reference"
            self._infer(REFERENCE, role, base=base, calculate_entropy=False)
        if "critic" in self._engines:
            self._infer(VALUES, "critic")
            self._train("critic")
        self._train("policy", calculate_entropy=self._plan.entropy)

    def _infer(self, phase: str, role: str, *, base: bool = False, **told: Any) -> None:
        """``TrainingWorker.infer_batch``."""
        made, data = self._engines[role], self.given(False)
        engine = made.engine
        tu.assign_non_tensor(data, **made.added(training=False), **told)
        self._enter(phase)
        plain = engine.disable_adapter() if base else nullcontext()
        with self._region("reference" if base else role), engine.eval_mode(), plain:
            found = engine.infer_batch(data)
        del found
        self._leave()
        self._between()

    def _train(self, role: str, **told: Any) -> None:
        """``TrainingWorker.train_mini_batch`` with one mini-batch, and another where that differs.

        The first finds weights gathered, where nothing reshards them after log-probs.
        """
        made, plan = self._engines[role], self._plan
        several = plan.prompts_per_step > plan.prompts_per_update
        differs = several and not plan.reshard_after_forward
        with self._region(role), made.engine.train_mode():
            for _ in range(1 + differs):
                data = self.given(True)
                tu.assign_non_tensor(data, **made.added(training=True), **told)
                with made.engine.train_mode(disable_auto_offload=True):
                    found = made.engine.train_batch(data, loss_function=made.loss)
                del found
                self._leave()
        self._between()

    def _enter(self, phase: str) -> None:
        """Nested rows hold their graph in a circle, until it is collected."""
        self._leave()
        gc.collect()
        self._now = phase
        self._mark(phase, True)

    def _leave(self) -> None:
        if self._now:
            self._mark(self._now, False)
        self._now = ""

    def _watch(self, engine: Any, role: str) -> None:
        """Where forward, backward and update of an engine begin."""
        critic = role == "critic"
        forward, backward, update = (CRITIC,) * 3 if critic else (FORWARD, BACKWARD, UPDATE)
        passes, updates = engine.forward_step, engine.optimizer_step

        @wraps(passes)
        def forward_step(*args: Any, forward_only: bool, **kwargs: Any) -> Any:
            if forward_only:
                return passes(*args, forward_only=True, **kwargs)
            self._enter(forward)
            found = passes(*args, forward_only=False, **kwargs)
            self._enter(backward)
            return found

        @wraps(updates)
        def optimizer_step() -> Any:
            self._enter(update)
            return updates()

        engine.forward_step, engine.optimizer_step = forward_step, optimizer_step


@contextmanager
def quiet() -> Iterator[None]:
    """Verl prints what it does."""
    with redirect_stdout(io.StringIO()):
        yield
