"""What the layers of a decoder keep and pass in one setting, as polynomials.

For a setting (attention, rows, number formats, adapters) a shallow decoder body runs at six sizes,
with gradients and without; what its layers keep and what passes inside them are then polynomials in
rows and tokens, solved exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cache, partial
from itertools import product, starmap
from operator import itemgetter
from typing import Any

import torch
from torch import nn

from planner.catalog.measured_setting import MeasuredSetting, read_setting
from planner.dryrun.run.observation import Body, Moments, Observation, observe
from planner.dryrun.run.spot.lengths import Span, held_out
from planner.dryrun.run.tracker import Tracker
from planner.formulas.length_law import LAW, PLAIN, PROOF, Law, choose, error_of
from planner.formulas.polynomial import Polynomial, of_rank, through, through_ranks, value
from planner.plan import Plan
from planner.plan.methods import methods
from planner.steps import anatomy, models
from planner.steps.batch import Rows
from planner.steps.stage import DTYPES, Stage
from planner.values.loss_code import CROSS_ENTROPY

CARD = "h100-80gb"
"""Whose kernels run: SDPA's choice depends on the card."""
ROWS = (2, 3)
"""A single row lies in memory as others want it, and saves some operators a copy."""
GRID = tuple((rows, 2**power) for rows in (1, 4, 64, 1024) for power in range(4, 21))
"""Sizes at which an instant has to be the highest to be worth keeping."""
RANKS = (8, 16)
"""Of adapters: the size of every tensor is linear in their rank."""
GRID_RANKS = (1, 16, 64, 256, 1024)
DROPOUT = 0.1
"""Any share: masks are of one size."""
PACKED = 2
"""Sequences of a packed row, which differ in nothing but a few numbers."""

Measured = dict[str, Any]


def setting_plan(name: str) -> Plan:
    """Any plan with a setting's words; its model is not looked at."""
    asked = read_setting(name)
    return Plan(
        model="Qwen/Qwen2.5-0.5B",
        method=next(m.name for m in methods().values() if m.objective == CROSS_ENTROPY),
        gpu=CARD,
        gpus=1,
        sharding="none",
        attention=asked.attention,  # type: ignore[arg-type]
        batch_shape=asked.batch_shape,  # type: ignore[arg-type]
        dtype="fp32" if asked.precision == "fp32" else "bf16",
        master_dtype="fp32" if asked.precision == "autocast-bf16" else "none",
    )


