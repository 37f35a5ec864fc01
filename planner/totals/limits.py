"""What a plan can meet, each as a limit with its own word, and the verdict they come to.

A limit is a GPU by pool, a node's host RAM, an engine's start, the load. The headline is the worst
of them in at most :data:`MOST_WORDS` words; every other limit and fault has a line below it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from planner.footprint import Footprint, Limit, Phase, Verdict, Word, training_of, worst_of
from planner.numeric import Num, where
from planner.phases import engine
from planner.phases.scene import Scene
from planner.units import read_bytes, read_count, read_gib, read_listed
from planner.values.step_phases import LOAD, ROLLOUT

MARGIN = 0.9
"""A plan fits up to this share of the budget; above it is tight."""
MOST_WORDS = 20
"""Words of a headline."""
MOST_NAMED = 8
"""Of parts that are left out for one reason, those that are named."""
GPU, TRAINERS, ENGINES = "GPU", "training GPU", "rollout GPU"
CARDS = (GPU, TRAINERS, ENGINES)
HOST, START, LOADING = "host RAM of a node", "vLLM start", "loading"
LEADS: dict[Word, str] = {"fits": "Fits", "tight": "Tight", "out of memory": "Out of memory"}
WORDS: tuple[Word, ...] = ("fits", "tight", "out of memory")
SEVERITY = WORDS[::-1]


def word_of(device_bytes: int, high_bytes: int, budget_bytes: int) -> Word:
    """The verdict's word for a number of bytes and what it may be at most."""
    return WORDS[number_of_word(device_bytes, high_bytes, budget_bytes)]


def number_of_word(centre_bytes: Num, high_bytes: Num, budget_bytes: Num) -> Num:
    """Number of :data:`WORDS` for bytes and what they may be at most; arrays in a sweep."""
    full = (centre_bytes > MARGIN * budget_bytes) | (high_bytes > budget_bytes)
    return where(centre_bytes > budget_bytes, 2, where(full, 1, 0))


def worse(after: Word, before: Word) -> bool:
    """Whether a plan is judged worse than before, where no advice and no button leads."""
    return SEVERITY.index(after) < SEVERITY.index(before)


def limits_of(scene: Scene, phases: Sequence[Phase], retries: int = 0) -> tuple[Limit, ...]:
    """Every limit that is known of a plan, the worst first.

    Args:
        scene: of the plan.
        phases: its phases, of any rung.
        retries: how often a step gives cached memory back to stay within the card. A plan that
            fits only so is tight: the next larger batch may find nothing left to give back.
    """
    found = [*_cards(scene, phases, retries), *_host(scene, phases), *_start(scene)]
    return tuple(sorted(found, key=_place))


def _place(limit: Limit) -> tuple[int, bool, float]:
    """An engine that does not start comes first; where all is well, the GPU does."""
    severity = SEVERITY.index(limit.word)
    first = limit.name == START if not severity else limit.name in CARDS and limit.word == "fits"
    return severity, not first, -limit.bytes / max(limit.budget_bytes, 1)


def _cards(scene: Scene, phases: Sequence[Phase], retries: int) -> Iterator[Limit]:
    """The GPU of every pool, by the most that any of its phases takes, and that of the load."""
    ranks = dict.fromkeys(phase.rank for phase in phases)
    for rank in ranks:
        own = [phase for phase in phases if phase.rank == rank]
        pool = ENGINES if rank != "trainer" else TRAINERS if len(ranks) > 1 else GPU
        found = _card(scene, pool, own)
        if rank == "trainer" and retries and found.word == "fits":
            found = replace(found, word="tight")
        yield found
        loads = [phase for phase in own if phase.kind == LOAD and found.phase != LOAD.name]
        if loads:
            yield _card(scene, LOADING, loads)


