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
        "Of the document's optimizations only **one** changes the memory: the checkpoint around "
        "every soft token. The others are about tensors over the vocabulary, which take only "
        "megabytes; the autograd graph of 64 forwards over the whole row fills the GPU."
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
        "for the **first** step: the model is then still in evaluation mode, in which transformers "
        "recomputes nothing, so the graph of every token is kept."
    )
    st.subheader("The run, by dry run", anchor=False)
    runs(dry_runs.RUN_002)
    _how()
    st.caption(
        "The code adds dropout and autocast's copies of the adapters, which these plans do not "
        "have. The first step as coded stores 19.2 GB of activations, with dropout masks and "
        "half-precision inputs of the adapters. These plans store 19.8 GB, with fp32 inputs "
        "instead."
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
        f"Top-k, with the scatter as coded: **{top_k}**. Online KL: **{online}**. The reference's "
        f"cache: **{cache}**. Online KL and the cache act at moments far below the peak. Sparse "
        f"reward input: **{sparse}**, because the gathered embeddings are saved for the backward. "
        f"Step checkpointing: **{steps}**."
    )


def _aside() -> str:
    through, listed = (_found(case) for case in dry_runs.ASIDE)
    before, after = _found(dry_runs.LADDER[0]), _found(dry_runs.LADDER[-1])
    return (
        f"Straight-through instead of soft tokens: **{_signed(through - before)}**. The optimised "
        f"run without the scatter: **{_signed(listed - after)}** at the run's peak."
    )


def _full() -> str:
    legacy, best = (_found(case) for case in dry_runs.FULL)
    return (
        f"With every weight trained the optimizations save **{_signed(legacy - best)[1:]}**. The "
        "rest is AdamW's step over four billion weights, which no option of GRADE changes."
    )


def _earlier() -> str:
    whole, _, online, steps = (_found(case) for case in dry_runs.EARLIER)
    backward = dry_runs.measured()[dry_runs.EARLIER[-1].key].phases["policy backward"]
    return (
        "An earlier program, also on fake tensors, found 76.6, 76.7, 76.8 and 47.8 GiB for these "
        "four runs. With a KL term, and therefore a reference, this dry run finds "
        f"**{session.read(online)}**, the same as the earlier program. Without a KL term this dry "
        f"run loads no reference (**{session.read(whole)}**; the reference's 7.5 GiB are the "
        "difference), whereas the earlier program loaded all three models in all four runs. With "
        f"step checkpointing the backward takes **{session.read(backward)}**, somewhat less than "
        "47.8 GiB, and the peak moves to the optimizer step: AdamW's *foreach* form allocates a "
        f"temporary as large as the weights, for **{session.read(steps)}** in all. AdamW's fused "
        "form allocates no such temporary."
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
