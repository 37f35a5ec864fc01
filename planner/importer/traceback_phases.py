"""Which phases of a step a traceback names, by functions of frameworks and of torch.

Outermost first each rule narrows what is left; one that would leave nothing is passed over, since a
worker's method is called from another phase's loop.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from planner.importer.memory_errors.message import Frame
from planner.values.step_phases import (
    CHECKPOINT,
    CRITIC_UPDATE,
    LOAD,
    OLD_LOG_PROBS,
    OPTIMIZER_STEP,
    POLICY_BACKWARD,
    POLICY_FORWARD,
    REFERENCE_LOG_PROBS,
    REWARD,
    ROLLOUT,
    UPDATE,
    VALIDATION,
    VALUES,
    WEIGHT_SYNC,
    StepPhase,
)

SCORED = (OLD_LOG_PROBS, REFERENCE_LOG_PROBS, VALUES, REWARD)
RULES: tuple[tuple[str, tuple[StepPhase, ...]], ...] = (
    (r"from_pretrained|init_model|_build_model|load_state_dict|load_model\b|fully_shard", (LOAD,)),
    (r"compute_ref_log_prob|ref_policy|ref_per_token_logps", (REFERENCE_LOG_PROBS,)),
    (r"(?:compute|old)_log_prob\b|compute_old_log", (OLD_LOG_PROBS, REFERENCE_LOG_PROBS)),
    (r"compute_values", (VALUES,)),
    (r"compute_rm_score|_calculate_rewards|reward_model", (REWARD,)),
    (r"update_actor|update_policy|training_step|train_batch", (*UPDATE, CRITIC_UPDATE)),
    (r"update_critic", (CRITIC_UPDATE,)),
    (r"generate_sequences|generate_batch|\bgenerate\b|_sample\b", (ROLLOUT, VALIDATION)),
    (r"_validate|evaluation_loop", (VALIDATION,)),
    (r"update_weights|sync_weights|_move_model_to_vllm|sync_model_weights", (WEIGHT_SYNC,)),
    (r"save_checkpoint|_save_checkpoint|save_model|state_dict\b", (CHECKPOINT,)),
    (r"_get_per_token_logps|selective_log_softmax|compute_loss", (POLICY_FORWARD, *SCORED)),
    (r"optimizer\.step|optim/(?:adam|adamw|optimizer|sgd)\.py|_multi_tensor|_foreach_", (
        OPTIMIZER_STEP,
        CRITIC_UPDATE,
    )),
    (r"\.backward\(|torch/autograd/(?:__init__|graph)\.py|_engine_run_backward", (
        POLICY_BACKWARD,
        CRITIC_UPDATE,
    )),
    (r"cross_entropy|lm_head|log_softmax|logsumexp|modeling_\w{1,60}\.py", (
        POLICY_FORWARD,
        CRITIC_UPDATE,
        ROLLOUT,
        VALIDATION,
        *SCORED,
    )),
)  # fmt: skip
_RULES = tuple((re.compile(text), {one.name for one in phases}) for text, phases in RULES)


def phases_of(frames: Sequence[Frame], known: Collection[str]) -> tuple[tuple[str, ...], str]:
    """The phases that a traceback leaves, of those ``known``, and the call that says so.

    Both empty where it names none.
    """
    left, said = {*known}, ""
    for frame in frames:
        text = f"{frame.file} {frame.function} {frame.code}"
        for words, phases in _RULES:
            if words.search(text) and left & phases and not left <= phases:
                left, said = left & phases, frame.function
    return (tuple(name for name in known if name in left), said) if said else ((), "")