def _card(scene: Scene, name: str, phases: Sequence[Phase]) -> Limit:
    sizes = max(phase.device_bytes for phase in phases), max(map(attrgetter("most_bytes"), phases))
    budget = scene.facts.budget_bytes
    return _limit(name, word_of(*sizes, budget), sizes, budget, worst_of(phases).name)


def _limit(name: str, word: Word, sizes: tuple[int, int], budget: int, phase: str) -> Limit:
    least, most = sizes
    return Limit(
        name=name,
        word=word,
        bytes=least,
        high_bytes=most,
        budget_bytes=budget,
        phase=phase,
        sentence=f"{name[0].upper()}{name[1:]}: {word}, {_figures(word, phase, budget, *sizes)}.",
    )


def _figures(word: Word, phase: str, budget: int, least: int, most: int) -> str:
    """What is needed of what there is; its upper bound where a ``tight`` one is above that."""
    said = f"{read_gib(least)} of {read_gib(budget)} GiB, during {phase}"
    return (
        f"{said}; upper bound {read_gib(most)} GiB" if word == "tight" and most > budget else said
    )


def _host(scene: Scene, phases: Sequence[Phase]) -> Iterator[Limit]:
    """The limit of a node's host RAM; none where the plan does not say how much a node has."""
    budget = int(scene.plan.host_ram_per_node)
    known = [phase for phase in phases if phase.host_bytes is not None]
    if not budget or not known:
        return
    worst = max(known, key=attrgetter("host_bytes"))
    sizes = worst.host_bytes or 0, max(phase.host_high_bytes or 0 for phase in known)
    found = _limit(HOST, word_of(*sizes, budget), sizes, budget, worst.name)
    if found.word == "out of memory":
        sentence = (
            f"A node's host RAM of {read_gib(budget)} GiB is too small: {worst.name} needs "
            f"{read_gib(found.bytes)} GiB; offload less, or take nodes with more RAM."
        )
        found = replace(found, sentence=sentence)
    yield found


def _start(scene: Scene) -> Iterator[Limit]:
    """What an engine reserves, against what it cannot start without."""
    plan = scene.plan
    if not plan.rollout.startswith("vllm"):
        return
    share, short = int(engine.share_bytes(scene)), int(engine.shortfall_bytes(scene))
    if short > 0:
        sentence = (
            f"The {read_gib(share)} GiB that vLLM reserves are {read_bytes(short)} too few for its "
            "weights, its working memory and one full-length sequence; raise "
            "gpu_memory_utilization or rollout_tensor_parallel."
        )
    else:
        holds = read_count(int(engine.concurrent_sequences(scene)), "full-length sequence")
        apart = " of each of its own GPUs" if plan.rollout == "vllm-separate" else ""
        sentence = (
            f"vLLM reserves {read_gib(share)} GiB{apart} (gpu_memory_utilization "
            f"{plan.gpu_memory_utilization:.3g}) and can hold {holds}."
        )
    needed = share + short if short > 0 else int(engine.needed_bytes(scene))
    yield Limit(
        name=START,
        word="out of memory" if short > 0 else "fits",
        bytes=needed,
        high_bytes=needed,
        budget_bytes=share,
        phase=ROLLOUT.name,
        sentence=sentence,
    )


def blocking(limits: Iterable[Limit]) -> Iterator[str]:
    """Limits that no smaller peak on a GPU mends, as sentences that begin small."""
    for one in limits:
        if one.word == "out of memory" and one.name in (HOST, START):
            yield f"{one.sentence[0].lower()}{one.sentence[1:]}"


