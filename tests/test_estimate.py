"""The whole estimate against figures that real training steps gave, and its properties."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from planner import catalog
from planner.answer import to_json
from planner.estimate import estimate
from planner.footprint import Footprint, Phase
from planner.formulas.allocator import CACHED
from planner.formulas.held import HELD
from planner.plan import Plan
from planner.plan.labels import whole_subject
from planner.plan.presets import presets
from planner.plan.relevance import without_effect
from planner.sweeps.table import sweep
from planner.term import OUTSIDE
from planner.units import GIB, MIB

CUBLAS_ON_H100 = 64 * MIB
"""Two workspaces of 32 MiB that a dry run on a CPU cannot see."""


def phase(footprint: Footprint, name: str) -> Phase:
    return next(phase for phase in footprint.phases if phase.name == name)


def own_mib(footprint: Footprint, name: str) -> float:
    """Requested MiB of a phase without the cuBLAS workspaces."""
    return (phase(footprint, name).requested_bytes - CUBLAS_ON_H100) / MIB


def full_step(**changes: Any) -> Plan:
    """A bf16 full fine-tuning step on one card, as in the published dry runs."""
    values: dict[str, Any] = {
        "model": "Qwen/Qwen3-0.6B",
        "method": "sft",
        "gpus": 1,
        "sharding": "none",
        "master_dtype": "none",
        "prompts_per_step": 4,
        "micro_batch_size": 4,
        "prompt_tokens": 512,
        "response_tokens": 512,
        "batch_shape": "full",
        "optimizer": "adamw-foreach",
        "gradient_checkpointing": "none",
    }
    return Plan(**{**values, **changes})


# Live bytes of a real step (transformers 5.23.0, torch 2.13.0, fake tensors) of
# Qwen3-0.6B, 4 x 1024 tokens: docs/memory-notes.md, finding 1.
@pytest.mark.parametrize(("checkpointing", "backward_mib"), [("none", 18_424), ("full", 10_789)])
def test_backward_peak_equals_the_real_step(checkpointing: str, backward_mib: int) -> None:
    footprint = estimate(full_step(gradient_checkpointing=checkpointing))
    assert own_mib(footprint, "policy backward") == pytest.approx(backward_mib, rel=2e-4)


def test_optimizer_peak_equals_the_real_step() -> None:
    # 2 + 2 + 4 + 2 bytes for each of 596 M parameters.
    assert own_mib(estimate(full_step()), "optimizer step") == pytest.approx(5_685, rel=2e-4)


def test_checkpointed_peak_moves_from_the_logits_to_the_gradients() -> None:
    """Qwen2.5-7B, 1 x 4096, checkpointed: 56.77 GiB when the backward ends, not 51.55 at the head.

    Counted in a step on fake tensors with ``tests/live_bytes.py`` (docs/memory-notes.md).
    """
    plan = full_step(
        model="Qwen/Qwen2.5-7B",
        gradient_checkpointing="full",
        prompts_per_step=1,
        micro_batch_size=1,
        prompt_tokens=2048,
        response_tokens=2048,
    )
    backward = phase(estimate(plan), "policy backward")
    assert backward.instant in ("first layer's backward", "embedding's backward")
    own = (backward.requested_bytes - CUBLAS_ON_H100) / GIB
    assert 56.76 <= own == pytest.approx(56.77, rel=0.005)


def test_second_micro_batch_has_all_gradients_alive() -> None:
    """A plan that accumulates holds every gradient (2 bytes each) during the forward."""
    one, two = (
        phase(estimate(full_step(prompts_per_step=4 * n, micro_batch_size=4)), "policy forward")
        for n in (1, 2)
    )
    assert two.requested_bytes - one.requested_bytes == 2 * 596_049_920


def test_fsdp_shards_fp32_masters_and_states() -> None:
    """Qwen2.5-1.5B over 8 ranks: 0.719 GiB of weights, 2.157 with AdamW's states."""
    plan = Plan(model="Qwen/Qwen2.5-1.5B", gpus=8, kl="none")
    terms = {term.name: term.bytes for term in phase(estimate(plan), "weight sync").terms}
    assert terms["weights"] / GIB == pytest.approx(0.719, abs=5e-4)
    assert (terms["weights"] + terms["Adam moments"]) / GIB == pytest.approx(2.157, abs=5e-4)


