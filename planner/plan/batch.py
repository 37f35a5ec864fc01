"""A step's batches, each explained by the others: prompts, sequences, updates, micro-batches."""

from __future__ import annotations

from planner.plan.fields import PlanFields as Plan
from planner.plan.lengths import dealt
from planner.plan.methods import method_of
from planner.units import read_count
from planner.values.dealing import data_parallel


def batch_words(plan: Plan) -> str:
    """``64 prompts × 8 responses = 512 sequences a step = 8 GPUs × 16 accumulation steps × 4 …``.

    Of anything with a plan's fields: where they do not divide, the words say so.
    """
    each, updates = plan.responses_per_prompt, -(-plan.prompts_per_step // plan.prompts_per_update)
    gpus, micro = data_parallel(plan), plan.micro_batch_size
    pairs = method_of(plan).texts_per_response > 1
    said = f"{read_count(plan.prompts_per_step * each, 'pair' if pairs else 'sequence')} a step"
    if each > 1:
        said = f"{read_count(plan.prompts_per_step, 'prompt')} × {each:,} responses = {said}"
    over = [read_count(updates, "update")] if updates > 1 else []
    over.append(read_count(gpus, "GPU"))
    if gpus < 1 or plan.prompts_per_step % plan.prompts_per_update:
        return f"{said}, which do not divide over {' and '.join(over)}"
    per_gpu, _ = dealt(plan)
    whole = per_gpu * gpus * updates
    filled = f", filled up to {whole:,}" if whole != plan.prompts_per_step * each else ""
    said = f"{said}{filled} = {' × '.join(over)}"
    if plan.max_tokens_per_micro_batch:
        return f"{said} × {per_gpu:,}, at most {plan.max_tokens_per_micro_batch:,} tokens at a time"
    rounds = "accumulation step" if plan.optimizer_step == "update" else "micro-batch"
    many = f"{rounds}es" if rounds.endswith("ch") else f"{rounds}s"
    count = per_gpu // micro
    return f"{said} × {count:,} {rounds if count == 1 else many} × {micro:,} per GPU"
