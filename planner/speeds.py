"""Shares of a card's peak that a benchmark measured on it, as a link carries them.

Where they come from is in :mod:`planner.benchmark`; an estimate that is given them uses them in
place of the published intervals of ``efficiencies.json``. This is the value and its text, which
anybody may have written. Imports :mod:`planner.linktext` only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from planner.linktext import GPU, decimal, parts, require, short

SpeedKey = Literal[
    "training-compute",
    "forward-compute",
    "decode-bandwidth",
    "optimizer-bandwidth",
    "host-copy-bandwidth",
    "hf-step-seconds-per-layer",
]
SPEED_KEYS: tuple[SpeedKey, ...] = get_args(SpeedKey)
"""Efficiencies that one card alone can tell; links and networks need several."""

SHARE = (0.01, 1.2)
"""Of a peak; a share beyond it says that the card is not the one that the datasheet is of."""
BOUNDS: Mapping[SpeedKey, tuple[float, float]] = {
    **dict.fromkeys(SPEED_KEYS, SHARE),
    "hf-step-seconds-per-layer": (1e-6, 0.1),
}
DIGITS = 9
"""Decimal places of a value."""
MAX_CHARACTERS = 2000

_VERSION = re.compile(r"[0-9A-Za-z.+\-]{1,60}")
_DRIVER = re.compile(r"[0-9.]{0,30}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_NUMBER = re.compile(r"[0-9](\.[0-9]{1,9})?")


@dataclass(frozen=True, slots=True)
class Speed:
    """Lowest, typical and highest value of one efficiency over the shapes that were measured."""

    key: SpeedKey
    low: float
    typical: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """What a benchmark says of one card under one version of torch; it holds for no other.

    ``gpu`` is the catalog's key, ``driver`` is empty where it was not known, ``date`` the day of
    the benchmark.
    """

    gpu: str
    torch: str
    driver: str
    date: str
    speeds: tuple[Speed, ...]

    def of(self, key: str) -> Speed | None:
        """What was measured of an efficiency; None where nothing was."""
        return next((one for one in self.speeds if one.key == key), None)

    @property
    def words(self) -> str:
        """Versions and day, for a sentence."""
        driver = f"driver {self.driver}, " if self.driver else ""
        return f"torch {self.torch}, {driver}{self.date}"


def speeds_to_text(speeds: Speeds) -> str:
    """The text of a link's ``benchmark``: ``1~card~torch~driver~date_key~low~typical~high_…``."""
    head = "~".join(("1", speeds.gpu, speeds.torch, speeds.driver, speeds.date))
    return "_".join(
        (head, *("~".join((s.key, *map(_text, (s.low, s.typical, s.high)))) for s in speeds.speeds))
    )


def _text(value: float) -> str:
    return decimal(value, DIGITS)


def speeds_from_text(text: str) -> Speeds:
    """Reads :func:`speeds_to_text`'s text, whoever wrote it.

    Raises:
        ValueError: what is wrong, as a part of a sentence that begins with the field's name.
    """
    names = ("card", "torch", "driver", "date")
    (gpu, torch, driver, date), rest = parts(text, names, MAX_CHARACTERS)
    require(GPU, gpu, "the card")
    require(_VERSION, torch, "the version of torch")
    require(_DRIVER, driver, "the driver")
    require(_DATE, date, "the day")
    speeds = tuple(_speed(part) for part in rest)
    if not speeds:
        raise ValueError("holds no value")
    if len({one.key for one in speeds}) != len(speeds):
        raise ValueError("gives an efficiency twice")
    return Speeds(gpu=gpu, torch=torch, driver=driver, date=date, speeds=speeds)


def _speed(text: str) -> Speed:
    key, *values = text.split("~")
    known = next((one for one in SPEED_KEYS if one == key), None)
    if known is None:
        raise ValueError(f"measures {short(key)}, which is none of {', '.join(SPEED_KEYS)}")
    if len(values) != 3:
        raise ValueError(f"has {known} without low~typical~high")
    for value in values:
        require(_NUMBER, value, f"a value of {known}")
    low, typical, high = map(float, values)
    lowest, highest = BOUNDS[known]
    if not lowest <= low <= typical <= high <= highest:
        raise ValueError(f"has {known} out of order or outside {_text(lowest)} to {_text(highest)}")
    return Speed(known, low, typical, high)