PLANS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(
            [
                "Qwen/Qwen2.5-0.5B",
                "Qwen/Qwen3-1.7B",
                "meta-llama/Llama-3.2-1B",
                "google/gemma-3-1b-pt",
            ]
        ),
        "method": st.sampled_from(["grpo", "ppo", "intuitor"]),
        "gpus": st.sampled_from([1, 2, 8]),
        "micro_batch_size": st.sampled_from([1, 2, 4]),
        "prompt_tokens": st.integers(16, 1024),
        "response_tokens": st.integers(16, 4096),
        "batch_shape": st.sampled_from(["full", "padded"]),
        "gradient_checkpointing": st.sampled_from(["none", "full"]),
        "finetuning": st.sampled_from(["full", "lora"]),
        "rollout": st.sampled_from(["hf", "vllm-colocated"]),
        "optimizer": st.sampled_from(["adamw-fused", "adamw-foreach", "adamw-8bit", "sgd"]),
        "empty_cache": st.sampled_from(["never", "between-phases", "every-step"]),
        "logits": st.sampled_from(["full", "response", "chunked", "fused"]),
    }
)
KEPT_TO_THE_CARD = {
    "model": "Qwen/Qwen3-1.7B",
    "gpus": 2,
    "micro_batch_size": 1,
    "prompt_tokens": 16,
    "response_tokens": 1451,
    "gradient_checkpointing": "full",
    "optimizer": "adamw-fused",
    "empty_cache": "never",
    "logits": "full",
}
"""Its allocator keeps, unused, all that is left of the card while it generates."""
FIT_EACH_OTHER = {
    "model": "Qwen/Qwen2.5-0.5B",
    "gpus": 2,
    "micro_batch_size": 2,
    "prompt_tokens": 16,
    "response_tokens": 380,
    "batch_shape": "padded",
    "finetuning": "lora",
    "optimizer": "adamw-8bit",
    "empty_cache": "every-step",
    "logits": "full",
}
"""With three layers in place of one its allocator keeps 32 MB less unused: 39 kB less in all."""


@settings(max_examples=60, deadline=None)
@given(PLANS)
def test_terms_sum_to_the_peak_of_their_instant(values: dict[str, Any]) -> None:
    for found in estimate(Plan(**values)).phases:
        inside = sum(
            int(term.bytes)
            for term in found.terms
            if not term.host and term.category not in OUTSIDE and term.category != "allocator"
        )
        assert inside == found.requested_bytes
        assert sum(found.by_category().values()) == pytest.approx(found.device_bytes, abs=4)
        assert found.requested_bytes <= found.allocated_bytes + 1 <= found.reserved_bytes + 2
        assert found.reserved_bytes <= found.device_bytes


@settings(max_examples=40, deadline=None)
@given(PLANS, st.sampled_from(["response_tokens", "micro_batch_size", "prompt_tokens"]))
def test_more_work_never_needs_less(values: dict[str, Any], field: str) -> None:
    # Expandable segments: without them the unused ends of segments come and go with sizes.
    fixed = {"prompts_per_step": 64, "responses_per_prompt": 8, "expandable_segments": True}
    plan = Plan(**{**values, **fixed})
    more = plan.changed(**{field: 2 * getattr(plan, field)})
    for before, after in zip(estimate(plan).phases, estimate(more).phases, strict=True):
        # What is held and cached unused follows how kinds of tensors differ, which may shrink.
        assert _in_use(after) >= _in_use(before)


def _in_use(phase: Phase) -> int:
    outside = sum(int(t.bytes) for t in phase.terms if t.category in OUTSIDE and not t.host)
    return phase.allocated_bytes + outside


@settings(max_examples=25, deadline=None)
@given(PLANS)
def test_resident_state_falls_with_sharding(values: dict[str, Any]) -> None:
    plan = Plan(**{**values, "gpus": 8, "sharding": "fsdp2"})
    wider = plan.changed(gpus=16)
    for role in ("policy", "critic"):
        few, many = (
            sum(
                int(term.bytes)
                for term in phase(estimate(p), "optimizer step").terms
                if term.role == role and not term.host
            )
            for p in (plan, wider)
        )
        assert many <= few


@settings(max_examples=25, deadline=None)
@given(PLANS, st.integers(1, 40), st.integers(1, 8))
@example(KEPT_TO_THE_CARD, 36, 1)
@example(FIT_EACH_OTHER, 1, 2)
def test_deeper_models_need_more(values: dict[str, Any], layers: int, more: int) -> None:
    config = dict(catalog.model(values["model"]).config)
    config.pop("layer_types", None)
    plans = [
        Plan(
            **{
                **values,
                "config": catalog.encode_config({**config, "num_hidden_layers": depth}),
                "expandable_segments": True,
                "rollout": "hf",
            }
        )
        for depth in (layers, layers + more)
    ]
    shallow, deep = (estimate(plan) for plan in plans)
    for before, after in zip(shallow.phases, deep.phases, strict=True):
        assert after.allocated_bytes > before.allocated_bytes
        assert used(after) > used(before)


def used(phase: Phase) -> int:
    """A phase's bytes without what the allocator keeps and no tensor needs.

    That follows which sizes fit each other's blocks, up to all of the card: a deeper model may
    leave less of it, on a real card too.
    """
    unused = [term.bytes for term in phase.terms if term.name in (HELD.name, CACHED.name)]
    return phase.device_bytes - sum(map(int, unused))


