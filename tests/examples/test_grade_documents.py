"""Documents 001 and 002: sums by hand, measured retention, the catalog's shape."""

from __future__ import annotations

from typing import Any

import pytest

from planner import catalog
from planner.estimate import estimate
from planner.examples import doc_001, doc_002, dry_runs, unrolled
from planner.examples.claim import Claim, Working
from planner.formulas.activations import layers
from planner.formulas.activations.layers import layer_saved
from planner.methods.grade.policy_graph import scene_at
from planner.phases.scene import scene_of
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.presets import presets

ALL = (*doc_001.OPTIMIZATIONS, *doc_001.PROFILE, *doc_002.CHANGES)


def claim(found: tuple[Claim, ...], what: str) -> Claim:
    return next(one for one in found if one.what == what)


@pytest.mark.parametrize(
    ("what", "derived", "true", "judgement"),
    [
        ("Memory in use at the error", 79.2375, 79.2300, "agrees"),
        ("Length 48 → 32", 33.333, 42.943, "agrees"),
        ("Model weights (×3), before", 48.0, 48.2696, "agrees"),
        ("Model weights (×3), after", 24.0, 24.1348, "agrees"),
        ("Activations, before", 30.0, 92.6213, "agrees"),
        ("Activations, after: first step", None, 19.7973, "no derivation"),
        ("Activations, after: later steps", None, 0.56033, "no derivation"),
        ("Total, before", 78.0, 140.8909, "agrees"),
        ("Total, after: low end", 34.0, 24.6951, "does not follow"),
        ("Total, after: high end", 39.0, 43.9321, "does not follow"),
        ("Total, reduction: least", 55.128, 68.818, "agrees"),
        ("Total, reduction: most", 67.949, 82.472, "agrees"),
    ],
)
def test_document_002(what: str, derived: float | None, true: float, judgement: str) -> None:
    found = claim(doc_002.CHANGES, what)
    assert found.derived == (None if derived is None else pytest.approx(derived, abs=6e-4))
    assert found.true == pytest.approx(true, abs=6e-4)
    assert found.judgement == judgement


@pytest.mark.parametrize(
    ("what", "derived", "true", "judgement"),
    [
        ("soft_tokens, original", 0.008192, 0.038895616, "does not follow"),
        ("soft_tokens, optimised", 0.196608, 39.18733312, "does not follow"),
        ("ref_logits, original", 0.008192, 0.038895616, "does not follow"),
        ("ref_logits, optimised", None, 0.607744, "no derivation"),
        ("Reference activations, optimised", None, 0.014155776, "no derivation"),
        ("Reward matmul, original", 16.777216, 0.00032768, "does not follow"),
        ("Reward matmul, optimised", 134.217728, 83.88608, "does not follow"),
        ("Policy activations, original", None, 27.015883776, "no derivation"),
        ("Policy activations, optimised", None, 0.02080768, "no derivation"),
        ("Total peak, original", 40.0, 51.150692352, "agrees"),
        ("Total peak, optimised", 7.064, 24.804294496, "does not follow"),
    ],
)
def test_document_001s_table(what: str, derived: float | None, true: float, judgement: str) -> None:
    found = claim(doc_001.PROFILE, what)
    assert found.derived == (None if derived is None else pytest.approx(derived, rel=1e-9))
    assert found.true == pytest.approx(true, rel=1e-9)
    assert found.judgement == judgement


def test_the_positions_of_a_graph_are_counted_one_by_one() -> None:
    for rows, tokens in ((4, 48), (2, 32), (1, 64), (2, 128)):
        lengths = [32 + t for t in range(tokens)]
        by_hand = rows * 36 * sum(171_432 * n + 192 * n * n for n in lengths)
        assert unrolled.kept(rows, tokens, unrolled.BF16).value == by_hand
    before = claim(doc_001.OPTIMIZATIONS, "Reference with a KV cache")
    assert before.true == pytest.approx(sum(32 + t for t in range(64)) / 96)
    attention = claim(doc_001.OPTIMIZATIONS, "Half the length")
    assert attention.true == pytest.approx(4.795, abs=1e-3)


