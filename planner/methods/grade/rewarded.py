"""The reward model's graph: a frozen model that gradients pass through to its soft inputs."""

from __future__ import annotations

from planner.footprint import Term
from planner.formulas import soft_generation as soft
from planner.methods.grade import sampled
from planner.methods.grade.fields import own
from planner.methods.grade.unrolled import in_norm, scene_at
from planner.phases import saved
from planner.phases.role import Role
from planner.phases.scene import Scene

FP32 = sampled.FP32


class Rewarded:
    """The reward model over rows of soft response tokens, which have no padding."""

    def __init__(self, scene: Scene) -> None:
        """``scene`` is that of a GRADE plan or grid."""
        self._scene = scene
        self.role = judge(scene)
        self._at = scene_at(
            scene,
            scene.plan.response_tokens,
            gradient_checkpointing="none",
            batch_shape="full",
        )

    def inputs(self) -> tuple[Term, ...]:
        """What is kept of the mixture of embeddings: gathered rows, or where weights went."""
        scene, tokens = self._scene, self._scene.plan.response_tokens
        if own(scene.plan).grade_reward_input == "sparse":
            return (sampled.best_rows(scene, self.role.name, tokens),)
        if self._listed:
            label = "ids of the top k, stacked for the reward"
            return (sampled.best(scene, soft.BEST_IDS, sampled.INT64, tokens, label=label),)
        return ()

    def mixing(self) -> tuple[Term, ...]:
        """Stacked weights in passing while the mixture is made."""
        if own(self._scene.plan).grade_reward_input == "sparse":
            return ()
        return self._all_tokens(
            0 if self._listed else FP32, label="soft tokens, stacked for the reward"
        )

    def unmixing(self) -> tuple[Term, ...]:
        """Gradients of the stacked weights, in the embedding's dtype."""
        if own(self._scene.plan).grade_reward_input == "sparse":
            return ()
        return self._all_tokens(0, label="gradient of the stacked soft tokens")

    def gradient(self) -> tuple[Term, ...]:
        """The gradient of all soft tokens, alive until the first of them went backward."""
        tokens = self._scene.plan.response_tokens
        if self._listed:
            return (sampled.best(self._scene, soft.BEST_GRADIENT, FP32, tokens),)
        if own(self._scene.plan).grade_reward_input == "sparse":
            return ()
        return (sampled.rows(self._scene, soft.SOFT_GRADIENT, FP32, tokens),)

    def saved(self) -> tuple[Term, ...]:
        """What the layers keep for the gradient of their inputs."""
        return saved.all_layers(self._at, self.role)

    def in_norm(self) -> tuple[Term, ...]:
        """What the final norm keeps until its own backward."""
        return in_norm(saved.final_norm(self._at, self.role))

    def forward(self) -> tuple[Term, ...]:
        """What passes in a layer's forward, and the embeddings held by name meanwhile."""
        found = saved.layer_forward(self._at, self.role)
        if self._scene.q.compute_bytes == FP32:
            return found
        return (*found, self._embeddings())

    def backward(self) -> tuple[Term, ...]:
        """What passes in a layer's backward."""
        return saved.layer_backward(self._at, self.role)

    @property
    def _listed(self) -> bool:
        plan = self._scene.plan
        return bool(own(plan).grade_top_k and not own(plan).grade_dense_scatter)

    def _all_tokens(self, more: int, *, label: str) -> tuple[Term, ...]:
        """Rows of all tokens in the embedding's dtype; ``more`` bytes where it is not fp32."""
        width = self._scene.q.compute_bytes
        return (
            sampled.rows(
                self._scene,
                soft.VOCABULARY_ROWS,
                width + (more if width != FP32 else 0),
                self._scene.plan.response_tokens,
                label=label,
            ),
        )

    def _embeddings(self) -> Term:
        q, plan = self._scene.q, self._scene.plan
        return soft.MIXTURES(
            self.role.name,
            value_bytes=q.compute_bytes,
            sequences=q.micro_rows,
            steps=plan.response_tokens,
            hidden=self.role.arch.hidden,
        )


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
