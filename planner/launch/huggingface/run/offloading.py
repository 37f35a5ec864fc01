"""What transformers and accelerate keep in host RAM, where host and device are one memory.

Both put torch's ``save_on_cpu`` around each layer that they checkpoint; accelerate gives FSDP2 its
own policy for state that stays in host RAM.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from unittest.mock import patch

from torch.distributed.algorithms._checkpoint import checkpoint_wrapper
from transformers import modeling_utils

from planner.dryrun.run.sharded import Unpinned, two_memories
from planner.dryrun.run.stage import DryStage
from planner.plan import Plan
from planner.steps.stage import Stage


@contextmanager
def offloading(plan: Plan, stage: Stage) -> Iterator[None]:
    """Inside, what a plan offloads goes to host RAM and comes back although there is no card.

    Args:
        plan: what is trained; nothing is done where all of it stays.
        stage: where, with data or without; a card does all of it itself.
    """
    with ExitStack() as stack:
        if stage.device.type != "cuda":
            if plan.activation_offload:
                saved = lambda **_: stage.saved_on_host()  # noqa: E731
                for owner in (checkpoint_wrapper, modeling_utils):
                    stack.enter_context(patch.object(owner, "save_on_cpu", saved))
            if plan.offload == "all":
                stack.enter_context(patch("torch.distributed.fsdp.CPUOffloadPolicy", Unpinned))
                stack.enter_context(two_memories(lambda: on_host(stage)))
        yield


def on_host(stage: Stage) -> AbstractContextManager[None]:
    """Inside, what is made is in host RAM."""
    return stage.tracker.on_host() if isinstance(stage, DryStage) else nullcontext()