def of_one_layer(plan: Plan, tokens: int) -> int:
    scene = scene_of(plan, facts_of(plan))
    workload = scene_at(scene, tokens).training_workload(scene.policy)
    terms = layer_saved(scene.policy.arch, workload, role="policy", layers=1)
    return sum(int(term.bytes) for term in terms)


@pytest.mark.parametrize(
    ("preset", "kept"),
    [(dry_runs.BEFORE, unrolled.FP32), (dry_runs.FIRST_STEP, unrolled.BF16)],
)
def test_what_a_layer_keeps_is_the_formulas_sum(preset: str, kept: dict[str, int]) -> None:
    plan = presets()[preset].plan
    for tokens in (128, 256):
        by_hand = plan.micro_batch_size * (
            kept["token_bytes"] * tokens + kept["pair_bytes"] * tokens**2
        )
        assert of_one_layer(plan, tokens) == by_hand


@pytest.mark.parametrize(
    ("preset", "token", "pair"), [("before", 323_752, 128), ("first-step", 182_440, 192)]
)
def test_with_every_weight_trained_it_is_what_autograds_hooks_counted(
    preset: str, token: int, pair: int
) -> None:
    """Measured at Qwen3-4B's widths on a CPU, eager attention; the audit of the documents."""
    plan = presets()[f"doc-002-{preset}@1"].plan.changed(
        finetuning="full", master_dtype="none", gradient_dtype="bf16" if pair == 192 else "fp32"
    )
    measured = plan.micro_batch_size * (token * 128 + pair * 128**2)
    assert of_one_layer(plan, 128) == measured


CODED = {"token_bytes": 159_528, "pair_bytes": 192, "step_bytes": 655_360}
"""Bytes a layer keeps as coded, with dropout and autocast: a mask of a byte and a bf16 input for
each adapter in the place of an fp32 input, and for every token bf16 copies of its weights. On a
CPU, whose dropout keeps fp32 noise, the hooks counted 194,856 for 159,528."""
KEPT_CODED = f"{unrolled.KEPT} + tokens * layers * step_bytes"
"""The whole graph as coded."""
CPU_TOKEN = 194_856
"""What autograd's hooks counted on a CPU, whose dropout keeps fp32 noise and no mask."""


