"""Whole DPO steps run for real on tiny models: every phase's peak against the estimate."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch

from accuracy.real_step import build
from evidence import Evidence
from live_bytes import LiveBytes
from planner import catalog
from planner.estimate import estimate
from planner.launch.export import why_not
from planner.plan import Plan
from planner.setup.quantities import quantities
from planner.steps.stage import DTYPES, Stage
from planner.steps.vocabulary import preference_loss, token_log_probs
from planner.sweeps.table import sweep
from test_real_steps import CONFIGS, CUBLAS

torch.set_num_threads(1)


def tiny_plan(family: str, **changes: Any) -> Plan:
    values: dict[str, Any] = {
        "model": "tiny/model",
        "config": catalog.encode_config({**CONFIGS[family], "model_type": family}),
        "method": "dpo",
        "gpus": 1,
        "sharding": "none",
        "prompts_per_step": 4,
        "micro_batch_size": 2,
        "prompt_tokens": 41,
        "response_tokens": 67,
        "batch_shape": "full",
        "optimizer": "adamw-foreach",
        "gradient_checkpointing": "none",
        "attention": "eager",
        "logits": "full",
        **changes,
    }
    if values.get("finetuning") != "lora":
        values["master_dtype"] = "none"
    return Plan(**values)


class Step:
    """One DPO run: chosen and rejected rows of a pair go through one forward."""

    def __init__(self, plan: Plan, config: dict[str, Any]) -> None:
        self.plan, self.vocab = plan, config["vocab_size"]
        self.tracker = LiveBytes()
        self.found: dict[str, int] = {}
        with self.tracker:
            self.policy = build(config, plan)
            self.reference = self.policy
            if plan.reference == "copy":
                self.reference = build(config, plan.model_copy(update={"finetuning": "full"}))
                self.reference.eval().requires_grad_(False)
            trained = [weight for weight in self.policy.parameters() if weight.requires_grad]
            self.optimizer = torch.optim.AdamW(trained, foreach=True)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.tracker.reset_peak()
        yield
        self.found[name] = self.tracker.peak

    def log_probs(self, model: Any, ids: torch.Tensor) -> torch.Tensor:
        """Log-probability of every row's response."""
        causal = model.get_base_model() if hasattr(model, "get_base_model") else model
        hidden = causal.base_model(input_ids=ids, use_cache=False).last_hidden_state
        targets = ids.roll(-1, 1)
        if self.plan.logits != "full":
            keep = self.plan.response_tokens + 1
            hidden, targets = hidden[:, -keep:], targets[:, -keep:]
        taken = token_log_probs(
            Stage(),
            hidden,
            causal.lm_head,
            targets,
            how=self.plan.logits,
            logits_dtype=DTYPES[self.plan.logits_dtype],
            softcap=getattr(causal.config, "final_logit_softcapping", None) or 0.0,
        ).log_probs[:, -self.plan.response_tokens - 1 : -1]
        return (taken * torch.ones_like(taken, dtype=torch.bool)).sum(-1)

    def run(self) -> dict[str, int]:
        plan = self.plan
        rows = 2 * plan.micro_batch_size
        length = plan.prompt_tokens + plan.response_tokens
        batches = [
            torch.randint(3, self.vocab, (rows, length))
            for _ in range(plan.prompts_per_step // plan.micro_batch_size)
        ]
        with self.tracker:
            for _ in range(2):
                known = self.references(batches)
                for batch, reference in zip(batches, known, strict=True):
                    ids = batch.clone()
                    with self.phase("policy forward"):
                        loss = preference_loss(self.log_probs(self.policy, ids), reference)
                    with self.phase("policy backward"):
                        (loss / len(batches)).backward()
                    del loss, ids
                with self.phase("optimizer step"):
                    self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
        return self.found

    def references(self, batches: list[torch.Tensor]) -> list[torch.Tensor]:
        if self.plan.reference == "cached-logprobs":
            return [torch.zeros(len(batch)) for batch in batches]
        known = []
        with self.phase("reference log-probs"), torch.no_grad(), self.disabled():
            for batch in batches:
                ids = batch.clone()
                known.append(self.log_probs(self.reference, ids))
                del ids
        return known

    def disabled(self) -> Any:
        adapters = self.plan.reference == "adapter-disabled"
        return self.policy.disable_adapter() if adapters else nullcontext()


LORA = {"finetuning": "lora", "lora_rank": 4, "lora_targets": "q_proj,v_proj"}
CASES: list[tuple[str, dict[str, Any]]] = [
    *(
        (family, {"logits": logits, "dtype": dtype})
        for family in ("llama", "qwen2", "gemma2")
        for logits in ("full", "response", "chunked", "fused")
        for dtype in ("bf16", "fp32")
    ),
    *(
        ("qwen3", {"logits": "full", **more})
        for more in (
            {"reference": "cached-logprobs"},
            {"gradient_checkpointing": "full"},
            {"prompts_per_step": 2},
            {**LORA},
            {**LORA, "reference": "copy"},
            {**LORA, "reference": "cached-logprobs", "gradient_checkpointing": "full"},
            {"logits_dtype": "bf16"},
        )
    ),
]


def named(family: str, changes: dict[str, Any]) -> str:
    return f"{family}-{'-'.join(str(v) for v in changes.values())}"


EVIDENCE = Evidence(
    "dpo-steps",
    of=("test_real_dpo", "accuracy.tiny"),
    kinds={named(family, changes): family for family, changes in CASES},
    within=5e-4,
)


@pytest.mark.parametrize(
    ("family", "changes"),
    CASES,
    ids=[named(family, changes) for family, changes in CASES],
)
def test_every_phase_peaks_where_the_real_step_does(family: str, changes: dict[str, Any]) -> None:
    plan = tiny_plan(family, **changes)
    config = {**CONFIGS[family], "model_type": family}

    def run() -> dict[str, int]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Step(plan, config).run()

    real = EVIDENCE.figures(named(family, changes), [plan.model_dump(), config], run)
    phases = {phase.name: phase for phase in estimate(plan).phases}
    assert ("reference log-probs" in phases) == (plan.reference != "cached-logprobs")
    # A head that meets the response alone copies its rows out of the final norm's output, which
    # is not in the sum; its input is counted as if all rows were kept.
    close = 1e-3 if plan.logits == "full" else 5e-3
    for name, live in real.items():
        own = phases[name].requested_bytes - CUBLAS
        if name == "reference log-probs":
            assert abs(own - live) <= shared_bytes(plan), (name, phases[name].instant, own - live)
        else:
            # Token ids and targets, which only this small a model notices.
            ids = 2 * 8 * 2 * plan.micro_batch_size * (plan.prompt_tokens + plan.response_tokens)
            over = own - live
            assert -close * live - ids <= over <= close * live, (name, phases[name].instant, over)


def shared_bytes(plan: Plan) -> int:
    """Masks (global and sliding) and rotary tables, or the embedding's output and token ids.

    Without gradients the sum keeps the former until the head, and leaves the latter out while
    the layers run.
    """
    rows, length, hidden = 2 * plan.micro_batch_size, plan.prompt_tokens + plan.response_tokens, 64
    item = 4 if plan.dtype == "fp32" else 2
    masks = 2 * rows * length**2 * item + 4 * length * 16 * item
    return max(masks, 2 * rows * length * hidden * item + 3 * 8 * rows * length)


def test_pairs_are_whole() -> None:
    """Two rows a pair, however the micro-batch is given; a budget holds whole pairs."""
    base: dict[str, Any] = {
        "method": "dpo",
        "gpus": 8,
        "prompts_per_step": 64,
        "prompt_tokens": 500,
        "response_tokens": 500,
    }
    found = quantities(Plan(**base, micro_batch_size=4))
    assert (found.micro_rows, found.micro_row_tokens, found.micro_batches) == (8, 1000, 2)
    assert (found.sequences_per_step, found.sequences_per_gpu_step) == (128, 16)
    # 5,500 tokens hold five rows, so two pairs.
    found = quantities(Plan(**base, max_tokens_per_micro_batch=5500))
    assert (found.micro_sequences, found.micro_tokens, found.micro_batches) == (4, 4000, 4)
    packed = {"batch_shape": "packed", "attention": "flash"}
    found = quantities(Plan(**base, **packed, max_tokens_per_micro_batch=5500))
    assert (found.micro_sequences, found.micro_tokens, found.micro_batches) == (4, 5500, 4)
    found = quantities(Plan(**base, **packed, micro_batch_size=2))
    assert (found.micro_rows, found.micro_row_tokens, found.micro_sequences) == (1, 4000, 4)


def test_reference_by_default() -> None:
    assert Plan(method="dpo").reference == "copy"
    assert Plan(method="dpo", finetuning="lora").reference == "adapter-disabled"
    assert Plan(method="sft").reference == "none"


def test_trl_scores_the_reference_beside_the_saved_forward() -> None:
    """TRL's loss runs the reference after the policy's forward; the plain step before it."""
    base = {"method": "dpo", "model": "Qwen/Qwen2.5-0.5B", "gpus": 1, "sharding": "none"}
    phases = {}
    for framework in ("plain", "trl"):
        plan = Plan(**base, framework=framework, logits="fused", gradient_checkpointing="none")
        phases[framework] = {phase.name: phase for phase in estimate(plan).phases}
    order = list(phases["trl"])
    assert order.index("policy forward") < order.index("reference log-probs")
    plain, trl = (phases[each]["reference log-probs"] for each in ("plain", "trl"))
    saved = sum(term.bytes for term in trl.terms if term.category == "activations")
    assert saved > 10 * sum(term.bytes for term in plain.terms if term.category == "activations")


def test_sweeps_count_pairs() -> None:
    plan = Plan(method="dpo", prompts_per_step=64)
    table = sweep(plan, {"micro_batch_size": [1, 4], "response_tokens": [100, 513]})
    for row in table.to_dict("records"):
        size, length = int(row["micro_batch_size"]), int(row["response_tokens"])
        one = estimate(
            Plan(
                method="dpo",
                prompts_per_step=64,
                micro_batch_size=size,
                response_tokens=length,
            )
        )
        assert row["valid"] and row["device_bytes"] == one.device_bytes
        assert row["step_seconds"] == pytest.approx(one.step_seconds)


@pytest.mark.parametrize("framework", ["verl", "hf_trainer"])
def test_who_exports_it_is_named_where_a_framework_does_not(framework: str) -> None:
    (reason,) = why_not(Plan(method="dpo"), framework)
    assert reason.startswith("method: ") and "Export it to Plain PyTorch or TRL." in reason
