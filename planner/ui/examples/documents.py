"""The documents this project grew from: their numbers, their own sums, and the truth."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from planner.examples import doc_000, doc_000_scaling, doc_004
from planner.examples.claim import Claim
from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.presets import presets
from planner.ui import compute
from planner.ui.display import Unit, put_in
from planner.ui.state import draft, session

REAL = "intuitor-1.5b@1"
AS_WRITTEN = {"Intuitor": "doc-000-intuitor@1", "PPO": "doc-000-ppo@1"}
ACTIVATIONS = "doc-004-activations@1"
LENGTHS = (2_000, 4_000, 6_000, 8_000)
MARKS = {"agrees": "✓", "does not follow": "✕", "no derivation": "?"}


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


def real_ppo() -> Plan:
    """The proper Intuitor plan with PPO in its place; the rest as PPO's defaults have it."""
    intuitor = draft.of_plan(presets()[REAL].plan, REAL)
    plan = draft.edited(intuitor, {"method": "ppo", "responses_per_prompt": 8}).plan
    assert plan is not None
    return plan


def at_length(plan: Plan, tokens: int) -> Footprint:
    """The plan at a total length, a third of it prompt, as the document splits it."""
    prompt = tokens // 3
    return compute.footprint(
        plan.changed(
            prompt_tokens=prompt,
            response_tokens=tokens - prompt,
            validation_response_tokens=tokens - prompt,
        )
    )


def intuitor_against_ppo(unit: Unit) -> None:
    """Document 000."""
    st.header(doc_000.TITLE, anchor="doc-000")
    intuitor, ppo = presets()[REAL].plan, real_ppo()
    mine, other = at_length(intuitor, 6_000), at_length(ppo, 6_000)
    cards = st.grid(4, min_column_width=170)
    cards.metric(
        "The document: PPO", "13.2 GB", "in all", delta_arrow="off", delta_color="off", border=True
    )
    cards.metric(
        "The document: Intuitor",
        "481 GB",
        "36 times PPO",
        delta_arrow="off",
        delta_color="off",
        border=True,
    )
    cards.metric(
        "Planned: PPO",
        unit.read(other.device_bytes),
        other.worst.name,
        delta_arrow="off",
        delta_color="off",
        border=True,
        help="Peak per GPU on eight H100 at the same 6K tokens, with the critic PPO needs.",
    )
    cards.metric(
        "Planned: Intuitor",
        unit.read(mine.device_bytes),
        f"{mine.device_bytes / other.device_bytes:.2f} times PPO",
        delta_arrow="off",
        delta_color="off",
        border=True,
        help="Peak per GPU on eight H100, as the method's own trainer runs it.",
    )
    st.markdown(
        "The document fears 468 GB of logits. They never exist: self-certainty is read without "
        "a gradient, micro-batch by micro-batch, beside log-probs that PPO computes too. And "
        "Intuitor trains **no critic**, so it needs less than PPO, not more."
    )
    st.subheader("Its breakdown", anchor=False)
    claims(doc_000.BREAKDOWN)
    st.subheader("Its scaling table", anchor=False)
    scaling(intuitor, ppo, unit)
    st.subheader("Its advice", anchor=False)
    claims(doc_000_scaling.ADVICE)
    st.markdown(doc_000_scaling.CHUNKS)
    as_written(unit)


def scaling(intuitor: Plan, ppo: Plan, unit: Unit) -> None:
    """The scaling table: claimed, by the document's own formula, and planned."""
    rows = []
    for place, tokens in enumerate(LENGTHS):
        claimed = doc_000_scaling.SCALING[3 * place : 3 * place + 3]
        a, b = at_length(intuitor, tokens), at_length(ppo, tokens)
        rows.append(
            {
                "Tokens": f"{tokens:,}",
                "PPO: claimed": claimed[0].written,
                "by its formula": _value(claimed[0], claimed[0].derived),
                "Intuitor: claimed": claimed[1].written,
                "by its formula ": _value(claimed[1], claimed[1].derived),
                "Ratio: claimed": claimed[2].written,
                "by its formula  ": _value(claimed[2], claimed[2].derived),
                "**PPO, planned**": unit.read(b.device_bytes),
                "**Intuitor, planned**": unit.read(a.device_bytes),
                "**Ratio, planned**": f"{a.device_bytes / b.device_bytes:.2f}×",
            }
        )
    st.table(pd.DataFrame(rows).set_index("Tokens"))
    st.caption(
        "Planned: peak of one of eight H100, from this app's estimate of both plans. The "
        "document's columns are whole-run figures of one undivided batch."
    )


