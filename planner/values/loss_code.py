"""How one version of a framework gets from hidden states to a loss: ways that were read.

A framework says which ways it has (:class:`LossCode`); what each does is a row of :data:`WAYS`, so
that formulas never ask whose code it is. Imports nothing of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

CROSS_ENTROPY = "cross-entropy"
POLICY = "policy"
VALUE = "value"

OBJECTIVES = (CROSS_ENTROPY, POLICY, VALUE)
"""What can be made of the head's output: a loss of given tokens, of taken ones, or of values."""

PATHS = ("full", "response", "chunked", "fused")
"""What a plan's ``logits`` can ask for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Way:
    """Code between hidden states and loss that was read, whoever runs it."""

    path: str
    """Which of :data:`PATHS` it is."""
    program: str
    """Its instants, by a name of :data:`planner.formulas.logits.PROGRAMS`."""
    called: str = ""
    """What it is, in plain words."""
    note: str = ""
    """A sentence about estimates of it."""
    as_named: bool = False
    """This project's step has it: it copies the labels of a cross-entropy, and what it keeps stands
    beside the root that FSDP gathers again."""
    scores_all: bool = False
    """Every position meets the head, of a prompt too; those of a cross-entropy always do."""
    policies_only: bool = False
    """Nobody has read what runs in its place for a cross-entropy."""
    outside_model: bool = False
    """Logits are the model's output: FSDP has resharded the root while they are scored. Without
    gradient that is in fp32, as is the entropy of padded rows, whose logits are copied without the
    padded positions; the entropy of packed rows is compiled."""
    entropy_of: Literal["", "forward", "score"] = ""
    """The passes that return an entropy whether a loss has one or not: those with gradient, or
    those that make old log-probabilities."""
    by_kernel: bool = False
    """A Triton kernel folds tiles in registers, of which each is cast where autocast lowers
    products; the rows that carry a label are copied before they meet the head, and kept."""


WAYS: Mapping[str, Way] = {
    "full": Way(path="full", program="materialised", as_named=True, scores_all=True),
    "response": Way(path="response", program="materialised", as_named=True),
    "chunked": Way(path="chunked", program="chunks", as_named=True),
    "fused": Way(path="fused", program="tiles", as_named=True),
    # transformers' loss_utils.py, line 47: every position is upcast, labels padded and shifted.
    "whole rows": Way(
        path="full",
        program="materialised",
        called="whole logits of every position, in fp32",
        scores_all=True,
    ),
    "responses in a loop": Way(
        path="response",
        program="responses in a loop",
        called="whole logits of the responses",
        policies_only=True,
    ),
    "responses in one kernel": Way(
        path="response",
        program="responses in one kernel",
        called="whole logits of the responses",
        policies_only=True,
    ),
    "tiles in a kernel": Way(
        path="fused",
        program="tiles",
        called="tiles of 4,096 tokens",
        entropy_of="forward",
        by_kernel=True,
    ),
    # verl's transformer_impl.py, forward_step: prepare_model_outputs follows self.module(...), with
    # compute_entropy_from_logits (compiled) of packed rows, verl_F.entropy_from_logits of padded.
    "whole rows outside the model": Way(
        path="full",
        program="packed",
        called="logits of whole rows",
        note="verl's entropy of packed rows is counted as compiled for a GPU, verl's default; with "
        "use_torch_compile=false it needs up to 12 bytes a token and vocabulary entry more.",
        scores_all=True,
        outside_model=True,
        entropy_of="score",
    ),
    # verl's models/transformers/dense_common.py: all of outputs[0], and labels rolled by one.
    "chunks of whole rows": Way(
        path="chunked",
        program="chunks with every gradient",
        called="chunks of 512 tokens",
        scores_all=True,
        outside_model=True,
        entropy_of="score",
    ),
}
"""Ways by name; a named loss (:data:`AS_NAMED`) has the ways that are called as its paths."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossCode:
    """The code between the hidden states and the loss."""

    paths: Mapping[str, str]
    """What a plan's ``logits`` can say of the ways that it has, and which of :data:`WAYS` it is."""
    told: Mapping[str, str] = field(default_factory=dict)
    """What is said of a plan's ``logits``: of its own, what that is planned as; of others, how old
    a release had it."""

    def own(self, objective: str) -> Mapping[str, Way]:
        """The ways that it has for a loss, by what a plan's ``logits`` says."""
        found = {logits: WAYS[name] for logits, name in self.paths.items()}
        if objective != CROSS_ENTROPY:
            return found
        return {logits: way for logits, way in found.items() if not way.policies_only}

    def way(self, objective: str, logits: str) -> Way:
        """The way that runs where a plan's ``logits`` asks for this path: a named loss is made.

        Raises:
            ValueError: for a path that is none.
        """
        if logits not in PATHS:
            raise ValueError(f"logits must be one of {', '.join(PATHS)}, not {logits!r}")
        return self.own(objective).get(logits, WAYS[logits])


AS_NAMED = LossCode(paths={path: path for path in PATHS})
"""The loss of this project's own step, which has every path.

A plan whose ``logits`` names a path that its framework does not have is planned with it.
"""
