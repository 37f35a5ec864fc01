"""Documents 001 and 002 in depth: GRADE's runs by estimate and by dry run."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from planner.examples import doc_001, dry_runs
from planner.examples.dry_runs import Case
from planner.ui import compute
from planner.ui.elements import wall
from planner.ui.examples.documents import open_button
from planner.ui.state import session
from planner.units import MIB


def optimised() -> None:
    """Document 001."""
    legacy, best = _found(dry_runs.LADDER[0]), _found(dry_runs.LADDER[-1])
    wall(
        ("The document: before", "40+ GB", "one row of 64 tokens"),
        ("The document: after", "10-15 GB", "three to four times less"),
        ("Dry run: before", session.read(legacy), "policy, reference and reward model"),
        ("Dry run: after", session.read(best), f"{legacy / best:.1f} times less"),
    )
    st.markdown(
        "Of its optimizations **one** changes the memory: the checkpoint around every soft "
        "token. The vocabulary, which the others are about, is megabytes; the graph of 64 "
        "forwards over the whole row is what fills the card."
    )
    st.markdown(doc_001.DIFFERENT_LOSS)
    st.subheader("One optimization after another, by dry run", anchor=False)
    runs(dry_runs.LADDER)
    st.markdown(_ladder())
    runs(dry_runs.ASIDE)
    st.markdown(_aside())
    runs(dry_runs.FULL)
    st.markdown(_full())
    st.subheader("Full fine-tuning of two rows of 64 + 32 tokens", anchor=False)
    runs(dry_runs.EARLIER)
    st.markdown(_earlier())
    _how()
    _buttons(
        "001",
        dry_runs.LEGACY,
        dry_runs.OPTIMISED,
        dry_runs.FULL_LEGACY,
        dry_runs.FULL_OPTIMISED,
    )


def out_of_memory() -> None:
    """Document 002."""
    before, first, after = (_found(case) for case in dry_runs.RUN_002)
    wall(
        ("The document: before", "78 GB", "the card was full"),
        ("The document: after", "25-35 GB", "in all"),
        ("Dry run: before", session.read(before), "what the step needs"),
        (
            "Dry run: after",
            session.read(first),
            f"{session.read(after)} from the second step on",
        ),
    )
    st.markdown(
        "78 GB is the size of the GPU; the step needs nearly twice that. After the changes, plan "
        "for the **first** step: the model is still in evaluation mode then, where transformers "
        "recomputes nothing, and the graph of every token is kept."
    )
    st.subheader("The run, by dry run", anchor=False)
    runs(dry_runs.RUN_002)
    _how()
    st.caption(
        "The code adds dropout and autocast's copies of the adapters, which these plans do not "
        "have. As coded the first step keeps 19.2 GB of activations where these keep 19.8: masks "
        "and half-precision inputs of the adapters for fp32 ones."
    )
    st.subheader("The same runs exactly as coded, and those of the six optimizations", anchor=False)
    runs(dry_runs.AS_CODED)
    _buttons("002", dry_runs.BEFORE, dry_runs.FIRST_STEP, dry_runs.AFTER)


def runs(cases: Sequence[Case]) -> None:
    """Estimate and dry run of each case, at the dry run's worst phase."""
    unit = session.unit()
    rows = []
    for case in cases:
        found = dry_runs.measured()[case.key]
        footprint = compute.footprint(case.plan)
        estimated = next(p for p in footprint.phases if p.name == found.worst).requested_bytes
        rows.append(
            {
                "Run": case.label,
                f"Estimate, {unit.name}": f"{unit.value(estimated):,.2f}",
                f"Dry run, {unit.name}": f"{unit.value(found.requested_bytes):,.2f}",
                "Difference": f"{estimated / found.requested_bytes - 1:+.3%}",
                "Worst phase": found.worst,
                "On the card": session.read(footprint.device_bytes),
            }
        )
    st.table(pd.DataFrame(rows).set_index("Run"))


def _how() -> None:
    """What the columns of the tables above say."""
    st.caption(
        "Estimate and dry run: what tensors ask for at the peak, by formula, and by running the "
        "step on fake tensors (torch {torch}, transformers {transformers}, peft {peft}). "
        "*On the card* adds the allocator and the CUDA context, estimated.".format(
            **dry_runs.versions()
        )
    )


def _ladder() -> str:
    """What each rung of document 001 changed."""
    sizes = [_found(case) for case in dry_runs.LADDER]
    top_k, online, cache, sparse, steps = (
        _signed(after - before) for before, after in zip(sizes, sizes[1:], strict=False)
    )
    return (
        f"Top-k, scattered as coded: **{top_k}**. Online KL: **{online}**; the reference's cache: "
        f"**{cache}**: both concern moments far below the peak. Sparse reward input: **{sparse}**, "
        f"since the gathered embeddings stay for the backward. Step checkpointing: **{steps}**."
    )


def _aside() -> str:
    through, listed = (_found(case) for case in dry_runs.ASIDE)
    before, after = _found(dry_runs.LADDER[0]), _found(dry_runs.LADDER[-1])
    return (
        f"Straight-through against soft tokens: **{_signed(through - before)}**. Leaving the "
        f"scatter out of the optimised run: **{_signed(listed - after)}** at its peak."
    )


def _full() -> str:
    legacy, best = (_found(case) for case in dry_runs.FULL)
    return (
        f"With every weight trained the optimizations save **{_signed(legacy - best)[1:]}**. "
        "What is left is AdamW's own step over four billion weights, which no option of GRADE "
        "touches."
    )


def _earlier() -> str:
    whole, _, online, steps = (_found(case) for case in dry_runs.EARLIER)
    backward = dry_runs.measured()[dry_runs.EARLIER[-1].key].phases["policy backward"]
    return (
        "An earlier run of another program on fake tensors found 76.6, 76.7, 76.8 and 47.8 GiB "
        "for these four. With a KL term, and so a reference, here it is "
        f"**{session.read(online)}**, the same. Without one no reference is loaded here "
        f"(**{session.read(whole)}**; its 7.5 GiB make up the difference), where the earlier run "
        "had all three models in all four. With step checkpointing the backward takes "
        f"**{session.read(backward)}**, somewhat less than 47.8, and the peak moves to the "
        "optimizer: AdamW's *foreach* form makes a temporary as large as the weights, "
        f"**{session.read(steps)}** in all. The fused form has none."
    )


def _found(case: Case) -> int:
    return dry_runs.measured()[case.key].requested_bytes


def _signed(change: int) -> str:
    if abs(change) < MIB:
        return "less than 1 MiB" if change else "nothing"
    return f"{'+' if change > 0 else '−'}{session.read(abs(change))}"


def _buttons(place: str, *keys: str) -> None:
    with st.container(horizontal=True):
        for key in keys:
            open_button(key, place)
