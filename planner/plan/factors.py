"""Correction factors as a link carries them: measured ÷ predicted, by phase and quantity.

``planner/trial/evidence`` takes them from trials (``calibration``) and applies them
(``correction``); this is the value and its text, which anybody may have written.
Imports :mod:`planner.linktext` only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from planner.linktext import GPU, decimal, parts, require, short

Quantity = Literal["requested", "allocated", "reserved", "device", "seconds"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
"""Totals of a phase, each containing the one before it, and the time."""

Rung = Literal["estimate", "dry run"]
RUNGS: tuple[Rung, ...] = get_args(Rung)

LOWEST, HIGHEST = 0.5, 2.0
"""A prediction that is off by more is wrong, and no factor makes it right."""
MAX_TRIALS = 1_000_000
MAX_FACTORS = 400
MAX_CHARACTERS = 16 * 1024
DIGITS = 6
"""Decimal places of a factor."""

_NAME = re.compile(r"[a-z0-9][a-z0-9 ,\-]{0,59}")
_VERSION = re.compile(r"[0-9A-Za-z.+\-]{0,60}")
_NUMBER = re.compile(r"[0-9]{1,2}(\.[0-9]{1,9})?")
_WHOLE = re.compile(r"[1-9][0-9]{0,6}")


@dataclass(frozen=True, slots=True, order=True)
class Factor:
    """What one quantity of one phase is multiplied with, and how many trials say so."""

    rung: Rung
    phase: str
    quantity: Quantity
    factor: float
    trials: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """Factors of one card, method and set of library versions; they hold for no other.

    ``gpu`` is the catalog's key. A version is empty where the trials did not know it.
    """

    gpu: str
    method: str
    torch: str
    transformers: str
    factors: tuple[Factor, ...]

    def of(self, rung: str, phase: str, quantity: str) -> Factor | None:
        """The factor of one number; None when no trial says anything about it."""
        wanted = (rung, phase, quantity)
        found = (one for one in self.factors if (one.rung, one.phase, one.quantity) == wanted)
        return next(found, None)


def factors_to_text(factors: Factors) -> str:
    """The text of a link's ``calibration``: ``1~card~method~torch~transformers_…``.

    After that head one part per rung and phase, ``rung~phase~quantity~factor~trials~…``.
    """
    said_parts = ["~".join(("1", factors.gpu, factors.method, factors.torch, factors.transformers))]
    phases: dict[tuple[str, str], list[str]] = {}
    for one in factors.factors:
        said = [one.quantity, decimal(one.factor, DIGITS), str(one.trials)]
        phases.setdefault((one.rung, one.phase), []).extend(said)
    said_parts += ["~".join((*place, *said)) for place, said in phases.items()]
    return "_".join(said_parts)


def factors_from_text(text: str) -> Factors:
    """Reads :func:`factors_to_text`'s text, whoever wrote it.

    Raises:
        ValueError: what is wrong, as a part of a sentence that begins with the field's name.
    """
    names = ("card", "method", "torch", "transformers")
    (gpu, method, torch, transformers), rest = parts(text, names, MAX_CHARACTERS)
    require(GPU, gpu, "the card")
    require(GPU, method, "the method")
    require(_VERSION, torch, "the version of torch")
    require(_VERSION, transformers, "the version of transformers")
    factors = tuple(one for part in rest for one in _phase(part))
    if not factors:
        raise ValueError("holds no factor")
    if len(factors) > MAX_FACTORS:
        raise ValueError(f"holds more than {MAX_FACTORS} factors")
    if len({(one.rung, one.phase, one.quantity) for one in factors}) != len(factors):
        raise ValueError("gives a quantity of a phase twice")
    return Factors(gpu=gpu, method=method, torch=torch, transformers=transformers, factors=factors)


def _phase(text: str) -> Iterator[Factor]:
    rung, *more = text.split("~")
    if rung not in RUNGS:
        raise ValueError(f"corrects {short(rung)}, which is neither of {', '.join(RUNGS)}")
    if len(more) < 4 or len(more) % 3 != 1:
        raise ValueError(f"has a phase without quantity~factor~trials: {short(text)}")
    phase = more[0]
    require(_NAME, phase, "a phase")
    for at in range(1, len(more), 3):
        quantity, factor, trials = more[at : at + 3]
        if quantity not in QUANTITIES:
            raise ValueError(f"corrects {short(quantity)}, which is none of a phase's quantities")
        require(_NUMBER, factor, f"the factor of {phase}")
        require(_WHOLE, trials, f"the number of trials of {phase}")
        number = float(factor)
        if not LOWEST <= number <= HIGHEST:
            raise ValueError(f"multiplies {phase} with {factor}, outside {LOWEST} to {HIGHEST}")
        if int(trials) > MAX_TRIALS:
            raise ValueError(f"names more than {MAX_TRIALS} trials of {phase}")
        yield Factor(rung, phase, quantity, number, int(trials))
