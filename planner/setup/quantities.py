"""Numbers that follow from a plan: GPUs that train, sequences, micro-batches, tokens.

Works on a plan and on a sweep's grid alike (see :mod:`planner.numeric`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from planner.lengths import Lengths
from planner.numeric import Num, ceil_div, maximum, minimum, where
from planner.plan import Plan
from planner.plan.frameworks import framework_named
from planner.plan.lengths import dealt, lengths_of, prompt_of, says_prompts
from planner.plan.methods import method_of
from planner.values.dealing import data_parallel
from planner.values.dtypes import BYTES
from planner.values.sharding import sharding_of

VECTOR_FIELDS: tuple[str, ...] = (
    "gpus",
    "prompts_per_step",
    "responses_per_prompt",
    "prompts_per_update",
    "micro_batch_size",
    "logprob_micro_batch_size",
    "max_tokens_per_micro_batch",
    "prompt_tokens",
    "mean_prompt_tokens",
    "response_tokens",
    "validation_response_tokens",
    "max_num_seqs",
    "max_num_batched_tokens",
    "gpu_memory_utilization",
)
"""Fields that may be arrays in a sweep: sizes that decide no branch of any formula."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """What all forwards of one kind compute in a step on one GPU: what takes time.

    Rows have the lengths that are expected: a padded row that of the longest response beside it and
    of the longest prompt, a packed one its own. Memory is planned for the longest there can be.
    """

    tokens: Num
    """Positions that run through the layers, padding included."""
    row_tokens: Num
    """Of equally long rows in which attention meets as many pairs."""
    response_tokens: Num
    """Of one row: those that a loss may score."""
    rounds: Num
    """Forwards in a step."""
    imbalance: Num = 1
    """Positions on the GPU with the most, which the others wait for, over those on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantities:
    """What one optimizer update means for one GPU.

    A sequence is one response behind its prompt; DPO's pair is two of them. ``response_tokens`` and
    ``row_tokens`` are those of the longest response and row there can be, for which memory is
    planned; ``training`` and ``scoring`` are what time is planned for. An update ends with an
    optimizer step, which may follow every micro-batch; ``micro_rows`` and ``micro_row_tokens``
    describe one training forward (a packed micro-batch is one long row); ``micro_batches`` is the
    number of forwards per update (gradient accumulation); ``micro_alone`` is 1 where each is one
    sequence without padding, which no mask keeps apart from others; the ``logprob_`` fields say
    the same of a forward without gradient.
    """

    training_gpus: Num
    data_parallel: Num
    shards: Num
    response_tokens: Num
    row_tokens: Num
    sequences_per_step: Num
    sequences_per_gpu_step: Num
    sequences_per_gpu_update: Num
    updates_per_step: Num
    micro_rows: Num
    micro_row_tokens: Num
    micro_sequences: Num
    micro_alone: Num
    micro_batches: Num
    logprob_rows: Num
    logprob_row_tokens: Num
    logprob_sequences: Num
    logprob_alone: Num
    training: Passes
    scoring: Passes
    optimizer_rounds: Num
    compute_bytes: int
    master_bytes: int
    gradient_bytes: int
    reduce_bytes: int

    @property
    def micro_tokens(self) -> Num:
        """Token positions of one training forward on one GPU."""
        return self.micro_rows * self.micro_row_tokens

    @property
    def logprob_tokens(self) -> Num:
        """Token positions of one forward without gradient on one GPU."""
        return self.logprob_rows * self.logprob_row_tokens


def quantities(plan: Plan) -> Quantities:
    """Quantities of a plan (or of anything with its fields)."""
    # None are left where a sweep's counts reach down to the engine's own: that is no plan.
    ranks = maximum(data_parallel(plan), 1)
    shards = (
        1
        if sharding_of(plan).replicated
        else where(plan.shard_size == 0, ranks, plan.shard_size)
    )
    lengths = lengths_of(plan)
    row_tokens = plan.prompt_tokens + lengths.longest
    # Chosen and rejected responses run in one forward; a micro-batch holds whole pairs.
    pair = method_of(plan).texts_per_response
    units = plan.prompts_per_step * plan.responses_per_prompt
    per_update, per_step = dealt(plan)
    micro = _micro_batch(plan, plan.micro_batch_size, row_tokens, per_update, pair)
    logprob = _micro_batch(plan, plan.logprob_micro_batch_size, row_tokens, per_step, pair)
    updates = ceil_div(plan.prompts_per_step, plan.prompts_per_update)
    micro_batches = ceil_div(per_update * pair, micro[2])
    accumulates = plan.optimizer_step == "update"
    training = _passes(
        plan,
        lengths,
        gpus=ranks,
        sequences=per_step * pair,
        between=per_update * pair,
        micro=micro[2],
        rounds=updates * micro_batches,
    )
    scoring = _passes(
        plan,
        lengths,
        gpus=ranks,
        sequences=per_step * pair,
        between=per_step * pair,
        micro=logprob[2],
        rounds=ceil_div(per_step * pair, logprob[2]),
    )
    compute_bytes = BYTES[plan.dtype]
    return Quantities(
        training_gpus=maximum(plan.gpus - plan.rollout_gpus, 1),
        data_parallel=ranks,
        shards=shards,
        response_tokens=lengths.longest,
        row_tokens=row_tokens,
        sequences_per_step=units * pair,
        sequences_per_gpu_step=per_step * pair,
        sequences_per_gpu_update=per_update * pair if accumulates else micro[2],
        updates_per_step=updates if accumulates else updates * micro_batches,
        micro_rows=micro[0],
        micro_row_tokens=micro[1],
        micro_sequences=micro[2],
        micro_alone=_alone(plan, plan.micro_batch_size, per_update, pair, micro[2]),
        micro_batches=micro_batches if accumulates else 1,
        logprob_rows=logprob[0],
        logprob_row_tokens=logprob[1],
        logprob_sequences=logprob[2],
        logprob_alone=_alone(plan, plan.logprob_micro_batch_size, per_step, pair, logprob[2]),
        training=training,
        scoring=scoring,
        optimizer_rounds=updates if accumulates else training.rounds,
        compute_bytes=compute_bytes,
        master_bytes=compute_bytes if plan.master_dtype == "none" else 4,
        gradient_bytes=BYTES[plan.gradient_dtype],
        reduce_bytes=BYTES[plan.reduce_dtype],
    )


