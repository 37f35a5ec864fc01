"""Dry runs against real runs of the same steps, as torch's allocator reports them on a CPU."""

from __future__ import annotations

import pytest
import torch

from accuracy.cpu_cases import CASES, Case
from accuracy.cpu_runs import dry_peaks, real_peaks
from evidence import STEPS, Evidence
from planner.dryrun.run.execute import dry_run
from planner.plan.methods import methods
from planner.trial.run.allocations import Marks, peak_bytes

TOLERANCE = 5e-4
SWITCHES = {
    "method": tuple(methods()),
    "finetuning": ("full", "lora"),
    "dtype": ("bf16", "fp32"),
    "master_dtype": ("none", "fp32"),
    "gradient_checkpointing": ("none", "full"),
    "activation_offload": (False, True),
    "attention": ("eager", "sdpa"),
    "batch_shape": ("full", "padded", "packed"),
    "logits": ("full", "response", "chunked", "fused"),
    "logits_dtype": ("bf16", "fp32"),
    "entropy": (False, True),
    "optimizer": ("adamw-fused", "adamw-foreach", "sgd"),
    "reference": (
        "none",
        "copy",
        "adapter-disabled",
        "frozen-adapter",
        "offloaded",
        "cached-logprobs",
        "cached-activations",
        "dual-output",
    ),
    "kl": ("none", "loss", "reward"),
    "offload": (
        "none",
        "optimizer-between-phases",
        "parameters-between-phases",
        "all-between-phases",
    ),
    "reward": ("rule", "model"),
    "critic": ("none", "shared", "separate"),
    "rollout": ("none", "hf", "in-graph", "vllm-separate"),
    "sharding": ("none", "fsdp2"),
    "optimizer_step": ("update", "micro-batch", "in-backward"),
    "base_dtype": ("compute", "fp32"),
    "autocast": (False, True),
    "temperature": (1.0, 0.7),
    "chunk_tokens": (512, 20),
    "reshard_after_forward": (False, True),
    "reinforce_baseline": ("none", "group"),
    "self_certainty": ("full", "chunked-vocabulary", "chunked-tokens"),
    "self_certainty_gradient": (False, True),
    "grade_estimator": ("soft", "straight-through"),
    "grade_dense_scatter": (False, True),
    "grade_kl": ("none", "batch", "online", "online-metric"),
    "grade_reference_cache": (False, True),
    "grade_reward_input": ("dense", "sparse"),
    "grade_step_checkpointing": (False, True),
}

torch.set_num_threads(1)


EVIDENCE = Evidence(
    "real-runs",
    of=("accuracy.cpu_runs", *STEPS),
    kinds={str(case): case.method for case in CASES},
    within=5e-4,
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_phase_peaks_where_the_allocator_says(case: Case) -> None:
    plan, configs = case.plan, case.configs
    real, dry = EVIDENCE.figures(
        str(case),
        [plan.model_dump(), configs],
        lambda: [real_peaks(plan, configs), dry_peaks(plan, configs)],
    )
    assert list(dry) == list(real)
    apart = {name: dry[name] - real[name] for name in real}
    assert not {name: one for name, one in apart.items() if abs(one) > TOLERANCE * real[name]}


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.changes.get("layers", 0) > 7], ids=str
)
def test_deep_cases_repeat_a_block(case: Case) -> None:
    """Their comparison above is one of extrapolated logs, not of a run at full depth."""
    notes = dry_run(case.plan, case.configs, on="cpu").notes
    assert not any("full depth" in note for note in notes), notes


def test_every_switch_is_among_the_cases() -> None:
    plans = [case.plan for case in CASES]
    for field, values in SWITCHES.items():
        assert {getattr(plan, field) for plan in plans} >= set(values), field
    assert {1, 2, 3} <= {plan.prompts_per_step // plan.micro_batch_size for plan in plans}
    assert any(plan.max_tokens_per_micro_batch for plan in plans)
    assert len(CASES) == len({str(case) for case in CASES}) >= 60


def test_the_observer_sees_live_bytes_of_the_last_step_alone() -> None:
    # 4,000 bytes stay, 40,000 of the first step are gone, 8,000 more live for a while in "b".
    def run(marks: Marks) -> torch.Tensor:
        stays = torch.ones(1000)
        marks.phase("a", True)
        first = torch.ones(10_000)
        marks.phase("a", False)
        del first
        with marks.last_step():
            marks.phase("a", True)
            marks.phase("a", False)
            torch.ones(5_000)
            for name in ("b", "c", "b"):
                marks.phase(name, True)
                if name == "b":
                    torch.ones(2_000)
                marks.phase(name, False)
        return stays

    assert peak_bytes(run) == {"a": 4_000, "b": 12_000, "c": 4_000}
