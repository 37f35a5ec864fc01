"""How a rollout passes: how many sequences decode in how many steps, behind how much context.

An engine keeps ``running`` sequences at work while any wait, as many as ``max_num_seqs`` and its
cache allow. Then the last ones decode until the longest of any engine ends: of ``n`` that start,
``n * S(t)`` are alive in step t. Equal lengths end together, in waves. Sizes may be arrays of a
sweep's open mesh; stretches of a distribution then stand along a first axis of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from planner.lengths import Alive, Lengths
from planner.numeric import Num, maximum, minimum, some, where

BLOCK_TOKENS = 16
"""Of one block of vLLM's cache; a prefix is shared by whole blocks, and its last token never."""
EDGES = (*(1.003 - 0.127 * place for place in range(8)), *(0.057 / 2**n for n in range(8)))
"""Shares alive between which stretches of a survival curve become one: eighths, then halves.

None is a round number, so that no rounding moves a share over an edge.
"""


class Stretch(NamedTuple):
    """Steps of decoding with so many sequences, each behind so much context on average."""

    sequences: Num
    steps: Num
    context_tokens: Num
    along: bool = False
    """Many stretches along the first axis."""
    unfinished: Num = 0.0
    """Responses of all engines that end with it, or after it."""

    def summed(self, seconds: Num) -> Num:
        """Seconds of all its stretches together, given those of each."""
        if not self.along:
            return seconds
        return seconds.sum(axis=0) if seconds.ndim > 1 else float(seconds.sum())


class Held(NamedTuple):
    """Tokens of the cache that one sequence takes: of the prompt, and of it all on average."""

    prompt: Num
    mean: Num


