"""Documents 000 and 004 in depth: their figures beside plans, and their assumptions as plans."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pandas as pd
import streamlit as st

from planner.charts.options import option_bars
from planner.examples import doc_000_scaling, doc_004, lengths
from planner.examples.claim import GB
from planner.examples.options import ACTIVATIONS
from planner.examples.reference_options import reference_options
from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.presets import presets
from planner.ui import compute
from planner.ui.elements import ink, wall
from planner.ui.examples.claims import value
from planner.ui.scaling import own_peak
from planner.ui.state import session
from planner.values.step_phases import POLICY_FORWARD

AS_WRITTEN = {"Intuitor": "doc-000-intuitor@1", "PPO": "doc-000-ppo@1"}
LENGTHS = (2_000, 4_000, 6_000, 8_000)


def open_button(key: str, place: str) -> None:
    """Takes the person to the Plan page with this preset."""
    preset = presets()[key]
    pressed = st.button(
        f"Open “{preset.title}”",
        icon=":material/open_in_new:",
        key=f"open:{place}:{key}",
        on_click=session.open_preset,
        args=(key,),
        help=preset.description,
    )
    if pressed:
        st.switch_page("pages/plan.py", query_params={})


def at_length(plan: Callable[[int], Plan], tokens: int) -> Footprint:
    """The plan at a total length, a third of it prompt, as the document splits it."""
    return compute.footprint(plan(tokens - tokens // 3))


def intuitor_against_ppo() -> None:
    """Document 000."""
    mine, other = at_length(lengths.intuitor, 6_000), at_length(lengths.ppo, 6_000)
    wall(
        ("The document: PPO", "13.2 GB", "in all"),
        ("The document: Intuitor", "481 GB", "36 times PPO"),
        (
            "Headroom: PPO",
            session.read(other.device_bytes),
            other.worst.name,
            "Peak per GPU on eight H100 at the same 6K tokens, with the critic that PPO needs.",
        ),
        (
            "Headroom: Intuitor",
            session.read(mine.device_bytes),
            f"{mine.device_bytes / other.device_bytes:.2f} times PPO",
            "Peak per GPU on eight H100, as the method's own trainer runs it.",
        ),
    )
    st.markdown(
        "The document fears 468 GB of logits. That much is never allocated: self-certainty is "
        "computed without a gradient, one micro-batch at a time, along with log-probs that PPO "
        "computes too. And Intuitor trains **no critic**, so it needs less memory than PPO, not "
        "more."
    )
    st.subheader("Its scaling table", anchor=False)
    scaling()
    st.markdown(doc_000_scaling.CHUNKS)
    as_written()


def scaling() -> None:
    """The scaling table: claimed, by the document's own formula, and planned."""
    own, rows = own_peak.switch(), []
    for place, tokens in enumerate(LENGTHS):
        claimed = doc_000_scaling.SCALING[3 * place : 3 * place + 3]
        a, b = at_length(lengths.intuitor, tokens), at_length(lengths.ppo, tokens)
        cells = {"Tokens": f"{tokens:,}"}
        for n, (name, claim) in enumerate(zip(("PPO", "Intuitor", "Ratio"), claimed, strict=True)):
            cells[f"{name}: claimed"] = claim.written
            cells["by its formula" + " " * n] = value(claim, claim.derived)
        mine, other = (own_peak.size_bytes(found, own) for found in (a, b))
        pool = {"**vLLM reserves**": session.read(a.engine_bytes)} if own else {}
        rows.append(
            {
                **cells,
                "**PPO, planned**": session.read(other),
                "**Intuitor, planned**": session.read(mine),
                "**Ratio, planned**": f"{mine / other:.2f}×",
                **pool,
            }
        )
    st.table(pd.DataFrame(rows).set_index("Tokens"))
    st.caption(
        f"Planned columns: {'the trainer’s own' if own else 'the driver’s'} peak on one of eight "
        "H100, by this app's estimate. The document's columns are for the whole run, with one "
        "batch that is not split over GPUs."
    )


def as_written() -> None:
    """The document's assumptions as plans one can open."""
    st.subheader("The document's assumptions as plans", anchor=False)
    plan = presets()[AS_WRITTEN["Intuitor"]].plan
    premise = compute.footprint(plan)
    honest = compute.footprint(plan.changed(self_certainty_gradient=False))
    literal_ppo = compute.footprint(presets()[AS_WRITTEN["PPO"]].plan)
    st.markdown(
        "These plans run all 64 rows in one forward over eight GPUs, with bf16 everywhere. With a "
        "gradient through self-certainty, one GPU would need "
        f"**{session.read(premise.device_bytes)}**. Without that gradient, as the method runs, it "
        f"needs **{session.read(honest.device_bytes)}**; PPO needs "
        f"**{session.read(literal_ppo.device_bytes)}**. *Gradient through self-certainty* under "
        "Intuitor turns the gradient on."
    )
    with st.container(horizontal=True):
        for key in (*AS_WRITTEN.values(), lengths.REAL):
            open_button(key, "000")


def activations() -> None:
    """Document 004."""
    footprint = compute.footprint(presets()[ACTIVATIONS].plan)
    forward = next(phase for phase in footprint.phases if phase.kind == POLICY_FORWARD)
    last = next(claim for claim in doc_004.TABLE if claim.what == "Per forward pass")
    wall(
        ("The document", "2.4 GB", "per forward pass"),
        ("Its own sum", value(last, last.derived), "in bytes"),
        ("With the true shapes", value(last, doc_004.INVENTORY.value / GB), "the same inventory"),
        (
            "What autograd saves",
            session.read(forward.by_category().get("activations", 0)),
            "activations, planned",
            "The exact sum over every operation of the layers, with eager attention, LoRA on all "
            "projections and no checkpointing, and without the logits.",
        ),
    )
    st.markdown(
        "The table counts elements and calls them bytes, takes a 7B model's shapes for a 3B model, "
        "and leaves out what norms, SiLU, the softmax and LoRA save for the backward. The first "
        "error halves the figure, the second raises it, and the third leaves out the larger part "
        "of the real memory."
    )
    st.markdown(doc_004.PASSES)
    st.subheader("Where the reference's log-probs can come from", anchor=False)
    rows = reference_options(presets()[ACTIVATIONS].plan, session.read)
    st.altair_chart(
        option_bars(pd.DataFrame(map(asdict, rows)), ink=ink()),
        key="references",
        alt="; ".join(f"{row.measure}, {row.option}: {row.text}" for row in rows),
    )
    open_button(ACTIVATIONS, "004")
