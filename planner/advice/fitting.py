"""Make it fit: the fewest edits after which a plan fits, those first that keep what was asked for.

Single edits are estimated; what several do together is foreseen as the sum of what each does to
each phase, and only the best of those sums are estimated. So a sum decides what is tried, never
what is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from math import inf
from typing import NamedTuple

import numpy as np

from planner.advice import share
from planner.advice.edits import KEEPS, KINDS, Edit, Kind, edits, without_use
from planner.advice.idle import BETWEEN
from planner.advice.outcome import WORTH_BYTES, Outcome
from planner.advice.suggestion import Suggestion, Trying

AT_ONCE = 4
"""Most edits that are made together in one round."""
USEFUL = 14
"""Most single edits that combinations are made of."""
VERIFIED = 8
"""Most foreseen combinations that are estimated in one round."""
ROUNDS = 3
ASKED: Mapping[Kind, float] = {"numbers": 1.1, "training": 100.0}
"""How many times a step's time each such edit must save: fewer bits are given for a tenth of it,
and what is trained only where nothing else helps."""
EACH = 1.02
"""A field that stays as it is, is worth a fiftieth of a step's time."""

OF_THE_ENGINE = frozenset(
    (
        "gpu_memory_utilization",
        "kv_cache_dtype",
        "max_num_batched_tokens",
        "rollout_tensor_parallel",
    )
)
"""Fields of an engine's own, which change no phase but those in which it has something there."""
TRAINING: tuple[Kind, ...] = (*KEEPS, "training")
MORE: tuple[Kind, ...] = (*KEEPS, "GPUs")


def singles(
    trying: Trying,
    base: tuple[Edit, ...] = (),
    kinds: Sequence[Kind] = KINDS,
    *,
    helping: bool = False,
) -> list[Suggestion]:
    """Every edit of these kinds of the plan after ``base``, estimated.

    Fields that change nothing in a plan are left alone; with ``helping`` also those that lower no
    phase that is over the card.
    """
    made = trying.edited(*base) if base else None
    start = trying.before if made is None else made.after
    without = without_use(start.plan)
    found = [
        trying.edited(*base, edit)
        for edit in edits(start.plan)
        if edit.kind in kinds
        and not edit.changes.keys() <= without
        and not (helping and _elsewhere(edit, start))
    ]
    return [one for one in found if one is not None]


def _elsewhere(edit: Edit, start: Outcome) -> bool:
    """Whether an edit changes nothing worth a sentence in the phases that are over the card.

    So are an engine's fields where it sleeps; the log-prob micro-batch in an update; and in the
    update of the only model that is trained, whether its state waits elsewhere between phases.
    """
    if start.blockers:
        return False
    over = [one for one in start.levels if one.needs_bytes > start.budget_bytes]
    kinds = {one.kind.published for one in over}
    if edit.changes.keys() <= {"logprob_micro_batch_size"}:
        return "log-probs" not in kinds
    if edit.changes.keys() <= {"offload"} and edit.changes["offload"].endswith(BETWEEN):
        return kinds <= {"update"} and start.plan.critic != "separate"
    if not edit.changes.keys() <= OF_THE_ENGINE:
        return False
    awake = any(one.pool_bytes or one.kind.moment.engine != "asleep" for one in over)
    return not awake and share.lowered_asleep_bytes(start.plan, edit) < WORTH_BYTES


def ways(trying: Trying) -> tuple[Suggestion, ...]:
    """Ways to make the plan fit, best first; of those that do not, the closest to it.

    First what keeps weights, responses and GPUs as they are; where that does not fit, also what
    changes what is trained, and what takes more GPUs.
    """
    begun = _begun(trying, KINDS)
    if begun is None:
        return ()
    base, made = begun
    kept = _search(trying, base, made, KEEPS)
    found = [kept, *(() if _fits(kept) else _others(trying, base))]
    each = {tuple(sorted(one.changes.items(), key=str)): one for one in found if one is not None}
    return tuple(sorted(each.values(), key=lambda one: (not one.fits, not one.keeps)))


def kept(trying: Trying) -> Suggestion | None:
    """The best way that keeps weights, responses and GPUs; None where none of those fits."""
    begun = _begun(trying, KEEPS)
    found = None if begun is None else _search(trying, *begun, KEEPS)
    return found if _fits(found) and found is not None and found.keeps else None


