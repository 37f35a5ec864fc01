"""One visitor's state, and everything that may change it.

Session keys, and who sets them:
``draft``      the inputs' values; set here only.
``reading``    what was wrong with the link that was opened; set by :mod:`planner.ui.state.address`.
``undo``       the last draft that had a plan, while the current one has none.
``applied``    suggestions that were taken one after the other, each with the drafts around it; set
               here only.
``compare``    plan B's short query, empty when there is none; kept in the address bar.
``calibration``  the link's correction factors as text, empty when there are none; kept in the
               address bar.
``benchmark``  the link's measured shares as text, empty when there are none; kept in the address
               bar.
``peak``       ``trainer`` where pages show the trainer's own peak, else empty; kept in the address
               bar.
``pins``, ``pin``  plans that are kept for comparing, and their texts in the address bar, empty
               where those are too long for a link.
``wish``       what the last search was asked for, as text, empty where there was none; kept in the
               address bar.
``unit``       name of the unit of memory.
``other model``, ``model error``  the inputs of a model from outside are open, and what was
               wrong with it; set by :mod:`planner.ui.inputs.model`.
``own lengths``, ``lengths error``  the same of response lengths; set by
               :mod:`planner.ui.inputs.lengths`.
``written``    see :mod:`planner.ui.state.address`; ``drawn``, :mod:`planner.ui.state.typed`.
Widgets of fields have the key ``field:<name>`` and only mirror the draft.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from planner.plan import Plan
from planner.plan.factors import Factors, factors_from_text
from planner.plan.frameworks import OWN, frameworks
from planner.plan.link import Reading
from planner.plan.pin import MOST_CHARACTERS, MOST_IN_A_LINK, Pinned, to_pin
from planner.plan.presets import DEFAULT, presets
from planner.plan.query import BENCHMARK, CALIBRATION, PIN, WISH
from planner.speeds import Speeds, speeds_from_text
from planner.ui.state import draft as drafts
from planner.ui.state.draft import Draft
from planner.wording.display import UNITS, Unit
from planner.wording.fields import speak_for

PINS = "pins"


def draft() -> Draft:
    """The current draft; the default preset before anything was opened."""
    if "draft" not in st.session_state:
        set_draft(drafts.of_plan(presets()[DEFAULT].plan, DEFAULT))
    return cast(Draft, st.session_state["draft"])


def set_draft(new: Draft) -> None:
    """Replace the draft; remembers the last one that had a plan."""
    old = st.session_state.get("draft")
    if new.plan is not None:
        st.session_state.pop("undo", None)
    elif old is not None and old.plan is not None:
        st.session_state["undo"] = old
    st.session_state["draft"] = new


def framework() -> str:
    """The framework on the page, in whose words labels are; the first before there is one."""
    found = cast("Draft | None", st.session_state.get("draft"))
    name = str(found.values["framework"]) if found else ""
    return name if name in frameworks() else OWN


speak_for(framework)


def edit(changes: Mapping[str, Any]) -> None:
    """A person set these fields; unset ones follow."""
    _set_anew(changes)
    set_draft(drafts.edited(draft(), changes))


class Applied(NamedTuple):
    """A suggestion that was taken: the drafts before and after it."""

    before: Draft
    after: Draft


MOST_APPLIED = 20
"""So many suggestions can be taken back, one after the other."""


def apply(changes: Mapping[str, Any]) -> None:
    """Set exactly these fields (a suggestion was taken); nothing follows."""
    _set_anew(changes)
    before = draft()
    set_draft(drafts.replaced(before, changes))
    taken = [*st.session_state.get("applied", []), Applied(before, draft())]
    st.session_state["applied"] = taken[-MOST_APPLIED:]


def applied() -> Applied | None:
    """The last suggestion that was taken, while nothing was changed since."""
    taken = st.session_state.get("applied", [])
    return taken[-1] if taken and taken[-1].after is draft() else None


def take_back_applied() -> None:
    """Back to the draft before it, exactly; the suggestion before it can then be taken back."""
    last = applied()
    if last is not None:
        st.session_state["applied"] = st.session_state["applied"][:-1]
        set_draft(last.before)


def restore(field: str) -> None:
    """One field as the preset has it."""
    set_draft(drafts.restored(draft(), field))


def open_preset(key: str) -> None:
    """Start again from a preset."""
    st.session_state.pop("reading", None)
    forget_own_inputs()
    set_draft(drafts.of_plan(presets()[key].plan, key))


def open_plan(plan: Plan) -> None:
    """Continue with another plan."""
    st.session_state.pop("reading", None)
    forget_own_inputs()
    set_draft(drafts.of_plan(plan))


def forget_own_inputs() -> None:
    """The person no longer brings a model or lengths of their own."""
    st.session_state.pop("other model", None)
    st.session_state.pop("model error", None)
    st.session_state.pop("own lengths", None)
    st.session_state.pop("lengths error", None)


def take_offer() -> None:
    """Let what nobody would have to choose follow the last edit."""
    other = drafts.offered(draft())
    if other is not None:
        set_draft(other)


def take_back() -> None:
    """Back to the draft before the last edit, with what followed it."""
    before = draft().before
    if before is not None:
        set_draft(before)


def undo() -> None:
    """Back to the last draft that had a plan."""
    if "undo" in st.session_state:
        set_draft(st.session_state["undo"])


def reading() -> Reading | None:
    """What the opened link said, while it is worth showing."""
    return cast("Reading | None", st.session_state.get("reading"))


def remember_reading(found: Reading) -> None:
    """What was read, and could not all be planned: said on every page until somebody goes on."""
    st.session_state["reading"] = found


def asked_instead() -> str:
    """What was asked for last and could not be used, so that the page shows an earlier plan.

    Empty where the page shows what was asked for. Whoever shows a verdict says it is of another.
    """
    found, state = reading(), st.session_state
    if "model error" in state:
        return "the model you gave"
    if state.get("other model") and not draft().values["config"]:
        return "a model that you have not given yet"
    if "lengths error" in state:
        return "the response lengths you gave"
    return "the link you opened" if found is not None and found.plan is None else ""


def answers_another() -> bool:
    """Whether the page shows an earlier plan, since what was given last could not be used."""
    return bool(asked_instead())


def left_out() -> dict[str, str]:
    """What the opened link asked for and the plan on the page lacks, by field, as it was written.

    Until the person goes on without it, or sets that field.
    """
    found = reading()
    return {} if found is None else dict(found.left_out)


def _set_anew(fields: Collection[str]) -> None:
    found = reading()
    if found is not None:
        left = tuple(one for one in found.left_out if one[0] not in fields)
        st.session_state["reading"] = replace(found, left_out=left)


def dismiss_reading() -> None:
    """The person has read what was wrong with the link."""
    st.session_state.pop("reading", None)


def calibration() -> Factors | None:
    """The correction factors that the opened link carries."""
    text = st.session_state.get(CALIBRATION)
    return factors_from_text(text) if text else None


def speeds() -> Speeds | None:
    """The shares of a card's peaks that the opened link carries."""
    text = st.session_state.get(BENCHMARK)
    return speeds_from_text(text) if text else None


