"""What the online programs (GRPO, PPO, Intuitor) share: their constants, refusals and notes.

What is of scores holds for every program that computes log-probabilities of responses.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from planner.launch.templates import Constant, Fixed, Program, of_fields
from planner.plan import Plan
from planner.values.sharding import sharding_of

if TYPE_CHECKING:
    from planner.launch.obstacles import Obstacles

SCORES = {
    "logits": "response computes logits of the response's positions only; full computes them for "
    "every position.",
    "logits_dtype": "Dtype in which the log-softmax over the vocabulary is computed.",
}
WHY = {
    **SCORES,
    "logprob_micro_batch_size": "Rows of one forward of old or reference log-probs, which keep no "
    "activations.",
    "kl": "With a KL term a reference scores every response.",
    "entropy": "An entropy bonus keeps a second number for every vocabulary entry.",
    "temperature": "",
    "prompts_per_step": "All of a step's responses are decoded at once, each with its KV cache.",
}


FIXED: Fixed = {
    "rollout": ("hf", "The program generates with transformers."),
    "eval_steps": (0, "The program does not validate."),
    "resampling_factor": (1.0, "The program trains on every response it samples."),
}


def within(plan: Plan) -> bool:
    """Whether a plan holds all weights on each GPU, and generates with the model that trains."""
    return plan.rollout == "hf" and sharding_of(plan).replicated


def refuse(found: Obstacles) -> None:
    """Notes what none of them does."""
    plan = found.plan
    found.only("batch_shape", "padded", why="Responses end where they end, so rows are padded.")
    refuse_scores(found)
    found.only(
        "validation_response_tokens", plan.response_tokens, why="The program does not validate."
    )
    if plan.reference == "frozen-adapter":
        found.only(
            "reference", "adapter-disabled", why="The program's adapters begin anew, at zero."
        )


def refuse_scores(found: Obstacles) -> None:
    """Notes how no program scores responses."""
    found.only(
        "logits",
        *("response", "full"),
        why="The program computes all logits of a micro-batch at once; it has no kernel that "
        "computes them in chunks.",
    )
    if found.plan.reference == "dual-output":
        found.refuse(
            "reference",
            "The program runs policy and reference one after the other.",
            reference="adapter-disabled",
        )


def program(
    template: Path,
    *columns: str,
    constants: tuple[Constant, ...] = (),
    fixed: Fixed = MappingProxyType({}),
    flags: tuple[str, ...] = (),
    refuse: Callable[[Obstacles], None] = refuse,
) -> Program:
    """The program of a template, over a data file with these text columns.

    With a column ``answer`` it scores responses by ``reward.py``.
    """
    note = (
        f"The data file has JSONL rows with the texts {' and '.join(columns)}; prompts longer than "
        "planned are left out."
    )
    return Program(
        within=within,
        templates=lambda plan: (template,),
        constants=(*of_fields(WHY), *constants),
        fixed={**FIXED, **fixed},
        flags=flags,
        refuse=refuse,
        rewarded="answer" in columns,
        notes=lambda plan: (note,),
    )
