"""The reward model's graph: a frozen model that gradients pass through to its soft inputs."""

from __future__ import annotations

from collections.abc import Iterator

from planner.formulas import soft_generation as soft
from planner.methods.grade.policy_graph import in_norm, scene_at
from planner.methods.grade.soft_tokens import FP32, INT64, Soft
from planner.phases import activations
from planner.phases.role import Role
from planner.phases.scene import Scene, shared
from planner.term import Term


class Rewarded:
    """The reward model over rows of soft response tokens, which have no padding."""

    def __init__(self, tokens: Soft) -> None:
        """``tokens`` are those it reads."""
        self._soft, self.memory, scene = tokens, tokens.scene.memory, tokens.scene
        self.role = judge(scene)
        self._at = scene_at(scene, tokens.tokens, gradient_checkpointing="none", batch_shape="full")
        self._sparse = tokens.own.grade_reward_input == "sparse"
        self._listed = bool(tokens.own.grade_top_k and not tokens.own.grade_dense_scatter)

    @shared
    def inputs(self) -> Iterator[Term]:
        """What is kept of the mixture of embeddings: gathered rows, or where weights went."""
        tokens = self._soft.tokens
        if self._sparse:
            yield self._soft.best_rows(self.role.name, tokens)
        elif self._listed:
            label = "ids of the top k, stacked for the reward"
            yield self._soft.best(soft.BEST_IDS, INT64, tokens, label=label)

    def mixing(self) -> tuple[Term, ...]:
        """Stacked weights in passing while the mixture is made."""
        wider = self._soft.width != FP32 and not self._listed
        return self._stacked("soft tokens, stacked for the reward", FP32 * wider)

    def unmixing(self) -> tuple[Term, ...]:
        """Gradients of the stacked weights, in the embedding's dtype."""
        return self._stacked("gradient of the stacked soft tokens")

    def _stacked(self, label: str, more: int = 0) -> tuple[Term, ...]:
        """Rows of all tokens in the embedding's dtype; ``more`` bytes beside it."""
        width, tokens = self._soft.width + more, self._soft.tokens
        dense = self._soft.rows(soft.VOCABULARY_ROWS, width, tokens, label=label)
        return () if self._sparse else (dense,)

    def gradient(self) -> tuple[Term, ...]:
        """The gradient of all soft tokens, alive until the first of them went backward."""
        if self._listed:
            return (self._soft.best(soft.BEST_GRADIENT, FP32, self._soft.tokens),)
        dense = self._soft.rows(soft.SOFT_GRADIENT, FP32, self._soft.tokens)
        return () if self._sparse else (dense,)

    def saved(self) -> tuple[Term, ...]:
        """What the layers keep for the gradient of their inputs."""
        return activations.all_layers(self._at, self.role)

    def in_norm(self) -> tuple[Term, ...]:
        """What the final norm keeps until its own backward."""
        return in_norm(activations.final_norm(self._at, self.role))

    def forward(self) -> tuple[Term, ...]:
        """What passes in a layer's forward, and the embeddings held by name meanwhile."""
        found = activations.layer_forward(self._at, self.role)
        if self._soft.width == FP32:
            return found
        embeddings = soft.MIXTURES(
            self.role.name,
            value_bytes=self._soft.width,
            sequences=self._at.q.micro_rows,
            steps=self._soft.tokens,
            hidden=self.role.arch.hidden,
        )
        return (*found, embeddings)

    def backward(self) -> Iterator[Term]:
        """What passes in a layer's backward."""
        return activations.layer_backward(self._at, self.role)


def judge(scene: Scene) -> Role:
    """The reward model, which reads the policy's soft tokens."""
    if scene.reward is None:
        raise ValueError("reward: GRADE needs a model that gradients flow through; set it to model")
    if scene.reward.arch.vocab != scene.policy.arch.vocab:
        raise ValueError(
            "reward_model: its vocabulary differs from the policy's, whose soft tokens it reads; "
            "choose a reward model of the policy's family"
        )
    return scene.reward
