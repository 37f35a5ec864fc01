"""Which tokens of a micro-batch meet the vocabulary, and through which code."""

from __future__ import annotations

from dataclasses import replace

from planner.formulas.logits import Head
from planner.numeric import Num, ceil_div
from planner.phases import units
from planner.phases.role import Role
from planner.phases.scene import Scene, once
from planner.plan import Plan
from planner.plan.loss import path_of, way_of
from planner.plan.methods import method_of
from planner.values.loss_code import CROSS_ENTROPY, Way
from planner.values.sharding import sharding_of

MATERIALISED = ("full", "response")
"""Paths that make all scored logits at once."""


@once
def training_head(scene: Scene, role: Role) -> Head:
    """Head and loss of one training forward on one GPU."""
    trains = role.root_trainable > 0
    entropy = scene.plan.entropy and policy_objective(scene.plan) != CROSS_ENTROPY
    return _head(scene, role, scene.q.micro_sequences, scene.q.micro_tokens, trains, entropy)


@once
def inference_head(scene: Scene, role: Role) -> Head:
    """Head of one forward without gradient on one GPU."""
    q = scene.q
    return _head(scene, role, q.logprob_sequences, q.logprob_tokens, gradient=False)


@once
def certainty_head(scene: Scene, *, gradient: bool) -> Head:
    """What self-certainty reads of the policy's head: logits of its own where it makes them.

    They are made at once, under autocast where the forward is, whatever the loss does.
    """
    found = (training_head if gradient else inference_head)(scene, scene.policy)
    made = replace(found, casts_tiles=False)
    if made.logits == "fused":  # whose tiles are folded in fp32, unlike these
        made = replace(made, logits_dtype=scene.plan.logits_dtype)
    if made.logits in MATERIALISED or not _autocasts(scene, scene.policy):
        return made
    return replace(made, logits_dtype="fp32", autocast_casts=scene.plan.logits_dtype != "fp32")


def scored_in_step(scene: Scene, *, gradient: bool) -> Num:
    """Positions of one step that meet the vocabulary in one pass over all of a GPU's sequences."""
    sequences = scene.q.sequences_per_gpu_step
    passes = scene.q.training if gradient else scene.q.scoring
    if scene.plan.batch_shape == "packed" and not _scores_all(scene):
        return sequences * passes.response_tokens
    return _tokens_at_head(scene, sequences, passes.tokens, passes.response_tokens)


@once
def path(scene: Scene) -> str:
    """The logits path that runs: the one that the plan names, by whoever has it."""
    return path_of(scene.plan)


@once
def way(scene: Scene) -> Way:
    """How the plan gets from hidden states to the loss."""
    return way_of(scene.plan)


def policy_objective(plan: Plan) -> str:
    """Which loss meets the policy's head."""
    return method_of(plan).objective


def _head(
    scene: Scene,
    role: Role,
    rows: Num,
    tokens: Num,
    trains: bool = False,
    entropy: bool = False,
    gradient: bool = True,
) -> Head:
    plan, code = scene.plan, way(scene)
    # Autocast runs softmax and logsumexp in fp32 whatever the logits are.
    packed, outside = plan.batch_shape == "packed", code.outside_model
    wide = outside and (not gradient or (entropy and not packed))
    autocasts = _autocasts(scene, role) and code.path in MATERIALISED
    scored = _tokens_at_head(scene, rows, tokens, scene.q.response_tokens)
    if code.by_kernel and not packed:
        # A row's last position predicts nothing: it carries no label, and is left behind.
        scored = scored - rows
    widened = autocasts or plan.dtype == "fp32"
    returned = gradient and sharding_of(plan).ddp and scene.framework.ddp_copies_output(plan)
    return Head(
        tokens=scored,
        rows=rows,
        vocab=role.arch.vocab,
        hidden=role.arch.hidden,
        logits_dtype="fp32" if wide or autocasts or code.path == "fused" else plan.logits_dtype,
        autocast_casts=autocasts and plan.logits_dtype != "fp32",
        casts_tiles=casts_tiles(scene, role),
        casts_columns=units.head_by_loss(scene, role) and role.weight_bytes > scene.q.compute_bytes,
        weight_trains=trains,
        way=code,
        role=role.name,
        entropy=entropy,
        softcap=role.arch.logit_softcap > 0,
        compiled_entropy=outside and packed,
        copied_logits=outside and not packed,
        dtype=plan.dtype,
        copied_output=("fp32" if widened else "half") if returned else "",
        chunk_tokens=plan.chunk_tokens,
        chunk_compile=plan.chunk_compile,
        temperature_scaled=scene.setup.temperature != 1.0,
    )


def _autocasts(scene: Scene, role: Role) -> bool:
    """Whether a role's logits are made and read under autocast."""
    casts = scene.precision == "autocast-bf16" or scene.setup.autocasts_forwards
    return casts and role.trained


def casts_tiles(scene: Scene, role: Role) -> bool:
    """Whether a head of fp32 weights under autocast is cast tile by tile, and never as a whole."""
    fp32 = scene.precision == "autocast-bf16" and scene.embedding_bytes(role) == 4
    return fp32 and way(scene).by_kernel


def _scores_all(scene: Scene) -> bool:
    return policy_objective(scene.plan) == CROSS_ENTROPY or way(scene).scores_all


def _tokens_at_head(scene: Scene, rows: Num, tokens: Num, response_tokens: Num) -> Num:
    """All tokens, or the response's only.

    Padded and full rows keep the last ``response_tokens + 1`` positions
    (``logits_to_keep``); a packed row is thinned to its share of response tokens.
    """
    if _scores_all(scene):
        return tokens
    if scene.plan.batch_shape == "packed":
        return ceil_div(tokens * response_tokens, scene.q.row_tokens)
    return rows * (response_tokens + 1)
