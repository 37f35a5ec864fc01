"""Where a trial runs: on this machine, or on the Ray cluster that the server's owner has named.

The address is the owner's setting and nothing else: neither a link nor a field of the page holds
one, so a visitor chooses between two places and cannot send anything to a third.
"""

from __future__ import annotations

import streamlit as st

from planner.trial.ask.request import TrialRequest
from planner.trial.cluster.address import host_of, owners_address
from planner.trial.cluster.client import missing
from planner.ui import session
from planner.ui.messages import plain

HERE = "This machine"
DEVICES = {"cuda:0": "A GPU, which Ray chooses", "cpu": "A processor"}
CARDS = 8
"""Most cards that are asked of one node; Ray says when none has as many."""
HELP = (
    "On the cluster a node of its own runs the trial, as a job. The planner and the plan travel "
    "there; progress and result come back and are kept here like those of any trial."
)


def cluster() -> str:
    """The address of the cluster that was chosen; empty for this machine."""
    try:
        address = owners_address()
        unusable = missing() if address else ""
    except ValueError as error:
        address, unusable = "", str(error)
    if unusable:
        st.warning(plain(unusable), icon=":material/info:")
    if unusable or not address:
        return ""
    names = {"here": HERE, "cluster": f"The team's Ray cluster ({host_of(address)})"}
    chosen = st.radio(
        "Where",
        list(names),
        key="trial-where",
        format_func=names.__getitem__,
        horizontal=True,
        on_change=session.acted,
        help=HELP,
    )
    return address if chosen == "cluster" else ""


def device() -> str:
    """What the trial asks of the cluster's node."""
    chosen = st.selectbox(
        "Device",
        list(DEVICES),
        key="trial-cluster-device",
        format_func=DEVICES.__getitem__,
        on_change=session.acted,
        help="Ray looks for a node that has it free, and the trial waits until one has.",
    )
    return str(chosen)


def named(request: TrialRequest) -> str:
    """What a trial waits for or runs on, in a sentence."""
    if request.ray:
        return f"the Ray cluster {host_of(request.ray)}"
    return "the processor" if request.device == "cpu" else request.device
