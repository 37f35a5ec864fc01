"""What a person may choose of a trial: where it runs, and how it runs there.

Where is this machine or the Ray cluster that the server's owner has named. That address is the
owner's setting and nothing else: neither a link nor a field of the page holds one, so a visitor
chooses between two places and cannot send anything to a third.

Session keys: widgets only, ``trial-…``.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from planner.plan import Plan
from planner.setup.quantities import quantities
from planner.trial.ask.request import LIMIT_SECONDS, SNAPSHOT, STEPS, TrialRequest, existing_folder
from planner.trial.ask.variants import layers_of
from planner.trial.cluster.address import host_of, owners_address
from planner.trial.cluster.client import missing
from planner.ui.elements import choice, doubt, named_choice
from planner.ui.trial.allowed import own_machine
from planner.units import GIB
from planner.values.sharding import sharding_of

LENGTHS = {"full": "At the plan's caps", "random": "Random, below the caps"}
FITTING, ALL, TWO = "fitting", "all", "two"
LAYERS = {
    FITTING: "All, fewer if they do not fit",
    ALL: "All, even if memory runs out",
    TWO: "Two depths I choose",
}
MOST_PROCESSES = 8
"""On a processor; cards have one process each."""


HERE = "This machine"
DEVICES = {"cuda:0": "A GPU that Ray picks", "cpu": "CPU"}
CARDS = 8
"""Most cards that are asked of one node; Ray says when none has as many."""
HELP = (
    "On the cluster the trial runs as a job on one node. Headroom's code and the plan are sent to "
    "the cluster; progress and result come back and are stored here."
)


def cluster() -> str:
    """The address of the cluster that was chosen; empty for this machine."""
    try:
        address = owners_address()
        unusable = missing() if address else ""
    except ValueError as error:
        address, unusable = "", str(error)
    if unusable:
        doubt(unusable)
    if unusable or not address:
        return ""
    names = {"here": HERE, "cluster": f"The team's Ray cluster ({host_of(address)})"}
    chosen = st.radio(
        "Where",
        list(names),
        key="trial-where",
        format_func=names.__getitem__,
        horizontal=True,
        help=HELP,
    )
    return address if chosen == "cluster" else ""


def device() -> str:
    """What the trial asks of the cluster's node."""
    return named_choice(
        "Device",
        DEVICES,
        "trial-cluster-device",
        help="The trial waits until Ray finds a node on which this device is free.",
    )


def named(request: TrialRequest) -> str:
    """What a trial waits for or runs on, in a sentence."""
    if request.ray:
        return f"the Ray cluster {host_of(request.ray)}"
    return "the CPU" if request.device == "cpu" else request.device


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


def _number(place: Any, label: str, key: str, low: Any, high: Any, value: Any, help: str) -> Any:
    return place.number_input(
        label,
        min_value=low,
        max_value=high,
        value=value,
        step=1.0 if isinstance(value, float) else 1,
        key=key,
        help=help,
    )


def _length_of_it() -> dict[str, Any]:
    one, two, three = st.columns(3)
    steps = _number(
        one,
        "Measured steps",
        "trial-steps",
        1,
        100,
        STEPS,
        "Steps after the warm-up; the time shown is the median of these steps.",
    )
    minutes = _number(
        two,
        "Time limit, minutes",
        "trial-minutes",
        1,
        120,
        round(LIMIT_SECONDS / 60),
        "The trial is stopped when it has run this long, imports included.",
    )
    lengths = named_choice(
        "Lengths",
        LENGTHS,
        "trial-lengths",
        three,
        help="Full batches need the most memory; random lengths take a time closer to a real "
        "run's.",
    )
    return {"steps": steps, "limit_seconds": 60.0 * minutes, "lengths": lengths}


def _what_of_it(plan: Plan, device: str, cards: int) -> dict[str, Any]:
    one, two, three = st.columns(3)
    layers = named_choice(
        "Layers",
        LAYERS,
        "trial-layers",
        one,
        help="If the model is too large for this device, two models with fewer layers and the same "
        "width run, and the result for all layers is extrapolated.",
    )
    cap = _number(
        two,
        "Memory cap, GiB",
        "trial-cap",
        0.0,
        100_000.0,
        0.0,
        "Simulates a smaller GPU: above the cap the trial runs out of memory. 0 is no cap.",
    )
    found: dict[str, Any] = {"cap_bytes": round(cap * GIB)} if cap else {}
    world = int(quantities(plan).training_gpus)
    most = MOST_PROCESSES if device == "cpu" else cards
    if 1 < world <= most and sharding_of(plan).fsdp > 0:
        found["processes"] = choice(
            "Sharded over",
            [1, world],
            "trial-processes",
            three,
            format_func=lambda count: (
                f"One process, as rank 0 of {world}" if count == 1 else f"{count} processes"
            ),
            help="One process has the memory of one rank, without the time of collectives; several "
            "processes really exchange their shards.",
        )
    if layers == ALL:
        found["truncate"] = "never"
    return {**found, "depths": _two_depths(plan)} if layers == TWO else found


def _two_depths(plan: Plan) -> tuple[int, ...]:
    most = layers_of(plan)
    help = f"Layers to run, of the {most} that the model has."
    return tuple(
        int(_number(column, label, f"trial-depth-{n}", 1, most, min(most, value), help))
        for n, (column, label, value) in enumerate(
            zip(st.columns(3), ("Fewer layers", "More layers"), (2, 4), strict=False)
        )
    )


def _files() -> dict[str, Any]:
    columns = st.columns([2, 1], vertical_alignment="bottom")
    found: dict[str, Any] = {}
    if own_machine():  # whoever else asks must not learn which folders there are
        folder = columns[0].text_input(
            "Model folder",
            key="trial-model-folder",
            placeholder="random weights",
            help="A folder on this machine with config.json and safetensors. Empty: random "
            "weights, which take the same memory. Random routers spread tokens evenly over "
            "experts; trained routers do not.",
        )
        if folder.strip():
            found["model_folder"] = existing_folder(folder.strip())
    if columns[1].toggle(
        "Record a memory snapshot",
        key="trial-snapshot",
        help="A file to download with the answer: on a GPU for pytorch.org/memory_viz, on a CPU "
        "for ui.perfetto.dev.",
    ):
        found["snapshot"] = SNAPSHOT
    return found
