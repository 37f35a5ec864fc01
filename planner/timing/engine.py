"""Seconds of a rollout, by cause: its prompts, its steps at full load, and what waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from planner.formulas import decoding as causes
from planner.formulas.compute import memory_rates
from planner.formulas.duration import Rate
from planner.kernels import tables_of
from planner.numeric import Num, maximum, minimum
from planner.phases.phase import Decoding
from planner.phases.scene import Scene
from planner.term import TimeTerm
from planner.timing import look_ups, rollout
from planner.timing.engine_kernels import Parts
from planner.timing.engine_step import Generator
from planner.timing.passing import Passing
from planner.timing.rollout import Stretch

Terms = tuple[TimeTerm, ...]
Pieces = tuple[tuple[Stretch, Num], ...]


def decoding(scene: Scene, row: Decoding) -> Terms | None:
    """Every response of a step, token by token; None when a peak of the card is unknown."""
    it = Passing(scene=scene, row=row)
    generator = Generator(
        arch=row.role.arch,
        gpu=scene.facts.gpu,
        dtype=scene.plan.dtype,
        weights="fp8" if row.quantized else "",
        tensor_parallel=row.tensor_parallel,
        expert_parallel=row.expert_parallel,
        kv_value_bytes=row.kv_value_bytes,
        engine=row.engine,
        eager=row.eager,
        kernels=it.kernels,
        async_scheduling=row.async_scheduling,
    )
    found = _Rollout(scene, row, generator)
    prompts = found.prompts()
    steps = found.steps()
    if prompts is None or steps is None:
        return None
    return (*prompts, *steps, *found.rewards())


class _Rollout:
    """One engine's share of a rollout; the terms of its time."""

    def __init__(self, scene: Scene, row: Decoding, generator: Generator) -> None:
        self.scene, self.row, self.generator = scene, row, generator
        tables = tables_of(generator.gpu)
        self.words = tables.words if tables and generator.gpu.speeds is None else ""
        self.group = minimum(row.group, row.sequences)
        self.held = rollout.held(row.lengths, row.prompt_tokens, self.group)
        self.at_once = self._at_once(self.held.mean)

    def _at_once(self, each: Num) -> Num:
        row = self.row
        return rollout.running(row.sequences, row.max_num_seqs, row.cache_tokens, each)

    def _term(self, rate: Rate, **inputs: Any) -> Iterator[TimeTerm]:
        """The term, unless it takes no time."""
        words = self.words if rate.source == causes.KERNELS else ""
        term = rate.term(self.row.role.name, evidence=words, **inputs)
        if not isinstance(term.seconds, (int, float)) or term.seconds:
            yield term

    def prompts(self) -> Terms | None:
        """Prefill of all prompts."""
        row, generator = self.row, self.generator
        tokens = rollout.prefilled_tokens(row.sequences, row.prompt_tokens, self.group)
        at_once = minimum(tokens, row.chunk_tokens)
        passed = generator.prefill(at_once)
        prompts = maximum(at_once // row.prompt_tokens, 1)
        attended = generator.prefill_attention(prompts, row.prompt_tokens)
        if passed is None or attended is None:
            return None
        seconds, launches = passed
        passes = row.rounds * tokens / at_once
        own = row.sequences / self.group
        self.pass_tokens = at_once
        self.token_seconds = maximum(seconds, launches) / at_once
        return (
            *self._term(
                causes.PREFILL,
                passes=passes,
                pass_seconds=seconds,
                launch_seconds=launches,
                look_ups=(look_ups.prefill, generator, at_once, passes),
            ),
            *self._term(
                causes.PREFILL_ATTENTION,
                passes=row.rounds * maximum(own / prompts, 1),
                pass_seconds=attended,
                look_ups=(look_ups.prefill_attention, generator, prompts, row.prompt_tokens),
            ),
        )

    def steps(self) -> Terms | None:
        """Decoding, until the longest response of any engine ends."""
        row, generator = self.row, self.generator
        sizes = (row.lengths, row.prompt_tokens, row.sequences)
        busy = rollout.full_load(*sizes, self.at_once)
        if row.engine == "hf":
            # The pass over the prompts has answered the first token.
            busy = busy._replace(steps=busy.steps - 1)
        parts = generator.parts(generator.rows(self.at_once))
        attended = generator.attention(busy.sequences, busy.context_tokens)
        if parts is None or attended is None:
            return None
        copied = self._copied(busy)
        kernels = sum(parts) + attended + copied
        beside = generator.beside(kernels, self.at_once)
        each = causes.STEP(**beside)
        pieces = self._pieces(each)
        seconds = sum(one.summed(took) for one, took in pieces)
        busy_seconds = busy.steps * each
        self.pieces, self.busy_seconds = pieces, busy_seconds
        return (
            *self._at_full_load(busy, parts, attended),
            *self._term(causes.HOST, steps=row.rounds * busy.steps, **beside),
            *self._term(
                causes.LONGEST,
                decoding_seconds=row.rounds * seconds,
                busy_seconds=row.rounds * busy_seconds,
                look_ups=(look_ups.longest, generator, look_ups.plain(pieces), row.rounds),
            ),
            *self._preempted(),
        )

    def _at_full_load(self, busy: Stretch, parts: Parts, attended: Num) -> Iterator[TimeTerm]:
        steps, generator = self.row.rounds * busy.steps, self.generator
        rows = generator.rows(self.at_once)
        yield from self._term(
            causes.PRODUCTS,
            steps=steps,
            step_seconds=parts.products,
            look_ups=(look_ups.decoding, generator, rows),
        )
        of = busy.sequences, busy.context_tokens
        yield from self._term(
            causes.ATTENTION,
            steps=steps,
            step_seconds=attended,
            look_ups=(look_ups.decode_attention, generator, *of),
        )
        if self.row.engine == "hf":
            yield from self._term(causes.COPIED_CACHE, steps=steps, **self._cache(busy))
        yield from self._term(causes.SMALL, steps=steps, step_seconds=parts.small)
        yield from self._term(
            causes.HEAD,
            steps=steps,
            head_seconds=parts.head,
            sampler_seconds=parts.sampler,
            look_ups=(look_ups.head, generator, rows),
        )
        if self.row.tensor_parallel > 1:
            yield from self._term(causes.REDUCTIONS, steps=steps, step_seconds=parts.reductions)

    def _pieces(self, full: Num) -> Pieces:
        """What is really decoded, at the sequences that are alive, each with its seconds.

        ``full`` is a step's seconds while every place is filled.
        """
        row, equal = self.row, len(self.row.lengths.bins) == 1
        if row.engine == "hf":
            # Every row is computed until the longest of any GPU ends.
            steps = row.lengths.longest_of(row.sequences * row.engines) - 1
            context = row.prompt_tokens + (steps + 2) / 2
            whole = Stretch(self.at_once, steps, context)
            return ((whole, whole.steps * (full if equal else self._step(whole))),)
        sizes = (row.lengths, row.prompt_tokens, row.sequences)
        first, *others = rollout.stretches(*sizes, self.at_once, row.engines)
        # Until the last ones drain, every place is filled.
        filled = first.steps * (self._step(first) if first.along else full)
        return ((first, filled), *((one, one.steps * self._step(one)) for one in others))

    def _step(self, of: Stretch) -> Num:
        generator = self.generator
        parts = generator.parts(generator.rows(of.sequences))
        attended = generator.attention(of.sequences, of.context_tokens)
        assert parts is not None and attended is not None
        kernels = sum(parts) + attended + self._copied(of)
        return causes.STEP(**generator.beside(kernels, of.sequences))

    def _cache(self, of: Stretch) -> dict[str, Any]:
        """What transformers copies of its cache at every token."""
        arch = self.row.role.arch
        rates = memory_rates(self.generator.gpu)
        assert rates is not None
        return {
            "sequences": of.sequences,
            "tokens": of.context_tokens,
            "bytes_per_token": 2
            * arch.cache_layers
            * arch.kv_heads
            * arch.head_dim
            * self.row.kv_value_bytes,
            **rates,
        }

    def _copied(self, of: Stretch) -> Num:
        if self.row.engine != "hf":
            return 0.0
        return causes.COPIED_CACHE(steps=1, **self._cache(of))

    def rewards(self) -> Iterator[TimeTerm]:
        """What rules and other machines take to score what was generated."""
        plan, row = self.scene.plan, self.row
        if not plan.reward_seconds:
            return
        if "reward" in self.scene.framework.helpers and plan.reward != "model":
            each = plan.reward_seconds / plan.reward_concurrency
            behind = rollout.overdue(each, row.sequences, row.engines, self.pieces)
            yield from self._term(
                causes.REWARDS_LEFT,
                rounds=row.rounds,
                reward_seconds=plan.reward_seconds,
                behind_seconds=behind,
                queue_seconds=each * row.sequences * row.engines - self.busy_seconds,
            )
        else:
            yield from self._term(
                causes.REWARDS,
                responses=self.row.rewarded,
                concurrency=plan.reward_concurrency,
                reward_seconds=plan.reward_seconds,
            )

    def _preempted(self) -> Iterator[TimeTerm]:
        """Sequences beyond those that the cache holds at their mean length."""
        row = self.row
        if row.cache_tokens is None:
            return
        admitted = self._at_once(self.held.prompt)
        sequences = row.rounds * row.sequences * (1 - self.at_once / admitted)
        passes = sequences * self.held.mean / self.pass_tokens
        yield from self._term(
            causes.RECOMPUTED,
            sequences=sequences,
            tokens_each=self.held.mean,
            seconds_per_token=self.token_seconds,
            look_ups=(look_ups.prefill, self.generator, self.pass_tokens, passes),
        )