def setting(
    build: Callable[[], nn.Module],
    stage: Stage,
    tracker: Tracker,
    name: str,
    places: Sequence[int],
    span: Span,
) -> Measured:
    """The polynomials of a model that is built in a world; ``places`` has each layer's kind.

    By the first law that meets lengths it was not solved from. Of adapters two ranks are looked
    at, each on a model of its own.
    """
    asked = read_setting(name)
    bodies = {rank: Body(_adapted(build(), asked, rank), tracker) for rank in _ranks(asked)}

    @cache
    def run(trains: bool, rank: int, rows: int, tokens: int) -> Observation:
        packed = asked.batch_shape == "packed"
        shape = (1, rows * tokens) if packed else (rows, tokens)
        ids = torch.zeros(shape, dtype=torch.int64, device=stage.device)
        mask = torch.ones_like(ids) if asked.batch_shape == "padded" else None
        numbers = torch.arange(shape[1], device=stage.device) % (shape[1] // PACKED)
        given = Rows(ids, mask, numbers.unsqueeze(0) if packed else None, rows).inputs()
        autocast = asked.autocast
        casting = stage.autocast(DTYPES["bf16"], enabled=True) if autocast else nullcontext()
        return observe(bodies[rank], given, trains=trains, casting=casting)

    # A packed row is one row, however long: its bytes depend on its tokens alone.
    counts = (1,) if asked.batch_shape == "packed" else ROWS
    rank, rows = min(bodies), counts[0]
    own = [sorted(set(places)).index(kind) for kind in places]
    for each in bodies:
        run.__wrapped__(True, each, rows, span.lengths[0])  # tables that a first run makes stay
    lengths: Iterable[int] = held_out(span, tracker)
    found: Measured = {}
    for trains in (True, False):
        read = partial(_read, places=places, trains=trains)
        seen: dict[int, list[int]] = {}
        for tokens in lengths:
            with suppress(Exception):  # longer rows than run here are not held to
                seen[tokens] = [*figures(read([run(trains, rank, rows, tokens)]), int, own)]
        lengths = list(seen)

        def solved(
            law: Law,
            loops: bool,
            trains: bool = trains,
            read: Callable[..., Measured] = read,
            seen: Mapping[int, list[int]] = seen,
        ) -> tuple[Measured, Mapping[int, float]]:
            sizes = law.solved_from(span.lengths)
            seconds = [int(law.second(size)) for size in sizes] if law.form != PLAIN else []
            through_all = _through(partial(through, sizes, seconds), counts, asked)
            highest = partial(
                _highest, through_all=through_all, law=law, ranked=rank > 0, loops=loops
            )
            runs = [run(trains, *size) for size in product(bodies, counts, sizes)]
            measured = read(runs, through_all, highest) | {LAW: list(law)}
            return measured, {
                tokens: error_of([*figures(measured, _at(law, rank, rows, tokens), own)], one)
                for tokens, one in seen.items()
            }

        best, proof = choose(starmap(solved, product(span.laws, (False, True))))
        found[f"{name}/{'all' if trains else 'none'}"] = best | {PROOF: list(proof)}
    return found


def _at(law: Law, rank: int, rows: int, tokens: int) -> Callable[[Polynomial], int]:
    second = law.second(tokens)
    return lambda one: int(value(of_rank(one, rank) if rank else one, rows, tokens, second))


def figures(
    measured: Measured, at: Callable[[Any], int], places: Sequence[int]
) -> Iterator[int]:
    """What a plan's peaks are made of, which a law is held to; ``at`` gives a part its bytes.

    The end of the model, what all layers keep, and the highest instants of any one.
    """
    beside = at(measured["before"]) + at(measured["standing"])
    yield beside + at(measured["after"]) + max(map(at, measured.get("norm", ())), default=0)
    kinds = measured["kinds"]
    yield sum(at(kinds[kind]["kept"]) for kind in places)
    for name in ("forward", "again", "backward"):
        yield beside + max(at(k["kept"]) + max(map(at, k.get(name, ())), default=0) for k in kinds)


def _ranks(asked: MeasuredSetting) -> tuple[int, ...]:
    return (0,) if asked.adapters is None else RANKS


def _adapted(model: nn.Module, asked: MeasuredSetting, rank: int) -> nn.Module:
    """The model, with adapters of a rank where the setting has some.

    The embeddings are made a leaf that gradients reach, as where layers are checkpointed: then the
    first layer is as any other.
    """
    if asked.adapters is None:
        return model
    dropout = DROPOUT if asked.adapters.drops else 0.0
    found = models.with_adapters(
        model, asked.adapters.modules, rank, dropout=dropout, fp32=asked.adapters.fp32
    )
    table = anatomy.embedding_of(models.causal(found))
    if table is None:
        raise ValueError("it has no table of embeddings that gradients could end at")
    table.register_forward_hook(lambda _, __, output: output.requires_grad_(True))
    return found.train()


Solve = Callable[[Sequence[int], Sequence[int]], Polynomial]
Through = Callable[[Sequence[int]], Polynomial]


def _through(solve: Solve, counts: Sequence[int], asked: MeasuredSetting) -> Through:
    """The polynomial of values by rank, then by rows, then by length."""

    def of_rows(values: Sequence[int]) -> Polynomial:
        half = len(values) // len(counts)
        return solve(values[:half], values[-half:])

    def of_ranks(values: Sequence[int]) -> Polynomial:
        half = len(values) // len(RANKS)
        return through_ranks(RANKS, of_rows(values[:half]), of_rows(values[half:]))

    return of_rows if asked.adapters is None else of_ranks


def _read(
    seen: Sequence[Observation],
    through_all: Callable[[Sequence[int]], Any] = itemgetter(0),
    highest: Callable[[Sequence[Moments]], list[Any]] = lambda seen: [max(seen[0].bytes)],
    *,
    places: Sequence[int],
    trains: bool,
) -> Measured:
    """The polynomials of one setting, from its runs at all ranks, rows and lengths.

    Of one run alone, and without the functions that solve, its bytes.
    """
    found: Measured = {
        "before": through_all([one.before for one in seen]),
        "standing": through_all([one.standing for one in seen]),
        "after": through_all([one.after for one in seen]),
        "held": seen[0].held,
        "kinds": [],
    }
    if trains:
        found["norm"] = highest([one.norm for one in seen if one.norm])
    for kind in sorted(set(places)):
        at = max(at for at, k in enumerate(places[:-1]) if not at or k == kind)
        entry: Measured = {
            "kept": through_all([one.kept[at] for one in seen]),
            "input_kept": seen[0].input_kept[at],
            "forward": highest([one.forward[at] for one in seen]),
        }
        if trains:
            for name in ("again", "backward", "made"):
                entry[name] = highest([getattr(one, name)[at] for one in seen])
        found["kinds"].append(entry)
    return found


def _highest(
    seen: Sequence[Moments], *, through_all: Through, law: Law, ranked: bool, loops: bool
) -> list[Polynomial]:
    """A polynomial for every instant that is the highest at some size.

    Runs of different sizes go through the same instants, except in a loop that takes a turn per
    chunk of tokens: what comes before and after it is compared instant by instant, and of
    ``loops`` themselves each run's highest instant, which need not be one instant.
    """
    before = _alike([one.shape for one in seen])
    after = _alike([one.shape[before:][::-1] for one in seen])
    places = [*range(before), *range(-after, 0)]
    instants = {through_all([one.bytes[at] for one in seen]) for at in places}
    if loops and any(len(one.bytes) > before + after for one in seen):
        turns = [one.bytes[before : len(one.bytes) - after] for one in seen]
        # A short run may hold no turn that the others do not: then whole runs are compared.
        whole = [one.bytes for one in seen]
        instants.add(through_all([max(each) for each in (turns if all(turns) else whole)]))
    winners = set()
    for rank in GRID_RANKS if ranked else (0,):
        at = {one: of_rank(one, rank) if ranked else one for one in sorted(instants)}
        winners |= {
            max(at, key=lambda one: value(at[one], rows, tokens, law.second(tokens)))
            for rows, tokens in GRID
        }
    return sorted(winners, reverse=True)


def _alike(shapes: Sequence[Sequence[str]]) -> int:
    """How many instants all runs begin with in common."""
    count = 0
    for instants in zip(*shapes, strict=False):
        if len(set(instants)) > 1:
            break
        count += 1
    return count
