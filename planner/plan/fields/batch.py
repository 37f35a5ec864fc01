"""How many prompts and responses there are, and how long they are."""

from typing import Literal

import numpy as np
from pydantic import BaseModel

from planner.plan.fields.kinds import (
    Count,
    CountOrNone,
    Distribution,
    Tokens,
    TokensOrNone,
    not_yet,
)
from planner.values.dealing import rest
from planner.values.field import IN_SIGHT, Idle, field

BY_BUDGET: Idle = (
    "max_tokens_per_micro_batch decides",
    lambda plan: plan.max_tokens_per_micro_batch > 0,
)
ONE_LENGTH: Idle = (
    "all rows have one length",
    lambda plan: plan.batch_shape == "full" or plan.rollout == "in-graph",
)


class BatchFields(BaseModel):
    """Batches, and lengths of their rows."""

    prompts_per_step: Count = field(
        64,
        "Prompts per step",
        "Prompts of one step, over all GPUs.",
        synonyms="batch size, global batch, train batch",
        page=IN_SIGHT,
    )
    responses_per_prompt: Count = field(
        8,
        "Responses/prompt",
        "Responses sampled for each prompt.",
        more="They form the group whose rewards GRPO, RLOO and Intuitor compare.",
        synonyms="group size, n, num generations, rollouts",
        page=IN_SIGHT,
    )
    prompts_per_update: Count = field(
        64,
        "Mini-batch",
        "Prompts of one optimizer step.",
        more="The number of prompts in a step is a multiple of the mini-batch.",
        unit="prompts",
        synonyms="mini-batch, gradient accumulation, off-policy updates",
        page=("batch", 10),
        refused=(
            (
                lambda p: p.prompts_per_update > p.prompts_per_step,
                "prompts_per_update exceeds prompts_per_step.",
                "Lower it, or raise prompts_per_step.",
            ),
            (
                lambda p: p.prompts_per_step % p.prompts_per_update != 0,
                "prompts_per_update must divide prompts_per_step.",
                "Choose a divisor of prompts_per_step.",
            ),
            # A person's plan is filled up, or refused by the trainer that stops there; the sizes
            # that a sweep or a search makes up are those that need none of it.
            (
                lambda p: (left := rest(p, 1)) * np.ndim(left) != 0,
                "Of a sweep's sizes, sequences of one update (prompts_per_update × "
                "responses_per_prompt) must be a multiple of the GPUs that train; a plan of its "
                "own is filled up.",
                "Change prompts_per_update, responses_per_prompt or gpus.",
            ),
        ),
    )
    micro_batch_size: Count = field(
        1,
        "Micro-batch",
        "Sequences per GPU per training forward.",
        more="A smaller micro-batch with more gradient accumulation takes less memory and gives "
        "the same result.",
        unit="sequences per GPU",
        synonyms="batch per GPU, per device batch, gradient accumulation",
        page=("batch", 20),
        no_effect=(BY_BUDGET,),
        refused=(
            (
                lambda p: (
                    (p.max_tokens_per_micro_batch == 0)
                    & ((left := rest(p, p.micro_batch_size)) * np.ndim(left) != 0)
                ),
                "Of a sweep's sizes, micro_batch_size must divide the sequences of one update on "
                "each GPU; a plan of its own is filled up.",
                "Choose a divisor.",
            ),
        ),
    )
    logprob_micro_batch_size: Count = field(
        1,
        "Log-prob micro-batch",
        "Sequences per GPU per forward without gradient.",
        more="For the forwards that compute log-probs of the old policy and of the reference.",
        unit="sequences per GPU",
        page=("batch", 30),
        no_effect=(BY_BUDGET,),
    )
    max_tokens_per_micro_batch: CountOrNone = field(
        0,
        "Max tokens per micro-batch",
        "Token budget of a micro-batch (dynamic batching); 0: off.",
        more="Dynamic batching: a micro-batch takes as many sequences as fit in this budget.",
        empty="off",
        synonyms="dynamic batch, token budget, packing",
        page=("batch", 40),
        step=1024,
    )
    prompt_tokens: Tokens = field(
        512,
        "Prompt",
        "Longest prompt.",
        more="Memory is planned for the longest prompt.",
        label_in_sentences="Prompt length",
        unit="tokens",
        synonyms="prompt length, input length, context length",
        page=IN_SIGHT,
        step=128,
    )
    mean_prompt_tokens: TokensOrNone = field(
        0,
        "Mean prompt",
        "Mean tokens per prompt; 0: every prompt has the longest length.",
        more="As logged: prompt_length/mean (verl). The step time depends on this mean where "
        "prompts are not padded: in packed rows, and in an engine. Memory stays planned for the "
        "longest prompt.",
        label_in_sentences="Mean prompt length",
        unit="tokens",
        empty="same as max",
        page=("batch", 60),
        step=16,
        since=8,
        no_effect=(
            (
                "padded prompts are planned at the limit, and no rollout samples from shorter ones",
                lambda plan: plan.batch_shape == "padded" and plan.rollout == "none",
            ),
            ONE_LENGTH,
        ),
        refused=(
            (
                lambda p: p.mean_prompt_tokens > p.prompt_tokens,
                "Prompts cannot be longer on average than the longest (prompt_tokens).",
                "Lower mean_prompt_tokens, or raise prompt_tokens.",
            ),
            (
                lambda p: (
                    (p.mean_prompt_tokens > 0)
                    & (p.batch_shape == "full" or p.rollout == "in-graph")
                ),
                "With batch_shape full or rollout in-graph, all rows have one length.",
                "Set mean_prompt_tokens to 0, or batch_shape to padded or packed.",
            ),
        ),
    )
    response_tokens: Tokens = field(
        2048,
        "Response",
        "Longest response.",
        more="Memory is planned for the longest response.",
        label_in_sentences="Response length",
        unit="tokens",
        synonyms="response length, max tokens, completion length, context length, CoT, long tail, "
        "length histogram",
        page=IN_SIGHT,
        step=512,
    )
    validation_response_tokens: Tokens = field(
        2048,
        "Validation response",
        "Longest validation response.",
        unit="tokens",
        page=("batch", 70),
        step=512,
        no_effect=(
            ("nothing is generated", lambda plan: plan.rollout == "none"),
            ("nothing is validated", lambda plan: plan.eval_steps == 0),
        ),
    )
    turns: Count = field(
        1,
        "Turns and tool calls",
        "Turns of a conversation.",
        **not_yet(
            "turns",
            "Turns",
            "Set turns to 1 and response_tokens to the whole conversation's.",
        ),
        synonyms="turns, multi-turn, tools, tool calls, agent, agentic, environment, search, "
        "sandbox",
        alternative="Headroom plans one response per prompt, without turns or waiting for tools. "
        "Meanwhile set the response's length to the length of the whole conversation, tool output "
        "included, and Seconds per reward to the time that the tools take.",
        moves="a conversation would be longer than one response, so activations, KV cache and "
        "time would grow",
    )
    batch_shape: Literal["full", "padded", "packed"] = field(
        "padded",
        "Padding and packing",
        "Rows without padding, padded rows, or one packed row.",
        more="padded: shorter sequences are filled up and masked. packed: sequences stand in one "
        "row without filling. full: all have the same length.",
        synonyms="remove padding, packing, varlen, sequence packing",
        page=("batch", 50),
        refused=(
            (
                lambda p: p.batch_shape == "packed" and p.attention == "eager",
                "Packed rows need an attention kernel that keeps sequences apart.",
                "Set attention to flash or sdpa.",
            ),
        ),
    )
    length_distribution: Distribution = field(
        "",
        "Response lengths",
        "How long responses are; empty: all have the longest length.",
        no_effect=(ONE_LENGTH,),
        refused=(
            (
                lambda p: p.length_distribution != "" and p.batch_shape == "full",
                "With batch_shape full all rows have one length.",
                "Set batch_shape to padded or packed, or leave length_distribution empty.",
            ),
            (
                lambda p: p.length_distribution != "" and p.rollout == "in-graph",
                "Responses made in the training graph all have response_tokens tokens.",
                "Leave length_distribution empty.",
            ),
        ),
    )
