"""What was typed since the inputs were drawn: found by comparing, not told by callbacks.

Streamlit starts a script anew as soon as the next edit arrives and gives up a callback that is
still under way, while the widget keeps the new value: what the callback had to do is lost, and the
input jumps back. So inputs have no callback. Each is drawn together with what is to be done with
another value, and the next run begins with :func:`take`, which does it; a run that is given up
before it has leaves it to the one after.

A request can leave the browser before a plan that was just applied arrives there: a poll of a
fragment, or the next press. It has the old values, which nobody typed. So a hidden input holds a
number that grows with every value the app sets, and the browser sends it back with the rest: a
request with a smaller one than an input's, and that input's old value, is late.

Session keys: ``drawn`` has of each input, by the key of its widget, what it was drawn with;
``edition`` is the hidden input, ``latest edition`` the number that it was last drawn with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import streamlit as st

EDITION, LATEST = "edition", "latest edition"


class Drawn(NamedTuple):
    """What an input was drawn with, what to do with another value, and whether it may be empty.

    The app itself set the value in ``edition``, where ``replaced`` had been; 0 where it never did.
    """

    value: Any
    take: Callable[[Any], None]
    clears: bool
    edition: int = 0
    replaced: Any = None


def mirror(key: str, value: Any, take: Callable[[Any], None], *, clears: bool = False) -> None:
    """Give a widget that is on the page already this value; ``take`` gets what is typed into it.

    A new one gets it as its default instead: set through the state alone, it would show
    its minimum for a moment first. One that ``clears`` has None for a default, which it goes back
    to where nothing stands in it, and every value through the state.
    """
    drawn, state = _drawn(), st.session_state
    edition, replaced = drawn[key][3:] if key in drawn else (0, None)
    if state.get(key) != value and (clears or key in state):
        state[LATEST] = edition = state.get(LATEST, 0) + 1
        replaced = state.get(key)
        state[key] = value
    # At once: a script is only given up where it asks for state.
    drawn[key] = Drawn(value, take, clears, edition, replaced)


def listen(key: str, take: Callable[[Any], None], empty: Any = "") -> None:
    """The same for an input that shows nobody else's value."""
    mirror(key, st.session_state.get(key, empty), take)


def take() -> None:
    """Hand over what was typed; inputs that may not be empty are drawn again as they were."""
    drawn = _drawn()
    number = str(st.session_state.get(EDITION, ""))
    seen = int(number[:15]) if number.isdecimal() else None
    for key, before in [*drawn.items()]:
        if key not in st.session_state:
            continue
        typed = st.session_state[key]
        if seen is not None and seen < before.edition and typed == before.replaced:
            continue  # late
        if typed != before.value and (before.clears or typed is not None):
            before.take(typed)
            drawn[key] = before._replace(value=typed)


def sign() -> None:
    """Draw the hidden input, after all others; its value says which edition the browser has."""
    st.session_state[EDITION] = str(st.session_state.get(LATEST, 0))
    st.text_input("Edition", key=EDITION, label_visibility="collapsed")


def _drawn() -> dict[str, Drawn]:
    return cast("dict[str, Drawn]", st.session_state.setdefault("drawn", {}))