def _micro_batch(
    plan: Plan, size: Num, row_tokens: Num, available: Num, pair: int
) -> tuple[Num, Num, Num]:
    """Rows, tokens per row and sequences of one forward of ``size`` units of ``pair`` rows.

    A token budget packs as many capped rows as it holds, but at least one unit; the
    memory is that of the whole budget, since real rows are shorter and fill it.
    Without a budget ``available`` is not looked at: a rule keeps ``size`` below it, and
    a sweep's sizes stay on the axes they depend on.
    """
    budget = plan.max_tokens_per_micro_batch
    packed = plan.batch_shape == "packed"
    unit_tokens = pair * row_tokens
    if not isinstance(budget, np.ndarray) and budget == 0:
        rows = size * pair
        return (1, size * unit_tokens, rows) if packed else (rows, row_tokens, rows)
    by_budget = maximum(minimum(budget // unit_tokens, available), 1)
    sequences = where(budget > 0, by_budget, size) * pair
    if not packed:
        return sequences, row_tokens, sequences
    filled = minimum(maximum(budget, unit_tokens), unit_tokens * available)
    return 1, where(budget > 0, filled, size * unit_tokens), sequences


def _alone(plan: Plan, size: Num, available: Num, pair: int, sequences: Num) -> Num:
    """1 where a forward of ``size`` units of ``pair`` rows is one sequence without padding, else 0.

    Shorter sequences share a token budget of whatever size, and a row that was packed of a data
    set's texts, unless there is only one. A padded row is alone where it is padded to its own end.
    """
    if plan.batch_shape == "packed" and method_of(plan).generates:
        sequences = where(plan.max_tokens_per_micro_batch > 0, available, size) * pair
    elif plan.batch_shape != "padded" or framework_named(plan.framework).pads_to != "micro-batch":
        return 0
    return where(sequences == 1, 1, 0)


def _passes(
    plan: Plan,
    lengths: Lengths,
    *,
    gpus: Num,
    sequences: Num,
    between: Num,
    micro: Num,
    rounds: Num,
) -> Passes:
    """One kind of forward over a GPU's ``sequences`` of a step.

    ``between`` are those between two updates, ``micro`` those of a forward at the longest, in
    which the step would take ``rounds`` of them.
    """
    packed = plan.batch_shape == "packed"
    # A padded prompt is as long as the longest beside it, which no mean says: the cap.
    prompt = prompt_of(plan) if packed else plan.prompt_tokens
    rows = lengths.after(prompt)
    if len(lengths.bins) == 1 and not (packed and says_prompts(plan)):
        return Passes(
            tokens=sequences * rows.longest,
            row_tokens=rows.longest,
            response_tokens=lengths.longest,
            rounds=rounds,
        )
    code, budget = framework_named(plan.framework), plan.max_tokens_per_micro_batch
    dealt = 1 if code.balances_tokens else gpus
    if isinstance(budget, np.ndarray) or budget > 0:
        # As verl's rearrange_micro_batches: as few as hold the tokens of the GPU with the most.
        holds = maximum(budget, 1)
        most = rows.most_of(between, dealt)
        few = minimum(maximum(np.ceil(most / holds), 1.0), between)
        rounds = where(budget > 0, sequences / between * few, rounds)
        micro = where(budget > 0, between / few, micro)
    # What a GPU computes until it waits for the others: a forward that gathers weights, or all.
    meets = sharding_of(plan).gathers
    if packed:
        return Passes(
            tokens=sequences * rows.mean,
            row_tokens=rows.attended,
            response_tokens=lengths.mean,
            rounds=rounds,
            imbalance=_slowest(rows, micro if meets else between, dealt),
        )
    together = sequences if pads_rollout(plan) else micro
    longest = lengths.longest_in(together)
    whole = longest.after(prompt)
    imbalance = lengths.longest_in(together * dealt).after(prompt).mean / whole.mean
    if not (meets or together is sequences):
        imbalance = _slowest(whole, between / micro, dealt)
    return Passes(
        tokens=sequences * whole.mean,
        row_tokens=whole.attended,
        response_tokens=longest.mean,
        rounds=rounds,
        imbalance=imbalance,
    )


def pads_rollout(plan: Plan) -> bool:
    """Whether rows are padded to the longest response that their GPU sampled in the step."""
    return framework_named(plan.framework).pads_to == "rollout" and method_of(plan).generates


def _slowest(rows: Lengths, count: Num, gpus: Num) -> Num:
    return rows.most_of(count, gpus) / (count * rows.mean)
