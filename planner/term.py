"""One named quantity, in bytes or seconds, and the instants at which quantities stand together.

Values are ``int`` for one plan and arrays for a sweep; see :data:`planner.numeric.Num`.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, Literal, NamedTuple, cast, get_args

from planner.numeric import Num
from planner.values.step_phases import Moment

Category = Literal[
    "parameters",
    "gradients",
    "optimizer",
    "activations",
    "logits",
    "kv-cache",
    "buffers",
    "allocator",
    "engine",
    "device",
]

CATEGORIES: tuple[Category, ...] = get_args(Category)
"""Every category, in the order charts stack them."""

OUTSIDE: frozenset[Category] = frozenset(("engine", "device"))
"""Categories that the trainer's allocator does not hold: only the driver sees them."""

POOL = "vLLM KV cache"
"""Name of the term that is a choice and no need: what an engine's share leaves for its cache."""
AWAKE = "vLLM weights"
"""Name of the term that an engine beside the trainer has only while it is awake."""

Layout = tuple[tuple[int, float], ...]
"""How many tensors have which share of a term's bytes."""


class Term(NamedTuple):
    """One named quantity: its bytes, and all a person needs to check them.

    ``tensors`` is the number of storages the bytes are spread over (the allocator
    rounds each of them), ``layout`` says it more exactly where sizes differ: pairs of
    how many tensors, and the share of the bytes that each of these has. ``host`` marks
    bytes of host RAM instead of GPU memory. ``low`` and ``high`` bound what nobody can know
    exactly; None where ``bytes`` is exact. A tuple, since an estimate makes hundreds.
    """

    name: str
    role: str
    category: Category
    bytes: Num
    formula: str
    inputs: Mapping[str, Num]
    source: str
    ignores: str = ""
    tensors: Num = 1
    layout: Layout = ()
    host: bool = False
    low: Num | None = None
    high: Num | None = None

    def of(self, role: str) -> Term:
        """The same quantity of another role."""
        # Term's own __new__ would only put the same fields together by name.
        return tuple.__new__(Term, (self.name, role, *self[2:]))


class TimeTerm(NamedTuple):
    """One cause of a phase's time: its seconds, and all a person needs to check them.

    ``evidence`` says which measured rows a share is from, where it is from any. ``factors`` are
    the least and most of ``seconds`` by one of its inputs, an assumption that the formula or its
    source names; None where nothing says more than the phase's own interval.
    """

    name: str
    role: str
    seconds: Num
    formula: str
    inputs: Mapping[str, Num]
    source: str
    ignores: str = ""
    evidence: str = ""
    factors: tuple[float, float] | None = None
    look_ups: tuple[Any, ...] = ()
    """How its kernels are found once somebody asks (:mod:`planner.timing.opened`): a function, and
    what it is given after the term. Empty where no table has any of it."""

    @property
    def low(self) -> Num | None:
        """The least seconds that its own assumption allows."""
        return None if self.factors is None else self.seconds * self.factors[0]

    @property
    def high(self) -> Num | None:
        """The most."""
        return None if self.factors is None else self.seconds * self.factors[1]


class Standing(NamedTuple):
    """In an instant's bundles: what stands at a moment of the step, whatever computes meanwhile.

    Kept as a name until it is asked for, since it depends on choices that the rest does not.
    """

    moment: Moment
    gradients: Literal["none", "accumulated", "layers", "made", "all"] = "none"
    """Of the role being updated: none, those of earlier micro-batches, all but the embedding's
    (which comes last), all as they were made, or all that an update reads."""
    engine: bool = True
    """With what a colocated engine holds."""
    fresh: bool = False
    """Before any step has left something behind."""


Bundle = tuple[Term, ...]


class Joined(tuple[Term, ...]):
    """A bundle of bundles, each of which may stand in others too and is added up once."""

    parts: tuple[Bundle, ...]

    @classmethod
    def of(cls, parts: tuple[Bundle, ...]) -> Joined:
        """The terms of all parts, in their order."""
        found = cls(chain(*parts))
        found.parts = parts
        return found


class Instant(NamedTuple):
    """A moment inside a phase and every term alive at it.

    ``terms`` are its own; ``shared`` are bundles that other instants hold too, kept as
    the same tuples so that each is added up once.
    """

    name: str
    terms: tuple[Term, ...]
    shared: tuple[Bundle | Standing, ...] = ()

    @property
    def everything(self) -> tuple[Term, ...]:
        """All terms alive at the instant, shared ones first; none of it may be a name only."""
        return tuple(chain(*cast("tuple[Bundle, ...]", self.shared), self.terms))