def verdict_of(
    limits: Sequence[Limit], faults: Sequence[str], phases: Sequence[Phase], retries: int = 0
) -> Verdict:
    """The verdict of limits, the worst first, and of faults beside them.

    Args:
        limits: as :func:`limits_of` gives them.
        faults: why a run trains nothing whatever it needs, as sentences that begin small.
        phases: the plan's phases.
        retries: as for :func:`limits_of`.
    """
    first, *others = limits
    faulty = bool(faults) and first.name != START
    said = first.name in CARDS and not faulty
    return Verdict(
        word="out of memory" if faults else first.word,
        sentence=_does_not_run(faults[0]) if faulty else _headline(first),
        limits=tuple(limits),
        lines=(
            *(one.sentence for one in (others if said else limits)),
            *_beside(limits, phases, retries),
            *(f"{each[0].upper()}{each[1:]}" for each in faults),
        ),
    )


def _headline(limit: Limit) -> str:
    if limit.name == START:
        needs, share = read_gib(limit.bytes), read_gib(limit.budget_bytes)
        return f"Does not start. vLLM needs {needs} GiB and may take {share} GiB."
    of = {GPU: "Peak", TRAINERS: "Training GPU: peak", ENGINES: "Rollout GPU: peak"}
    what = of.get(limit.name, "A node's host RAM:")
    sizes = limit.budget_bytes, limit.bytes, limit.high_bytes
    figures = _figures(limit.word, limit.phase, *sizes)
    doubted = limit.word == "tight" and limit.high_bytes > limit.budget_bytes
    lead = f"{LEADS[limit.word]}, may not fit" if doubted else LEADS[limit.word]
    return f"{lead}. {what} {figures}."


def _does_not_run(fault: str) -> str:
    """The first clause of a fault, as long as a headline may be."""
    words = fault.partition(";")[0].partition(":")[0].rstrip(".").split()
    clause = " ".join(words[: MOST_WORDS - 3])
    return f"Does not run. {clause[0].upper()}{clause[1:]}."


def _beside(limits: Sequence[Limit], phases: Sequence[Phase], retries: int) -> Iterator[str]:
    """What peaks do not show: training without the engine, an allocator short of room."""
    training = training_of(phases)
    cards = [limit for limit in limits if limit.name in CARDS]
    told = training.training_bytes in [card.bytes for card in cards]
    if not told and any(limit.name == START for limit in limits):
        needed = read_gib(training.training_bytes)
        yield f"Training peaks at {needed} GiB, during {training.name}."
    if retries and all(card.bytes <= card.budget_bytes for card in cards):
        times = read_count(retries, "time")
        yield f"To fit, the allocator frees its cached memory {times} a step."


def incomplete(footprint: Footprint, named: Sequence[str], moves: Sequence[str]) -> Footprint:
    """The footprint of what is left of a plan, which is no answer to the whole of it.

    Args:
        footprint: of the rest.
        named: what is left out, by name.
        moves: which way each would move the figures, without a full stop.
    """
    alike: dict[str, list[str]] = {}
    for name, moved in zip(named, moves, strict=True):
        alike.setdefault(moved, []).append(name)
    told = [f"{_left_out(names, MOST_NAMED)}: {moved}" for moved, names in alike.items()]
    return replace(
        footprint,
        assumptions=(*told, *footprint.assumptions),
        verdict=of_the_rest(footprint.verdict, named),
    )


def of_the_rest(verdict: Verdict, named: Sequence[str]) -> Verdict:
    """The verdict of a plan of which something that is ``named`` is left out: no figure leads."""
    lead = _left_out(named, 2, MOST_WORDS - 4)
    first = verdict.limits[0].sentence
    return replace(
        verdict,
        incomplete=True,
        sentence=f"Incomplete. {lead[0].upper()}{lead[1:]}.",
        lines=verdict.lines if first in verdict.lines else (first, *verdict.lines),
    )


def _left_out(named: Sequence[str], most: int, words: int | None = None) -> str:
    """What is left out: the first ``most`` by name, in so many words."""
    more = len(named) - most
    shown = read_listed([*named[:most], *([f"{more} more"] if more > 0 else [])])
    cut = " ".join(shown.split()[:words])
    return f"{cut} {'is' if len(named) == 1 else 'are'} left out"
