"""Each field of a plan as a person meets it: its label, its help, and sentences with both.

What is said stands in the field's row, a framework's own words for it in its room. Imports no
Streamlit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from planner.plan import Plan
from planner.plan.fieldtext import KINDS
from planner.plan.frameworks import OWN, framework_named
from planner.plan.plan import ROWS
from planner.values.framework import Word
from planner.wording import choices
from planner.wording.choices import spoken
from planner.wording.display import say


def speak_for(framework: Callable[[], str]) -> None:
    """Labels are in the words of the framework that this gives; until then in the first one's."""
    global _speaker
    _speaker = framework


def _usual() -> str:
    return OWN


_speaker: Callable[[], str] = _usual


def label(name: str) -> str:
    """What stands above the input, unit included; a batch in the framework's own terms."""
    led = _word(name).label or Plan.model_fields[name].title or short_label(name)
    return f"{led}, {ROWS[name].unit}" if ROWS[name].unit else led


def short_label(name: str) -> str:
    """The label without its unit, for sentences."""
    info = Plan.model_fields.get(name)
    said = (_word(name).label or ROWS[name].label_in_sentences or info.title) if info else None
    return said or name.replace("_", " ").capitalize()


def _word(name: str) -> Word:
    """What the framework on the page calls the field."""
    return framework_named(_speaker()).words.get(name, Word(""))


def labelled(text: str, about: str = "") -> str:
    """A sentence with labels in place of the plan's field names, as the pages show it.

    Values stand as their list shows them, where a field's name leads to them; ``about`` is the
    field that “Choose …” in the sentence is about. Other names that are words of the language, too,
    stay.
    """
    found, place = "", 0
    while led := _LED.search(text, place):
        field = led["field"] or about
        values = _values(field, text[led.end() :], ordinary=led["by"] != " ")
        if not values:
            found, place = found + text[place : led.end()], led.end()
            continue
        said = "Choose " if led["field"] is None else f"“{short_label(field)}”{_BY[led['by']]}"
        found += text[place : led.start()] + said + "".join(map(partial(_said, field), values))
        place = led.end() + len("".join(values))
    return _NAMED.sub(lambda name: f"“{short_label(name[0])}”", found + text[place:])


_BY = {" ": " ", " to ": " to ", "=": " "}
_ALL = "|".join(sorted(Plan.model_fields, key=len, reverse=True))
_LED = re.compile(rf"\b(?:(?P<field>{_ALL})(?P<by> to |=| )|Choose )(?=[\w.])")
_NO_WORDS = [name for name in _ALL.split("|") if "_" in name or name in ("finetuning", "gpus")]
_NAMED = re.compile(rf"\b({'|'.join(_NO_WORDS)})\b")
_NEXT = re.compile(r"(,? or to |,? or |, )(?=[\w.])")
_NUMBER = re.compile(r"true|false|[\d.]+")
_VALUE = re.compile(r"[\w.+-]*\w")


def _values(field: str, text: str, *, ordinary: bool) -> list[str]:
    """The field's values that the text begins with, and what stands between them."""
    found: list[str] = []
    place, between = 0, ""
    while value := _VALUE.match(text, place):
        known = bool(field) and value[0] in choices.options(field)
        number = KINDS.get(field) in (bool, int, float) and _NUMBER.fullmatch(value[0])
        language = not ordinary and "_" not in field and _is_word(value[0])
        if not (known or number) or language or text.startswith(" to ", value.end()):
            break
        found += [between, value[0]] if between else [value[0]]
        after = _NEXT.match(text, value.end())
        if number or after is None:
            break
        between, place = after[0], after.end()
    return found


def _is_word(value: str) -> bool:
    """Whether a value is a word of the language, too: after a name alone it may mean that."""
    return bool(re.fullmatch(r"[a-z]+", value)) and value not in ("ddp", "hf", "qlora", "lora")


def _said(field: str, part: str) -> str:
    if part in ("true", "false"):
        return say(part == "true")
    name = choices.called(field, part) if part in choices.options(field) else part
    return f"“{name}”" if name != part and " " in name else name


def changes_in_words(changes: Mapping[str, Any]) -> str:
    """Fields by label with the values they get."""
    found = changes.items()
    return ", ".join(f"{short_label(field)} → {spoken(field, value)}" for field, value in found)


def meaning(name: str) -> str:
    """The plan's description of the field, of its input: one that is empty where the field is 0."""
    said = Plan.model_fields[name].description or ""
    return re.sub(r"\b0(?= is|:)", "empty", said) if ROWS[name].empty else said


def help_text(name: str) -> str:
    """What the field means: the plan's description, the words in it, its option, the link's key."""
    option = _word(name).option
    own = f"{framework_named(_speaker()).label}: `{option}`. " if option else ""
    return f"{meaning(name)} {ROWS[name].more}".strip() + f"\n\n{own}Field `{name}`"