def carry(key: str, text: str = "") -> None:
    """The page and its link go on with this calibration or benchmark, or without one."""
    st.session_state[key] = text


def pins() -> tuple[Pinned, ...]:
    """Plans that are kept for comparing."""
    return cast("tuple[Pinned, ...]", st.session_state.get(PINS, ()))


def set_pins(pinned: Sequence[Pinned]) -> None:
    """Keep exactly these; their texts are made once, since every page's address has them."""
    texts = [to_pin(one) for one in pinned]
    short = max(map(len, texts), default=0) <= MOST_CHARACTERS
    fits = short and sum(map(len, texts)) <= MOST_IN_A_LINK
    st.session_state[PINS] = tuple(pinned)
    st.session_state[PIN] = texts if fits else []


def pins_of_the_link() -> list[str]:
    """The pins as a link has them; none of them where they are too long for one."""
    return cast("list[str]", st.session_state.get(PIN, []))


def wish() -> str:
    """What the last search was asked for, or the link asks for; empty where nothing was."""
    return cast(str, st.session_state.get(WISH, ""))


def attended() -> Callable[[], bool]:
    """Whether this visitor's page is still connected, for whoever asks from another thread."""
    context = get_script_run_ctx()
    if context is None or not runtime.exists():
        return lambda: True
    served, visitor = runtime.get_instance(), context.session_id
    return lambda: served.is_active_session(visitor)


def unit() -> Unit:
    """The unit memory is shown in."""
    return UNITS[st.session_state.get("unit", "GiB")]


def read(size_bytes: float | None) -> str:
    """Bytes in that unit."""
    return unit().read(size_bytes)