def shared_tokens(prompt_tokens: Num, group: Num) -> Num:
    """Tokens of a prompt that its group's responses share in the cache; 0 for a group of one."""
    whole = (prompt_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS
    return whole * minimum(group - 1, 1)


def prefilled_tokens(sequences: Num, prompt_tokens: Num, group: Num) -> Num:
    """Prompt tokens that an engine computes for so many sequences."""
    shared = shared_tokens(prompt_tokens, group)
    return sequences * (prompt_tokens - shared) + sequences / group * shared


def held(lengths: Lengths, prompt_tokens: Num, group: Num) -> Held:
    """Cache of one sequence while its whole group is at work."""
    shared = shared_tokens(prompt_tokens, group)
    prompt = prompt_tokens - shared + shared / group
    return Held(prompt, prompt + (lengths.attended + 1) / 2)


def running(sequences: Num, max_num_seqs: Num, cache_tokens: Num | None, each: Num) -> Num:
    """Sequences at work at once, at least 1; ``each`` takes so many tokens of the cache."""
    found = minimum(sequences, max_num_seqs)
    return found if cache_tokens is None else maximum(minimum(found, cache_tokens // each), 1)


def full_load(lengths: Lengths, prompt_tokens: Num, sequences: Num, at_once: Num) -> Stretch:
    """All tokens of a rollout as if every place were filled until the end."""
    context = prompt_tokens + (lengths.attended + 1) / 2
    return Stretch(at_once, sequences * lengths.mean / at_once, context)


def stretches(
    lengths: Lengths, prompt_tokens: Num, sequences: Num, at_once: Num, engines: Num
) -> tuple[Stretch, ...]:
    """What one engine really decodes, and waits for, in a step of ``engines`` alike."""
    if len(lengths.bins) == 1:
        return _waves(lengths.longest, prompt_tokens, sequences, at_once)
    refilled = full_load(lengths, prompt_tokens, sequences - at_once, at_once)
    last = _drain(lengths, prompt_tokens, at_once, engines)
    return (last,) if sequences is at_once else (refilled, last)


def _waves(tokens: Num, prompt_tokens: Num, sequences: Num, at_once: Num) -> tuple[Stretch, ...]:
    """Equal lengths: full waves, and what is left over."""
    context = prompt_tokens + (tokens + 1) / 2
    whole = sequences // at_once
    rest = sequences - whole * at_once
    first = Stretch(at_once, whole * tokens, context)
    if not some(rest):
        return (first,)
    return first, Stretch(maximum(rest, 1), minimum(rest, 1) * tokens, context)


def _drain(lengths: Lengths, prompt_tokens: Num, at_once: Num, engines: Num) -> Stretch:
    """From a full engine to the end of the longest response of any."""
    start, end, share = _columns(kept_stretches(lengths.survival), (prompt_tokens, at_once))
    with np.errstate(divide="ignore"):
        logs = np.log1p(-share)
    own = -np.expm1(at_once * logs)
    any_engine = -np.expm1(at_once * engines * logs)
    # Of those of its own, while it has any; an engine that has none waits with the others.
    alive = maximum(at_once * share / np.maximum(own, 1e-300), 1.0)
    context = prompt_tokens + (start + end + 1) / 2
    left = at_once * engines * share
    return Stretch(alive, (end - start) * any_engine, context, along=True, unfinished=left)


def overdue(
    each: Num, sequences: Num, engines: Num, pieces: Sequence[tuple[Stretch, Num]]
) -> Num:
    """By how many seconds rewards outlast decoding, from where they are the most behind.

    A response's takes ``each`` of all machines that make them, and can begin when the response has
    ended. ``pieces`` are the stretches that one engine decodes, with the seconds of one or of many
    along the first axis. Negative where decoding hides all that is known of.
    """
    (first, took), *later = pieces
    everything = each * sequences * engines
    if first.along:
        return maximum(everything - first.summed(took), _drained(each, first, took))
    if later and later[-1][0].along:
        # Places that are filled again end one by one, from the beginning.
        drain, alone = later[-1]
        whole = took + drain.summed(alone)
        return maximum(everything - whole, _drained(each, drain, alone))
    wave, rest = took / maximum(sequences // first.sequences, 1), sum(one for _, one in later)
    left = sequences % first.sequences
    return maximum(
        everything - (took - wave + rest),  # from the end of the first wave, of all,
        maximum(
            each * (first.sequences + left) * engines - rest,  # of the last whole one,
            each * where(left > 0, left, first.sequences) * engines,  # and of all
        ),
    )


def _drained(each: Num, of: Stretch, took: Num) -> Num:
    """The same of an engine whose last responses end."""
    after = took.sum(axis=0) - took.cumsum(axis=0)
    behind = each * of.unfinished - after
    return behind.max(axis=0) if behind.ndim > 1 else float(behind.max())


def kept_stretches(survival: tuple[Alive, ...]) -> tuple[Alive, ...]:
    """At most 17 stretches with the same tokens: neighbours with like shares become one.

    By their shares, which a cap leaves as they are: a plan and its row of a sweep keep the same.
    """
    if len(survival) == 1:
        return survival
    groups = groupby(survival, lambda one: sum(one.share_alive < edge for edge in EDGES))
    return tuple(_merged(list(parts)) for _, parts in groups)


def _merged(parts: list[Alive]) -> Alive:
    first, last = parts[0].from_tokens, parts[-1].to_tokens
    tokens = sum(one.share_alive * (one.to_tokens - one.from_tokens) for one in parts)
    return Alive(first, last, tokens / maximum(last - first, 1))


def _columns(kept: tuple[Alive, ...], beside: tuple[Num, ...]) -> tuple[np.ndarray, ...]:
    """Starts, ends and shares along a first axis, before the axes of the mesh beside them."""
    axes = max(np.ndim(one) for one in (*beside, kept[-1].to_tokens))

    def column(values: list[Num]) -> np.ndarray:
        found = np.stack(np.broadcast_arrays(*values)).astype(np.float64)
        return found if found.ndim > 1 else found.reshape(-1, *[1] * axes)

    return tuple(column([one[place] for one in kept]) for place in range(3))
