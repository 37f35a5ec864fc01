"""What a person may choose of a trial: steps, limits, lengths, depth, processes, weights, files.

Session keys: widgets only, ``trial-…``.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.plan import Plan
from planner.quantities import quantities
from planner.trial.ask.request import LIMIT_SECONDS, SNAPSHOT, STEPS, existing_folder
from planner.trial.ask.variants import layers_of
from planner.ui import session
from planner.ui.trial_allowed import own_machine
from planner.units import GIB

LENGTHS = {"full": "At the plan's caps", "random": "Random, below the caps"}
FITTING, ALL, TWO = "fitting", "all", "two"
LAYERS = {
    FITTING: "All, fewer where they do not fit",
    ALL: "All, or until memory ends",
    TWO: "Two depths of mine",
}
MOST_PROCESSES = 8
"""On a processor; cards have one process each."""


def choices(plan: Plan, device: str, cards: int, *, files: bool = True) -> dict[str, Any]:
    """The choices as fields of a :class:`planner.trial.ask.request.TrialRequest`.

    Args:
        plan: what would run.
        device: where it would run.
        cards: how many cards the machine has that would run it.
        files: whether it may read and leave files, which are on the machine that runs it.

    Raises:
        ValueError: for a model folder that is not there, naming the field.
    """
    with st.expander("How it runs", icon=":material/tune:", key="trial-how"):
        found = {**_length_of_it(), **_what_of_it(plan, device, cards)}
        return {**found, **_files()} if files else found


def _length_of_it() -> dict[str, Any]:
    columns = st.columns(3)
    steps = columns[0].number_input(
        "Measured steps",
        min_value=1,
        max_value=100,
        value=STEPS,
        key="trial-steps",
        on_change=session.acted,
        help="After the warm-up; the time shown is their median.",
    )
    minutes = columns[1].number_input(
        "Time limit, minutes",
        min_value=1,
        max_value=120,
        value=round(LIMIT_SECONDS / 60),
        key="trial-minutes",
        on_change=session.acted,
        help="The trial is ended when it has taken this long, imports included.",
    )
    lengths = columns[2].selectbox(
        "Lengths",
        list(LENGTHS),
        key="trial-lengths",
        format_func=LENGTHS.__getitem__,
        on_change=session.acted,
        help="Full batches need the most memory; random lengths are nearer to a run's time.",
    )
    return {"steps": steps, "limit_seconds": 60.0 * minutes, "lengths": lengths}


def _what_of_it(plan: Plan, device: str, cards: int) -> dict[str, Any]:
    columns = st.columns(3)
    layers = columns[0].selectbox(
        "Layers",
        list(LAYERS),
        key="trial-layers",
        format_func=LAYERS.__getitem__,
        on_change=session.acted,
        help="Where a model is too large for this device, two shallower ones run at true width, "
        "and the whole one is worked out from both.",
    )
    cap = columns[1].number_input(
        "Memory cap, GiB",
        min_value=0.0,
        max_value=100_000.0,
        value=0.0,
        step=1.0,
        key="trial-cap",
        on_change=session.acted,
        help="Plays a smaller card: going beyond it ends the trial as the end of memory would. "
        "0 is no cap.",
    )
    found: dict[str, Any] = {"cap_bytes": round(cap * GIB)} if cap else {}
    world = int(quantities(plan).training_gpus)
    most = MOST_PROCESSES if device == "cpu" else cards
    if 1 < world <= most and plan.sharding in ("fsdp1", "fsdp2"):
        together = columns[2].selectbox(
            "Sharded over",
            [1, world],
            key="trial-processes",
            format_func=lambda count: (
                f"One process, as rank 0 of {world}" if count == 1 else f"{count} processes"
            ),
            on_change=session.acted,
            help="One process holds what a rank holds, without the time of collectives; several "
            "really exchange their shards.",
        )
        found["processes"] = int(together)
    if layers == ALL:
        found["truncate"] = "never"
    return {**found, "depths": _two_depths(plan)} if layers == TWO else found


def _two_depths(plan: Plan) -> tuple[int, ...]:
    most = layers_of(plan)
    columns = st.columns(3)
    return tuple(
        int(
            columns[place].number_input(
                label,
                min_value=1,
                max_value=most,
                value=min(most, value),
                key=f"trial-depth-{place}",
                on_change=session.acted,
                help=f"Layers of the model's {most}.",
            )
        )
        for place, label, value in ((0, "Fewer layers", 2), (1, "More layers", 4))
    )


def _files() -> dict[str, Any]:
    columns = st.columns([2, 1], vertical_alignment="bottom")
    found: dict[str, Any] = {}
    if own_machine():  # whoever else asks must not learn which folders there are
        folder = columns[0].text_input(
            "Model folder",
            key="trial-model-folder",
            placeholder="random weights",
            on_change=session.acted,
            help="A folder on this machine with config.json and safetensors. Empty runs random "
            "weights, which take the same memory; random routers spread tokens evenly over "
            "experts, and trained ones do not.",
        )
        if folder.strip():
            found["model_folder"] = existing_folder(folder.strip())
    if columns[1].toggle(
        "Keep the allocations",
        key="trial-snapshot",
        on_change=session.acted,
        help="A file to look at: on a card for pytorch.org/memory_viz, on a processor for "
        "ui.perfetto.dev. It is offered with the answer.",
    ):
        found["snapshot"] = SNAPSHOT
    return found