def _begun(
    trying: Trying, kinds: Sequence[Kind]
) -> tuple[tuple[Edit, ...], list[Suggestion]] | None:
    """Edits of these kinds that let the plan start, and single ones beside; None without such."""
    base = _base(trying)
    made = singles(trying, base, KEEPS, helping=True)
    if (base or trying.before.blockers) and not _able(made):
        made = [] if kinds == KEEPS else singles(trying, base, kinds, helping=True)
        if not _able(made):
            return None
    start = trying.edited(*base) if base else None
    if (trying.before if start is None else start.after).blockers:
        best = min(
            _able(made), key=lambda one: (not one.keeps, not one.fits, one.after.needs_bytes)
        )
        base = best.edits
        made = singles(trying, base, KEEPS, helping=True)
    return base, made


def _able(made: Sequence[Suggestion]) -> list[Suggestion]:
    """Those with which the plan starts."""
    return [one for one in made if not one.after.blockers]


def pairs(trying: Trying, made: Sequence[Suggestion], most: int = 3) -> tuple[Suggestion, ...]:
    """Two edits that make it fit for less than any single one does.

    Those come first that keep what was asked for, and then those that ask least.
    """
    before = trying.before
    if before.fits or before.blockers:
        return ()
    limit = min((_price(before, [one]) for one in made if one.fits), default=inf)
    two = [one for one in _combined(before, made) if len(one.edits) == 2 and one.cost < limit]
    likely = sorted((one for one in two if one.needs_bytes <= before.budget_bytes), key=_cost)
    tried = (trying.edited(*one.edits) for one in likely[:VERIFIED])
    found = [one for one in tried if one is not None and one.fits]
    return tuple(sorted(found, key=lambda one: not one.keeps)[:most])


def trades(
    trying: Trying, made: Sequence[Suggestion], beyond: Sequence[Suggestion], most: int = 3
) -> tuple[Suggestion, ...]:
    """Two edits of a plan that fits, one of which makes the room that the other turns into time.

    Args:
        trying: makes them.
        made: single edits that keep what was asked for; those that fit may make room.
        beyond: what would be faster and does not fit alone.
        most: how many are given, the fastest first.
    """
    savers = [one for one in made if one.fits and one.keeps]
    two = [pair for pair in product(savers, beyond) if not pair[0].changes.keys() & pair[1].changes]
    foreseen = [_traded(trying.before, *pair) for pair in two]
    able = [one for one in foreseen if one.needs_bytes <= trying.before.budget_bytes]
    likely = [one for one in sorted(able, key=_cost) if one.cost < 0][:VERIFIED]
    made_so = [trying.edited(*one.edits) for one in likely]
    found = [one for one in made_so if one and one.fits and one.seconds.sign == "less"]
    return tuple(sorted(found, key=lambda one: one.step_seconds or 0.0)[:most])


def _traded(before: Outcome, saver: Suggestion, faster: Suggestion) -> _Foreseen:
    """The sum of what both do; its cost is a step's seconds more than now."""
    was, one, other = (_needs(each) for each in (before, saver.after, faster.after))
    needs = max(one.get(key, 0.0) + other.get(key, 0.0) - was[key] for key in was)
    seconds = sum(each.seconds.by for each in (saver, faster))
    return _Foreseen((*saver.edits, *faster.edits), needs, seconds)


def _others(trying: Trying, base: tuple[Edit, ...]) -> tuple[Suggestion | None, ...]:
    made = singles(trying, base, helping=True)
    return tuple(_search(trying, base, made, kinds) for kinds in (TRAINING, MORE))


def _fits(found: Suggestion | None) -> bool:
    return found is not None and found.fits


def starting(trying: Trying) -> dict[tuple[Edit, ...], Suggestion]:
    """What lets an engine start whose share is too small, by its edits; none where it starts."""
    plan = trying.before.plan
    if not share.has_engine(plan) or share.room_of(plan).starts:
        return {}
    found = {made: trying.edited(*made) for made in share.starting(plan)}
    return {made: one for made, one in found.items() if one is not None}


def _base(trying: Trying) -> tuple[Edit, ...]:
    able = starting(trying)
    return min(able, key=lambda made: _waking(able[made].after), default=())


def _waking(outcome: Outcome) -> tuple[float, float]:
    """What the phases need in which the engine is awake, and a step's seconds."""
    awake = (one.needs_bytes for one in outcome.levels if one.kind.moment.engine != "asleep")
    return max(awake), outcome.step_seconds or 0.0


class _Foreseen(NamedTuple):
    """A combination of single edits, the card it would need, and what it costs."""

    edits: tuple[Edit, ...]
    needs_bytes: float
    cost: float