@pytest.mark.parametrize(("kernels", "token"), [("cuda", CODED["token_bytes"]), ("cpu", CPU_TOKEN)])
def test_dropout_and_autocast_keep_what_the_hooks_counted(
    kernels: str, token: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit's measurement at Qwen3-4B's widths; per generated token 655,360 bytes of copies.

    The claims "Autocast in the loop" and what the tables say of the runs as coded rest on it.
    """
    made = layers._setting
    monkeypatch.setattr(layers, "_setting", lambda *args: made(*args)._replace(kernels=kernels))
    plan = presets()["doc-001-legacy@2"].plan
    # A length of its own, since layers remember what they made for the card.
    length = {"cuda": 128, "cpu": 130}[kernels]
    assert of_one_layer(plan, length) == token * length + 192 * length**2 + 655_360


def test_a_bytes_mask_is_what_a_card_keeps_for_fp32_noise() -> None:
    widths = 3 * 2560 + 4096
    assert CPU_TOKEN - CODED["token_bytes"] == (4 - 1) * widths


def test_cleaning_up_moves_no_peak() -> None:
    """The claim "Cleaning up": what tensors take at most is the same, emptied or not."""
    plan = presets()["doc-002-after@2"].plan
    peaks = []
    for when in ("never", "between-phases", "every-step"):
        found = estimate(plan.changed(empty_cache=when))
        peaks.append(max(phase.allocated_bytes for phase in found.phases))
    assert len(set(peaks)) == 1 and peaks[0] > 2**34


def test_what_is_said_of_the_runs_as_coded() -> None:
    for rows, tokens, card, cpu in ((2, 32, "19.2", "23.1"), (1, 64, "26.8", "32.0")):
        said = claim(ALL, "Activations, after: first step" if rows == 2 else POLICY).why
        found = (
            Working(KEPT_CODED, unrolled.sizes(rows, tokens, sizes)).value / 1e9
            for sizes in (CODED, {**CODED, "token_bytes": CPU_TOKEN})
        )
        # Copies are made once for all rows of a step.
        assert [f"{each:.1f}" for each in found] == [card, cpu]
        assert card in said and cpu in said


POLICY = "Policy activations, original"


def test_the_model_is_the_catalogs() -> None:
    model = catalog.model("Qwen/Qwen3-4B")
    shape = model.architecture
    assert shape is not None
    assert (model.params, shape.layers, shape.hidden, shape.intermediate, shape.vocab) == (
        unrolled.PARAMETERS,
        unrolled.LAYERS,
        unrolled.HIDDEN,
        unrolled.INTERMEDIATE,
        unrolled.VOCABULARY,
    )
    assert 2 * 2 * shape.layers * shape.kv_heads * shape.head_dim == unrolled.KV_TOKEN_BYTES


def test_the_documents_runs_as_plans() -> None:
    plans = {key: preset.plan for key, preset in presets().items() if preset.plan.method == "grade"}
    assert len(plans) == 13
    for key, plan in plans.items():
        assert (plan.model, plan.gpus, plan.attention) == ("Qwen/Qwen3-4B", 1, "eager")
        assert (plan.reference, plan.reward, plan.prompt_tokens) == ("copy", "model", 32)
        assert plan.finetuning == ("full" if "-full-" in key else "lora")
        assert (plan.lora_rank, plan.lora_targets) == (16, "q_proj,k_proj,v_proj,o_proj")
    rows = [
        (plan.micro_batch_size, plan.prompts_per_update, plan.response_tokens, plan.dtype)
        for plan in plans.values()
    ]
    assert rows == [
        (4, 4, 48, "fp32"),
        (2, 2, 32, "bf16"),
        (2, 2, 32, "bf16"),
        *[(1, 1, 64, "bf16")] * 4,
        (4, 4, 48, "fp32"),
        (2, 2, 32, "bf16"),
        (2, 2, 32, "bf16"),
        *[(1, 1, 64, "bf16")] * 3,
    ]
    for key, plan in plans.items():
        coded, adapters = key.endswith("@2"), plan.finetuning == "lora"
        assert plan.lora_dropout == (0.05 if coded and adapters else 0)
        # Autocast came with document 002's changes.
        assert plan.grade_autocast is (coded and adapters and plan.dtype == "bf16")
        older = presets()[key.replace("@2", "@1")].plan
        online = older.grade_kl == "online"
        assert plan.grade_kl == ("online-metric" if coded and online else older.grade_kl)


def reference_seconds(*, cached: bool, **changes: Any) -> float:
    """Of a step's forward with the reference beside it, less one without."""
    plan = presets()["doc-001-legacy@1"].plan.changed(**changes)
    judged = plan.changed(grade_reference_cache=cached)
    without = plan.changed(grade_kl="none", reference="none")
    both = [
        next(phase.seconds for phase in estimate(each).phases if phase.name == "policy forward")
        for each in (judged, without)
    ]
    assert both[0] is not None and both[1] is not None
    return both[0] - both[1]


def test_what_is_said_of_the_reference_caches_seconds() -> None:
    why = claim(doc_001.OPTIMIZATIONS, "Reference with a KV cache").why
    assert "about 3.2 s" in why and "about 22 times" in why
    # Without a cache the head's products are behind each forward's launches.
    assert reference_seconds(cached=False) == pytest.approx(3.26, abs=0.01)
    assert reference_seconds(cached=True) == pytest.approx(3.24, abs=0.01)
    rows = 16
    size = {name: rows for name in ("prompts_per_step", "prompts_per_update", "micro_batch_size")}
    size |= {"prompt_tokens": 500, "response_tokens": 2000}
    ratio = reference_seconds(cached=False, **size) / reference_seconds(cached=True, **size)
    assert ratio == pytest.approx(22, abs=0.5)


def test_every_option_is_on_and_off_somewhere() -> None:
    for field in (
        "grade_estimator",
        "grade_top_k",
        "grade_dense_scatter",
        "grade_kl",
        "grade_reference_cache",
        "grade_reward_input",
        "grade_step_checkpointing",
        "gradient_checkpointing",
        "finetuning",
    ):
        assert len({getattr(case.plan, field) for case in dry_runs.CASES}) > 1, field


def test_every_claim_gives_a_reason_and_a_verdict() -> None:
    for one in ALL:
        assert one.why and one.judgement in ("agrees", "does not follow", "no derivation")