def as_written(unit: Unit) -> None:
    """The document's assumptions as plans one can open."""
    st.subheader("Its assumptions, planned literally", anchor=False)
    plan = presets()[AS_WRITTEN["Intuitor"]].plan
    premise = compute.footprint(plan)
    honest = compute.footprint(plan.changed(self_certainty_gradient=False))
    literal_ppo = compute.footprint(presets()[AS_WRITTEN["PPO"]].plan)
    st.markdown(
        f"All 64 rows in one forward over eight cards, bf16 everywhere. With a gradient through "
        f"self-certainty one card would need **{unit.read(premise.device_bytes)}**; without it, "
        f"which is what the method does, **{unit.read(honest.device_bytes)}**; PPO needs "
        f"**{unit.read(literal_ppo.device_bytes)}**. The switch is *Gradient through "
        f"self-certainty* under Roles."
    )
    with st.container(horizontal=True):
        for key in (*AS_WRITTEN.values(), REAL):
            open_button(key, "000")


def activations(unit: Unit) -> None:
    """Document 004."""
    st.header(doc_004.TITLE, anchor="doc-004")
    footprint = compute.footprint(presets()[ACTIVATIONS].plan)
    forward = next(phase for phase in footprint.phases if phase.name == "policy forward")
    kept = forward.by_category()
    cards = st.grid(4, min_column_width=170)
    cards.metric(
        "The document",
        "2.4 GB",
        "per forward pass",
        delta_arrow="off",
        delta_color="off",
        border=True,
    )
    last = next(claim for claim in doc_004.TABLE if claim.what == "Per forward pass")
    cards.metric(
        "Its own sum",
        _value(last, last.derived),
        "in bytes",
        delta_arrow="off",
        delta_color="off",
        border=True,
    )
    cards.metric(
        "With the true shapes",
        _value(last, last.true),
        "the same inventory",
        delta_arrow="off",
        delta_color="off",
        border=True,
    )
    cards.metric(
        "What autograd keeps",
        unit.read(kept.get("activations", 0)),
        "activations, planned",
        delta_arrow="off",
        delta_color="off",
        border=True,
        help="The exact sum over every operation of the layers, eager attention, LoRA on all "
        "projections, no checkpointing; logits apart.",
    )
    st.markdown(
        "The table counts elements and calls them bytes, takes a 7B model's shapes for a 3B "
        "model, and leaves out what norms, SiLU, the softmax and LoRA keep. The first two halve "
        "and raise the figure, the third is the larger part of the truth."
    )
    claims(doc_004.TABLE)
    st.markdown(doc_004.PASSES)
    open_button(ACTIVATIONS, "004")


def claims(found: Sequence[Claim]) -> None:
    """A table of claims; each derivation opens below it."""
    st.table(
        pd.DataFrame(
            {
                "What": [f"**{claim.what}**: {claim.why}" for claim in found],
                "The document": [claim.written for claim in found],
                "Its own sum": [
                    f"{_value(claim, claim.derived)} {MARKS[claim.judgement]}" for claim in found
                ],
                "Right": [_value(claim, claim.true) for claim in found],
            }
        ).set_index("What")
    )
    with st.expander("The sums with their numbers", icon=":material/calculate:"):
        lines = []
        for claim in found:
            if claim.working is not None:
                numbers = put_in(claim.working.expression, claim.working.inputs)
                lines.append(f"{claim.what}\n  = {claim.working.expression}\n  = {numbers}")
        st.code("\n".join(lines), language=None, wrap_lines=True)


def _value(claim: Claim, value: float | None) -> str:
    if value is None:
        return "—"
    if value == 0:
        return "0"
    if claim.unit == "GB" and value < 0.01:
        return f"{value * 1000:.3g} MB"
    if claim.unit == "MB" and value < 0.01:
        return f"{value * 1000:.3g} KB"
    return f"{value:,.3g} {claim.unit}" if value < 1000 else f"{value:,.0f} {claim.unit}"
