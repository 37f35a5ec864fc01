"""The documents this project grew from: their numbers, their own sums, and the truth."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from planner.examples import doc_000, doc_000_scaling, doc_004
from planner.examples.claim import GB, Claim
from planner.footprint import Footprint
from planner.plan import Plan
from planner.plan.presets import presets
from planner.ui import compute
from planner.ui.display import put_in
from planner.ui.elements import card, cards
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
    method = presets()[AS_WRITTEN["PPO"]].plan.method
    plan = draft.edited(intuitor, {"method": method, "responses_per_prompt": 8}).plan
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


def intuitor_against_ppo() -> None:
    """Document 000."""
    st.header(doc_000.TITLE, anchor="doc-000")
    intuitor, ppo = presets()[REAL].plan, real_ppo()
    mine, other = at_length(intuitor, 6_000), at_length(ppo, 6_000)
    places = cards()
    card(places, "The document: PPO", "13.2 GB", "in all")
    card(places, "The document: Intuitor", "481 GB", "36 times PPO")
    card(
        places,
        "Planned: PPO",
        session.read(other.device_bytes),
        other.worst.name,
        "Peak per GPU on eight H100 at the same 6K tokens, with the critic PPO needs.",
    )
    card(
        places,
        "Planned: Intuitor",
        session.read(mine.device_bytes),
        f"{mine.device_bytes / other.device_bytes:.2f} times PPO",
        "Peak per GPU on eight H100, as the method's own trainer runs it.",
    )
    st.markdown(
        "The document fears 468 GB of logits. They never exist: self-certainty is read without "
        "a gradient, micro-batch by micro-batch, beside log-probs that PPO computes too. And "
        "Intuitor trains **no critic**, so it needs less than PPO, not more."
    )
    st.subheader("Its breakdown", anchor=False)
    claims(doc_000.BREAKDOWN)
    st.subheader("Its scaling table", anchor=False)
    scaling(intuitor, ppo)
    st.subheader("Its advice", anchor=False)
    claims(doc_000_scaling.ADVICE)
    st.markdown(doc_000_scaling.CHUNKS)
    as_written()


def scaling(intuitor: Plan, ppo: Plan) -> None:
    """The scaling table: claimed, by the document's own formula, and planned."""
    rows = []
    for place, tokens in enumerate(LENGTHS):
        claimed = doc_000_scaling.SCALING[3 * place : 3 * place + 3]
        a, b = at_length(intuitor, tokens), at_length(ppo, tokens)
        cells = {"Tokens": f"{tokens:,}"}
        for n, (name, claim) in enumerate(zip(("PPO", "Intuitor", "Ratio"), claimed, strict=True)):
            cells[f"{name}: claimed"] = claim.written
            cells["by its formula" + " " * n] = _value(claim, claim.derived)
        rows.append(
            {
                **cells,
                "**PPO, planned**": session.read(b.device_bytes),
                "**Intuitor, planned**": session.read(a.device_bytes),
                "**Ratio, planned**": f"{a.device_bytes / b.device_bytes:.2f}×",
            }
        )
    st.table(pd.DataFrame(rows).set_index("Tokens"))
    st.caption(
        "Planned: peak of one of eight H100, from this app's estimate of both plans. The "
        "document's columns are whole-run figures of one undivided batch."
    )


def as_written() -> None:
    """The document's assumptions as plans one can open."""
    st.subheader("Its assumptions, planned literally", anchor=False)
    plan = presets()[AS_WRITTEN["Intuitor"]].plan
    premise = compute.footprint(plan)
    honest = compute.footprint(plan.changed(self_certainty_gradient=False))
    literal_ppo = compute.footprint(presets()[AS_WRITTEN["PPO"]].plan)
    st.markdown(
        f"All 64 rows in one forward over eight cards, bf16 everywhere. With a gradient through "
        f"self-certainty one card would need **{session.read(premise.device_bytes)}**; without it, "
        f"which is what the method does, **{session.read(honest.device_bytes)}**; PPO needs "
        f"**{session.read(literal_ppo.device_bytes)}**. The switch is *Gradient through "
        f"self-certainty* under Roles."
    )
    with st.container(horizontal=True):
        for key in (*AS_WRITTEN.values(), REAL):
            open_button(key, "000")


def activations() -> None:
    """Document 004."""
    st.header(doc_004.TITLE, anchor="doc-004")
    footprint = compute.footprint(presets()[ACTIVATIONS].plan)
    forward = next(phase for phase in footprint.phases if phase.name == "policy forward")
    last = next(claim for claim in doc_004.TABLE if claim.what == "Per forward pass")
    places = cards()
    card(places, "The document", "2.4 GB", "per forward pass")
    card(places, "Its own sum", _value(last, last.derived), "in bytes")
    listed = _value(last, doc_004.INVENTORY.value / GB)
    card(places, "With the true shapes", listed, "the same inventory")
    card(
        places,
        "What autograd keeps",
        session.read(forward.by_category().get("activations", 0)),
        "activations, planned",
        "The exact sum over every operation of the layers, eager attention, LoRA on all "
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
    rows = [
        (
            f"**{claim.what}**: {claim.why}",
            claim.written,
            f"{_value(claim, claim.derived)} {MARKS[claim.judgement]}",
            _value(claim, claim.true),
        )
        for claim in found
    ]
    columns = ["What", "The document", "Its own sum", "Right"]
    st.table(pd.DataFrame(rows, columns=columns).set_index("What"))
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
    smaller = {"GB": "MB", "MB": "KB"}.get(claim.unit)
    if smaller and value < 0.01:
        return f"{value * 1000:.3g} {smaller}"
    return f"{value:,{'.3g' if value < 1000 else '.0f'}} {claim.unit}"