def test_json_has_the_one_shape() -> None:
    answer = to_json(estimate(Plan()))
    assert set(answer) == {
        "v", "source", "plan", "verdict", "budget_bytes", "requested_bytes", "allocated_bytes",
        "reserved_bytes", "device_bytes", "low_bytes", "high_bytes", "host_bytes", "host_low_bytes",
        "host_high_bytes", "seconds",
        "worst_phase", "worst_rank", "low_seconds", "high_seconds", "seconds_error",
        "seconds_from", "reference_cache", "error", "phases", "warnings", "training_bytes", "pool",
        "limits", "assumptions",
    }  # fmt: skip
    assert answer["error"]["low"] is None, "nobody has measured the error yet: not 0"
    assert answer["phases"][0]["seconds"] is None, "the time to load is unknown: not 0"
    assert answer["phases"][0]["low_seconds"] is None and not answer["phases"][0]["seconds_error"]
    for told in (answer, *(one for one in answer["phases"] if one["seconds"])):
        assert told["low_seconds"] <= told["seconds"] <= told["high_seconds"]
        assert "published" in told["seconds_error"]


def test_the_verdict_says_what_training_needs_beside_what_the_engine_is_given() -> None:
    found = estimate(presets()["grpo-7b@1"].plan)
    backward = next(phase for phase in found.phases if phase.name == "policy backward")
    rollout = next(phase for phase in found.phases if phase.name == "rollout")
    assert found.worst is rollout and not backward.pool_bytes
    # Qwen2.5-7B: keys and values of 4 heads of 128 in 28 layers, of 512 + 2,048 tokens, in bf16.
    sequence_bytes = 2 * 28 * 4 * 128 * 2 * (512 + 2048)
    holds, share_bytes = rollout.pool_bytes // sequence_bytes, found.budget_bytes // 2
    assert found.verdict.sentence.endswith(" of 79.1 GiB, during rollout.")
    reserved, needed = (f"{size / 2**30:.1f} GiB" for size in (share_bytes, backward.device_bytes))
    assert {
        f"Training peaks at {needed}, during policy backward.",
        f"vLLM reserves {reserved} (gpu_memory_utilization 0.5) and can hold {holds} full-length "
        "sequences.",
    } <= {*found.verdict.lines}
    answer = to_json(found)
    assert answer["pool"] == {"share_bytes": share_bytes, "sequences": holds}
    assert answer["training_bytes"] == backward.device_bytes
    pools = {phase["name"]: phase["pool_bytes"] for phase in answer["phases"]}
    assert pools["rollout"] == rollout.pool_bytes and pools["policy backward"] == 0


def test_a_longer_response_moves_what_training_needs_where_the_peak_is_the_engines() -> None:
    plan = presets()["grpo-7b@1"].plan
    short, long = (estimate(plan.model_copy(update={"response_tokens": n})) for n in (1024, 3072))
    assert short.device_bytes == long.device_bytes, "the share decides, whatever is trained"
    needs = [to_json(one)["training_bytes"] for one in (short, long)]
    assert needs[0] < needs[1]
    assert short.verdict.sentence == long.verdict.sentence
    told = [set(one.verdict.lines) for one in (short, long)]
    assert any(line.startswith("Training peaks at") for line in told[0] - told[1])


def test_an_engine_that_never_sleeps_is_no_part_of_what_training_needs() -> None:
    plan = presets()["grpo-7b@1"].plan
    asleep, awake = (
        estimate(plan.model_copy(update={"vllm_sleep_level": level})) for level in (1, 0)
    )
    phases = [
        next(phase for phase in one.phases if phase.name == "policy backward")
        for one in (asleep, awake)
    ]
    assert phases[1].device_bytes > phases[0].device_bytes + 2**34
    assert phases[1].training_bytes <= phases[0].training_bytes
    assert any(line.startswith("Training peaks at") for line in awake.verdict.lines)


def test_an_engine_that_cannot_hold_one_sequence_blocks_the_plan() -> None:
    footprint = estimate(Plan(gpu_memory_utilization=0.2))
    assert footprint.verdict.word == "out of memory"
    assert "gpu_memory_utilization" in footprint.blockers[0]


def test_too_little_host_ram_blocks_the_plan() -> None:
    footprint = estimate(Plan(offload="all-between-phases", host_ram_per_node=64 * GIB))
    assert footprint.verdict.word == "out of memory"
    assert "host RAM" in footprint.blockers[0]


