"""Weights that no Hub id names: a plan with a config.json of its own is launched from a folder.

A plan has no field for where weights lie, so the scripts ask for it; where the plan's name of the
model is a path, that is what they take unless told.
"""

from __future__ import annotations

from planner.launch.script import Expanded, expand, required
from planner.plan import Plan

NAME = "MODEL"


def weights_lines(plan: Plan) -> list[str]:
    """Lines of a script that set :data:`NAME`; none where the plan's model is one of the Hub."""
    if not plan.config:
        return []
    asks = required(NAME, "the folder of the weights that belong to the config.json of the plan")
    # A field of a plan has no character that bash would read as its own.
    given = f'{NAME}="${{{NAME}:-{plan.model}}}"' if plan.model.startswith("/") else asks
    whole = f'if [ -e "${NAME}" ]; then {NAME}="$(realpath -- "${NAME}")"; fi'
    return [given, whole, f"export {NAME}"]


def weights_word(plan: Plan) -> str | Expanded:
    """The model as a word of a command."""
    return expand("", NAME) if plan.config else plan.model


def weights_option(plan: Plan, option: str) -> list[str | Expanded]:
    """An option of a program whose own settings name the Hub's model."""
    return [option, weights_word(plan)] if plan.config else []