def _search(
    trying: Trying, base: tuple[Edit, ...], made: list[Suggestion], kinds: tuple[Kind, ...]
) -> Suggestion | None:
    """The cheapest edits of these kinds with which the plan fits; else the closest to it."""
    best: Suggestion | None = trying.edited(*base) if base else None
    for number in range(ROUNDS):
        start = trying.before if best is None else best.after
        if number:
            made = singles(trying, base, kinds, helping=True)
        allowed = [one for one in _able(made) if one.edits[-1].kind in kinds]
        budget = start.budget_bytes
        # Where no phase is over the card it is host RAM that is short, which is not foreseen.
        mends = [one for one in allowed if one.fits and start.needs_bytes <= budget]
        if mends:
            return _polished(trying, min(mends, key=lambda one: _price(start, [one])))
        foreseen = _combined(start, allowed)
        likely = sorted((one for one in foreseen if one.needs_bytes <= budget), key=_cost)
        for one in likely[:VERIFIED]:
            found = trying.edited(*base, *one.edits)
            if found is not None and found.fits:
                return _polished(trying, found)
        nearest = sorted(foreseen, key=lambda one: one.needs_bytes)[: VERIFIED // 2]
        tried = [trying.edited(*base, *one.edits) for one in nearest]
        able = _able([one for one in tried if one is not None])
        if not able:
            break
        closest = min(able, key=lambda one: one.after.needs_bytes)
        if best is not None and closest.after.needs_bytes >= best.after.needs_bytes:
            break
        best, base = closest, closest.edits
    return None if best is None else _polished(trying, best)


def _cost(one: _Foreseen) -> float:
    return one.cost


def _combined(start: Outcome, made: Sequence[Suggestion]) -> list[_Foreseen]:
    """Combinations of up to ``AT_ONCE`` edits, with the sum of what each saves in each phase."""
    keys = [(one.name, one.rank) for one in start.levels]
    needs = np.array([_needs(start)[key] for key in keys], dtype=np.float64)
    over = needs > start.budget_bytes
    after = [_needs(one.after) for one in made]
    left = np.array([each.get(key, 0.0) for each in after for key in keys])
    saved = needs - left.reshape(len(made), len(keys))
    useful = [n for n in range(len(made)) if saved[n][over].max(initial=0.0) >= WORTH_BYTES]
    useful = sorted(useful, key=lambda n: -saved[n][over].sum())[:USEFUL]
    found = []
    for count in range(1, AT_ONCE + 1):
        for chosen in combinations(useful, count):
            own = [made[n].edits[-1] for n in chosen]
            if len({name for edit in own for name in edit.changes}) < sum(
                len(edit.changes) for edit in own
            ):
                continue  # two values for one field
            most = float((needs - saved[list(chosen)].sum(axis=0)).max())
            found.append(_Foreseen(tuple(own), most, _price(start, [made[n] for n in chosen])))
    return found


def _needs(outcome: Outcome) -> dict[tuple[str, str], float]:
    return {(one.name, one.rank): one.needs_bytes for one in outcome.levels}


def _price(start: Outcome, made: Sequence[Suggestion]) -> float:
    """A step's GPU time after these edits, dearer by what else they ask of a person."""
    seconds = start.step_seconds or 0.0
    after = [one.after.step_seconds for one in made]
    seconds += sum(one - seconds for one in after if one is not None)
    price = max(seconds, 1e-9)
    for one in made:
        edit = one.edits[-1]
        price *= ASKED.get(edit.kind, 1.0) * EACH ** len(edit.changes)
        price *= one.after.plan.gpus / start.plan.gpus
    return price


def _polished(trying: Trying, found: Suggestion) -> Suggestion:
    """Without edits that it fits as well without, and with the share that then serves best."""
    for edit in found.edits:
        others = tuple(one for one in found.edits if one is not edit)
        without = trying.edited(*others) if others else None
        if without is None or without.after.blockers:
            continue
        if _no_worse(without.after, found.after):
            found = without
    return _with_share(trying, found) if found.fits else found


def _no_worse(one: Outcome, other: Outcome) -> bool:
    if not one.fits and (other.fits or one.needs_bytes > other.needs_bytes):
        return False
    if one.step_seconds is None or other.step_seconds is None:
        return True
    return one.step_seconds <= other.step_seconds * EACH


def _with_share(trying: Trying, found: Suggestion) -> Suggestion:
    """With the engine's share and spread that serve best beside what was found."""
    best = share.best(trying.of(found.after))
    return found if best is None else trying.edited(*found.edits, *best.edits) or found
