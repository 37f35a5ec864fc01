"""How one version of a framework gets from hidden states to a loss, as facts that formulas ask.

Each fact says what the code does, so that formulas never ask whose code it is. Imports nothing
of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CROSS_ENTROPY = "cross-entropy"
POLICY = "policy"
VALUE = "value"

OBJECTIVES = (CROSS_ENTROPY, POLICY, VALUE)
"""What can be made of the head's output: a loss of given tokens, of taken ones, or of values."""

PATHS = ("full", "response", "chunked", "fused")
"""What a plan's ``logits`` can ask for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossCode:
    """The code between the hidden states and the loss."""

    name: str
    """Framework and version, as a sentence has them."""
    paths: Mapping[str, str]
    """What a plan's ``logits`` can say of the paths that it has, and which of them that is."""
    cross_entropy_paths: Mapping[str, str] | None = None
    """The same of a cross-entropy; None where that is like others."""
    itself: str = ""
    """What it meets the vocabulary by, in plain words."""
    planned_as: Mapping[str, str] = field(default_factory=dict)
    """In plain words, what a path that it calls its own is planned as where that is another's."""
    older: tuple[str, ...] = ()
    """Paths that its older releases took, and this one does not."""
    formulas: Mapping[str, str]
    """The module of :mod:`planner.formulas.logits` that has each path's instants."""
    no_cross_entropy: str = ""
    """Why its cross-entropy is not modelled, with the way out; empty where it is."""
    no_entropy: str = ""
    """Why an entropy with gradient is not modelled, with the way out; empty where it is."""
    copies_labels: bool = False
    """The shifted labels of a cross-entropy are a copy, kept for the backward."""
    always_entropy: bool = False
    """Scoring with gradient returns an entropy, whether the loss has one or not."""
    entropy_with_old_log_probs: bool = False
    """The pass that makes old log-probabilities computes an entropy beside them."""
    compiles_packed_entropy: bool = False
    """The entropy of packed rows is compiled; that of padded rows runs as written."""
    copies_padded_logits: bool = False
    """Logits of padded rows are copied, without the padded positions, before the loss."""
    outside_model: bool = False
    """Logits are the model's output: FSDP has resharded the root while they are scored."""
    fp32_without_gradient: bool = False
    """Passes without gradient score in fp32, whatever the logits are."""
    counted_at_regather: bool = False
    """What scoring keeps has been read, and stands beside the root that FSDP gathers again."""
    triton_tiles: bool = False
    """Tiles are folded by a kernel, in registers; otherwise rows of them are widened to fp32."""
    casts_by_tile: bool = False
    """Where autocast lowers products, of head and hidden states a tile's share is cast."""
    gathers_scored_rows: bool = False
    """The rows that carry a label are copied before they meet the head, and the copy is kept."""
    frozen_weight_gradient: bool = False
    """Chunks make the weight's gradient of a frozen head too."""
    one_kernel: bool = False
    """One kernel scores materialised responses; otherwise a loop over sequences does."""

    scores_prompts: bool = False
    """Prompts meet the head on every path; otherwise on the whole one alone."""

    def scores_all(self, objective: str, logits: str) -> bool:
        """Whether every position meets the head where a plan's ``logits`` asks for this path."""
        every = objective == CROSS_ENTROPY or self.scores_prompts
        return every or self.path(objective, logits) == "full"

    def own(self, objective: str) -> Mapping[str, str]:
        """The paths that it has for a loss, by what a plan's ``logits`` says."""
        found = self.cross_entropy_paths if objective == CROSS_ENTROPY else None
        return self.paths if found is None else found

    def running(self, objective: str, logits: str) -> LossCode:
        """The code that runs where a plan's ``logits`` asks for this path: a named loss is made."""
        return self if logits in self.own(objective) else AS_NAMED

    def path(self, objective: str, logits: str) -> str:
        """The path that runs where a plan's ``logits`` asks for this one.

        Raises:
            ValueError: for a path that is none.
        """
        if logits not in PATHS:
            raise ValueError(f"logits must be one of {', '.join(PATHS)}, not {logits!r}")
        return self.own(objective).get(logits, logits)


AS_NAMED = LossCode(
    name="the step of this project",
    paths={path: path for path in PATHS},
    formulas={
        "full": "materialised",
        "response": "materialised",
        "chunked": "chunks",
        "fused": "tiles",
    },
    copies_labels=True,
    counted_at_regather=True,
)
"""The loss of this project's own step, which has every path.

A plan whose ``logits`` names a path that its framework does not have is planned with it.
"""
