"""The documents' numbers: the sums by hand, the true shapes from the catalog."""

from __future__ import annotations

import pytest

from planner import catalog
from planner.estimate import estimate
from planner.examples import doc_000, doc_000_scaling, doc_004
from planner.examples.claim import Claim, Working
from planner.plan.presets import presets

ALL = (*doc_000.BREAKDOWN, *doc_000_scaling.SCALING, *doc_000_scaling.ADVICE, *doc_004.TABLE)


def claim(found: tuple[Claim, ...], what: str) -> Claim:
    return next(one for one in found if one.what == what)


@pytest.mark.parametrize(
    ("what", "derived"),
    [
        ("Model parameters", 3.0),
        ("Model activations", 1.179648),
        ("Log probabilities", 0.768),
        ("Total regular PPO", 13.180416),
        ("Full logits storage", 233.472),
        ("Self-certainty temporaries", 4.608),
        ("Additional for Intuitor", 466.948608),
        ("Total Intuitor memory", 480.129024),
    ],
)
def test_document_000_follows_from_its_assumptions(what: str, derived: float) -> None:
    found = claim(doc_000.BREAKDOWN, what)
    assert found.derived == pytest.approx(derived, rel=1e-9)
    assert found.judgement == "agrees"


def test_document_000_contradicts_its_own_scaling_table() -> None:
    judged = {one.what: one.judgement for one in doc_000_scaling.SCALING}
    assert [what for what, word in judged.items() if "PPO" in what and word == "agrees"] == [
        "4K tokens: regular PPO"
    ]
    assert judged["8K tokens: Intuitor"] == "agrees"
    assert claim(doc_000_scaling.SCALING, "6K tokens: ratio").derived == pytest.approx(
        36.43, abs=0.01
    )


def test_document_000_saves_less_and_needs_more_than_it_says() -> None:
    advice = {one.what: one for one in doc_000_scaling.ADVICE}
    assert advice["18K tokens"].judgement == "agrees"
    assert advice["2K + 2K = 4K tokens"].derived == pytest.approx(324.08, abs=0.01)
    assert advice["Saving of the new lengths"].derived == pytest.approx(77.78, abs=0.01)
    assert advice["Aggressive setting, per GPU"].derived > 80


def test_document_000_names_the_catalogs_model() -> None:
    model = catalog.model("Qwen/Qwen2.5-1.5B")
    shape = model.architecture
    assert shape is not None
    assert model.params == doc_000.TRUE_PARAMETERS
    assert (shape.hidden, shape.layers, shape.vocab) == (
        doc_000.HIDDEN,
        doc_000.LAYERS,
        doc_000.TRUE_VOCABULARY,
    )


def test_document_000s_critic_doubles_the_training_state() -> None:
    ppo = claim(doc_000.BREAKDOWN, "Total regular PPO").true
    intuitor = claim(doc_000.BREAKDOWN, "Total Intuitor memory").true
    assert ppo == pytest.approx(2 * 24.699, abs=0.01)
    assert ppo == pytest.approx(2 * intuitor)


@pytest.mark.parametrize(
    ("what", "derived", "true"),
    [
        ("One hidden tensor", 7.340032, 4.194304),
        ("Query, key, value", 22.020096, 37.945344),
        ("Attention scores", 29.360128, 50.331648),
        ("Gate and up", 77.594624, 61.997056),
        ("One layer", 158.334976, 243.212288),
        ("All layers", 4.433379328, 8.747249664),
        ("Final logits", 311.427072, 1244.659712),
    ],
)
def test_document_004_counts_elements_as_bytes(what: str, derived: float, true: float) -> None:
    found = claim(doc_004.TABLE, what)
    assert found.derived == pytest.approx(derived, rel=1e-9)
    assert found.true == pytest.approx(true, rel=1e-9)
    assert found.derived == pytest.approx(2 * found.claimed, rel=0.06)
    assert found.judgement == "does not follow"


def test_document_004s_own_list_with_the_true_shapes() -> None:
    """The audit's sum, apart from what the list leaves out."""
    assert doc_004.INVENTORY.value == 36 * 83_886_080 + 4_194_304 + 311_164_928


def test_what_is_right_in_document_004_is_what_its_plan_keeps() -> None:
    footprint = estimate(presets()["doc-004-activations@1"].plan)
    forward = next(phase for phase in footprint.phases if phase.name == "policy forward")
    layers = [term for term in forward.terms if "copies" in term.inputs]
    inner = [term for term in layers if term.inputs["copies"] > 1]
    assert claim(doc_004.TABLE, "One layer").truth.value == sum(
        term.bytes / term.inputs["copies"] for term in inner
    )
    final = ("final norm", "rotary")
    assert claim(doc_004.TABLE, "All layers").truth.value == sum(
        term.bytes for term in layers if not term.name.startswith(final)
    )
    logits = [term.bytes for term in forward.terms if "vocab" in term.inputs]
    assert claim(doc_004.TABLE, "Final logits").truth.value == sum(logits)


def test_document_004_takes_another_models_shape() -> None:
    shape = catalog.model("Qwen/Qwen2.5-Coder-3B").architecture
    assert shape is not None
    assert {
        "rows": 2,
        "tokens": 512,
        "hidden": shape.hidden,
        "heads": shape.heads,
        "kv_width": shape.kv_heads * shape.head_dim,
        "intermediate": shape.intermediate,
        "layers": shape.layers,
        "vocabulary": shape.vocab,
    } == doc_004.TRUE
    seven = catalog.model("Qwen/Qwen2.5-7B").architecture
    assert seven is not None
    assert (seven.hidden, seven.layers) == (doc_004.DOCUMENT["hidden"], doc_004.DOCUMENT["layers"])


def test_every_claim_gives_a_reason() -> None:
    assert all(one.why for one in ALL)


def test_a_number_without_a_derivation_is_said_to_have_none() -> None:
    bare = Claim("x", "1", 1, "rows", why="none given")
    assert (bare.derived, bare.true, bare.judgement) == (None, None, "no derivation")
    off = Claim("x", "1", 1, "rows", why="", working=Working("2"))
    assert off.judgement == "does not follow"