def test_an_unknown_rate_leaves_time_unknown() -> None:
    footprint = estimate(Plan(gpu="custom", gpu_bytes=80 * GIB))
    assert footprint.step_seconds is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpu": "custom", "gpu_bytes": 80 * GIB}, "not known for a custom GPU"),
        ({"gpu": "t4", "gpus": 2}, "T4 has no published FLOPS in bf16; fp16 is published"),
        ({"gpu": "m4-max-128gb", "gpu_bytes": 80 * GIB}, "in bf16 or interconnect bandwidth."),
        ({"gpu": "t4", "gpus": 2, "dtype": "fp16"}, ""),
        ({}, ""),
    ],
)
def test_a_time_that_is_not_known_says_why(changes: dict[str, Any], said: str) -> None:
    fields = {"method": "sft", "model": "Qwen/Qwen2.5-0.5B", **changes}
    footprint = estimate(Plan(**fields))
    notes = [note for note in footprint.notes if note.startswith("Times are not known")]
    assert (footprint.step_seconds is None) == bool(said) == bool(notes)
    assert all(said in note for note in notes)


@pytest.mark.parametrize(
    ("preset", "changes", "said"),
    [
        ("grpo-lora-1gpu@1", {}, "1 × H100 80GB SXM5: GRPO of Qwen2.5-7B with TRL 1.16.0"),
        ("ppo-7b@1", {}, "8 × H100 80GB SXM5: PPO of Qwen2.5-7B with verl 0.9.1"),
        (
            "intuitor-1.5b@1",
            {"gpu": "rtx-4090"},
            "8 × RTX 4090: Intuitor of Qwen2.5-1.5B with plain PyTorch 2.13.0",
        ),
    ],
)
def test_a_plan_is_named_by_gpus_method_model_and_framework(
    preset: str, changes: dict[str, object], said: str
) -> None:
    assert whole_subject(presets()[preset].plan.changed(**changes)) == said


def test_a_model_of_the_hub_is_named_by_its_id_and_a_pasted_one_is_not() -> None:
    config = catalog.encode_config(
        {
            "model_type": "llama",
            "hidden_size": 512,
            "intermediate_size": 1024,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "num_key_value_heads": 8,
            "vocab_size": 32000,
            "max_position_embeddings": 8192,
        }
    )
    hub = whole_subject(Plan(model="nobody/own-llama", config=config))
    assert "GRPO of own-llama with" in hub
    pasted = whole_subject(Plan(config=config))
    assert "GRPO of llama from a config.json with" in pasted


def test_a_compiled_entropy_is_bounded_by_what_a_processor_kept() -> None:
    """4 bytes an entry of the packed batch's logits, 152,064 a token; nothing for a reference."""
    plan = Plan(
        framework="verl", method="grpo", model="Qwen/Qwen2.5-7B", gpus=8, kl="loss",
        empty_cache="between-phases", logprob_micro_batch_size=4,
    )  # fmt: skip
    phases = {phase.name: phase for phase in estimate(plan).phases}
    tokens = plan.logprob_micro_batch_size * (plan.prompt_tokens + plan.response_tokens)
    scored, reference = phases["old log-probs"], phases["reference log-probs"]
    assert {term.name for term in reference.terms}.isdisjoint(
        {"what another moment may need at most", "buffer of the compiled entropy"}
    )
    # Another moment is the peak by less than that, and the reference's phase has all else alike.
    more = (scored.high_bytes - scored.device_bytes) - (
        reference.high_bytes - reference.device_bytes
    )
    buffer = 4 * tokens * 152_064
    assert 0.6 * buffer < more <= buffer
    table = sweep(plan, {"logprob_micro_batch_size": [1, 4]})
    for rows, high in zip((1, 4), table["high_bytes"], strict=True):
        assert estimate(plan.changed(logprob_micro_batch_size=rows)).high_bytes == high


def test_self_certainty_with_gradient_needs_no_optimizer_phase() -> None:
    """An optimizer that steps in the backward leaves none; the estimate once fell over it."""
    plan = Plan(
        method="intuitor", self_certainty_gradient=True, gpus=1, sharding="none", kl="none",
        optimizer="adamw-fused", optimizer_step="in-backward",
    )  # fmt: skip
    assert "optimizer step" not in {phase.name for phase in estimate(plan).phases}


@pytest.mark.parametrize("logits", ["full", "response"])
def test_whole_logits_of_given_tokens_are_widened_whatever_the_plan_says(logits: str) -> None:
    """transformers' ``ForCausalLMLoss`` (5.23.0) begins with ``logits.float()``."""
    sft = {"method": "sft", "rollout": "none", "kl": "none", "sharding": "fsdp2", "gpus": 4}
    plans = [Plan(**sft, logits=logits, logits_dtype=dtype) for dtype in ("bf16", "fp32")]
    assert "logits_dtype" in without_effect(plans[0])
    one, other = map(estimate, plans)
    assert one.phases == other.phases
