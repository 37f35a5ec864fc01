"""GRADE: responses as soft tokens, so that a reward's gradient reaches the policy.

Each generated token is a Gumbel-softmax mixture over the vocabulary, fed back as a mixture of
embeddings; the graph of every generated token stays alive until the backward. The switches
(``grade_*``) are those of documents 001 and 002.
"""

from __future__ import annotations

from planner.methods.grade.fields import GradeFields, own
from planner.methods.grade.rules import RULES, fact_problems
from planner.rule import NoEffect
from planner.values.method import POLICY, REFERENCE, REWARD_MODEL, Method
from planner.values.step_phases import given

METHOD = Method(
    name="grade",
    title="GRADE",
    label="GRADE · Gumbel-softmax relaxation",
    order=60,
    roles=(POLICY, REFERENCE, REWARD_MODEL),
    phases=given(),
    rollouts=("in-graph",),
    embeds_outside_forward=True,
    autocasts_adapters=lambda plan: bool(own(plan).grade_autocast),
    fields=GradeFields,
    refused_elsewhere=tuple(GradeFields.model_fields),
    # Its code trains in half precision without a master copy (documents 001 and 002).
    defaults={
        "kl": "none",
        "critic": "none",
        "rollout": "in-graph",
        "reward": "model",
        "responses_per_prompt": 1,
        "master_dtype": "none",
    },
    switches=(
        (
            "checkpointing each generated token",
            "not checkpointing each generated token",
            {"grade_step_checkpointing": True},
            {"grade_step_checkpointing": False},
        ),
        (
            "keeping the top 256 tokens",
            "keeping the whole vocabulary",
            {"grade_top_k": 256},
            {"grade_top_k": 0, "grade_dense_scatter": False, "grade_reward_input": "dense"},
        ),
    ),
    edits=(
        ("memory", "Checkpoint each generated token's step", {"grade_step_checkpointing": True}),
    ),
    searched=("grade_step_checkpointing", "grade_reference_cache"),
    trade_offs={
        "grade_estimator": "The straight-through estimator feeds one-hot tokens and uses the "
        "gradient of the soft tokens, so its gradient has a different bias."
    },
    rules=RULES,
    fact_problems=fact_problems,
    without_effect=(
        NoEffect(
            ("validation_response_tokens", "logprob_micro_batch_size", "logits", "logits_dtype"),
            "GRADE's step has one forward, with fp32 logits of the last position",
        ),
        NoEffect(("kl", "entropy"), "GRADE's loss has grade_kl alone"),
        NoEffect(
            ("grade_autocast",),
            "nothing that trains is kept in fp32",
            lambda plan: plan.finetuning == "full" or plan.master_dtype == "none",
        ),
    ),
)
