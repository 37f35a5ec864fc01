"""GRADE's rows of the table of work: every generated token is a forward of the whole row.

Positions are summed over the unrolled steps. Below what training reaches of the card's peak the
host's launches set the time, since each step launches every kernel anew.
"""

from __future__ import annotations

from dataclasses import replace

from planner.methods.grade.fields import own
from planner.methods.grade.reward_graph import judge
from planner.numeric import Num
from planner.phases.phase import Decoding, Work
from planner.phases.scene import Scene
from planner.plan.lengths import lengths_of


def forward(scene: Scene) -> tuple[Work, ...]:
    """Generation, reference and reward over all micro-batches of a step."""
    return (_unrolled(scene), *_reference(scene), _reward(scene))


def backward(scene: Scene) -> tuple[Work, ...]:
    """The backward, with what checkpoints of layers and of steps run again."""
    plan, all_steps = scene.plan, _unrolled(scene)
    again = (plan.gradient_checkpointing == "full") + own(plan).grade_step_checkpointing
    back = replace(
        all_steps,
        run="backward",
        recomputed=again,
        gathered=False,
    )
    return (back, replace(_reward(scene), run="backward"))


def _unrolled(scene: Scene) -> Work:
    """All unrolled forwards; the head meets the last position of each step only.

    Attention over rows of ``row_tokens`` has as many pairs as over the growing rows: the sum of
    the squared lengths over the sum of the lengths.
    """
    plan, q, role = scene.plan, scene.q, scene.policy
    first, steps = 1.0 * plan.prompt_tokens, 1.0 * plan.response_tokens
    lengths = steps * first + steps * (steps - 1) / 2
    squares = steps * first**2 + first * steps * (steps - 1)
    squares = squares + (steps - 1) * steps * (2 * steps - 1) / 6
    passes: Num = q.micro_batches * q.updates_per_step
    return Work(
        role=role,
        run="forward",
        tokens=q.sequences_per_gpu_step * lengths,
        row_tokens=squares / lengths,
        scored_tokens=q.sequences_per_gpu_step * plan.response_tokens,
        rounds=passes,
        layer_runs=role.arch.layers * plan.response_tokens * passes,
    )


def _reference(scene: Scene) -> tuple[Work, ...]:
    """Its forwards, without gradient: of every prefix, or with a cache of what is new.

    Either way each token's kernels are launched, so a cache saves the seconds of products only
    where these take longer than launching. The last token is never read.
    """
    plan, q = scene.plan, scene.q
    role = scene.reference or scene.policy.as_reference()
    if own(plan).grade_kl == "none":
        return ()
    if not own(plan).grade_reference_cache:
        return (replace(_unrolled(scene), role=role, run="score"),)
    read = plan.prompt_tokens + plan.response_tokens - 1
    return (
        Decoding(
            role=role,
            run="decode",
            tokens=q.sequences_per_gpu_step * read,
            row_tokens=read,
            scored_tokens=q.sequences_per_gpu_step * plan.response_tokens,
            rounds=q.micro_batches * q.updates_per_step,
            sequences=q.micro_rows,
            prompt_tokens=plan.prompt_tokens,
            response_tokens=plan.response_tokens,
            lengths=lengths_of(plan),
            engine="hf",
            max_num_seqs=q.micro_rows,
            kv_value_bytes=q.compute_bytes,
            chunk_tokens=q.micro_rows * plan.prompt_tokens,
        ),
    )


def _reward(scene: Scene) -> Work:
    response = scene.plan.response_tokens
    return Work(
        role=judge(scene),
        run="forward",
        tokens=1.0 * scene.q.sequences_per_gpu_step * response,
        row_tokens=response,
    )
