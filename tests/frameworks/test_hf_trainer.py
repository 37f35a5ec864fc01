"""transformers' own Trainer without data: against itself for real, the closed form, its source."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from importlib.metadata import version
from typing import Any

import pytest
import torch
import transformers
from accelerate import Accelerator
from torch.nn.parallel import distributed
from transformers.loss.loss_utils import ForCausalLMLoss

from accuracy.hf_cases import CASES, LIVE, TRAINER
from accuracy.hf_runs import dry_peaks, real_peaks
from accuracy.trl_cases import ADAPTERS, AUTOCAST, CHECKPOINTED, DDP, FSDP2, HALF, Case
from dry_peaks import meets_dry_run
from framework_runs import real_and_dry
from planner.estimate import estimate
from planner.frameworks.hf_trainer import FRAMEWORK, own_step
from planner.frameworks.hf_trainer.limits import obstacles
from planner.frameworks.hf_trainer.run import step
from planner.launch.huggingface.run import seams, told
from planner.plan import Plan, try_plan
from planner.setup.setup import setup_of

torch.set_num_threads(1)

TOLERANCE = 1e-3
NAMED = {case.name: case for case in CASES}


def case(name: str, **changes: Any) -> Case:
    return Case(name, "sft", {**TRAINER, **changes}, changes.pop("model", "qwen2"))


@pytest.mark.parametrize("name", LIVE)
def test_every_phase_peaks_where_the_allocator_says(name: str) -> None:
    real, dry = real_and_dry(
        NAMED[name], lambda: real_peaks(NAMED[name]), lambda: dry_peaks(NAMED[name])
    )
    assert list(dry) == list(real) and dry == pytest.approx(real, rel=TOLERANCE)


CLOSED = (
    case("bf16", **HALF),
    case("autocast, checkpointed", **AUTOCAST, **CHECKPOINTED),
    case("DDP, LoRA, checkpointed", **DDP, **AUTOCAST, **ADAPTERS, **CHECKPOINTED),
    case("DDP, bf16", **DDP, **HALF),
    case("FSDP2, untied", **FSDP2, **AUTOCAST, **CHECKPOINTED, model="qwen3"),
    case("FSDP2, LoRA, untied", **FSDP2, **AUTOCAST, **ADAPTERS, model="llama"),
    case("FSDP2, whole", **FSDP2, **AUTOCAST, reshard_after_forward=False),
)


@pytest.mark.parametrize("one", CLOSED, ids=str)
def test_the_closed_form_is_what_it_does(one: Case) -> None:
    assert not own_step.refusal(one.whole)
    meets_dry_run(one.whole, within=TOLERANCE / 5, code=FRAMEWORK.name)


def test_ddp_copies_the_logits_that_a_model_returns_where_it_looks_for_unused_weights() -> None:
    """By hand: fp32 logits, their copy and the log-softmax, of two rows of 1,024."""
    one = 4 * 2 * 1024 * 151_936

    def forward(**changes: Any) -> tuple[str, int]:
        plan = case("", **DDP, **AUTOCAST, **changes).whole
        found = next(each for each in estimate(plan).phases if each.name == "policy forward")
        logits = sum(int(term.bytes) for term in found.terms if term.category == "logits")
        return found.instant, logits

    instant, logits = forward()
    assert instant == "copy of the model's output" and 3 * one <= logits < 3.001 * one
    instant, logits = forward(**CHECKPOINTED)
    assert instant != "copy of the model's output" and 2.5 * one <= logits < 2.501 * one


@pytest.mark.parametrize("seam", ["devices", "empties", "environment"])
def test_what_each_seam_is_for(seam: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = case("", **AUTOCAST, **FSDP2, empty_cache="every-step").plan
    config = {"policy": NAMED[LIVE[0]].config}
    whole = step.execute(plan, config)
    assert sum(kind == 5 for kind, *_ in whole.events) == 4  # a cache emptied each micro-batch
    monkeypatch.setattr(seams, seam, lambda *_: nullcontext())
    if seam == "devices":
        with pytest.raises((RuntimeError, NotImplementedError, ValueError)):
            step.execute(case("").plan, config)
    elif seam == "empties":
        assert not [kind for kind, *_ in step.execute(plan, config).events if kind == 5]
    else:
        from accelerate.state import GradientState

        step.execute(plan, config)
        assert GradientState._shared_state  # the next plan's would be this one's
        GradientState._reset_state()


def test_data_is_asked_for_where_an_answer_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "ANSWERS", {})
    with pytest.raises((RuntimeError, NotImplementedError)):
        dry_peaks(NAMED[LIVE[0]])


def test_what_it_did_otherwise_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    other = case("", **HALF, **CHECKPOINTED).plan
    monkeypatch.setattr(told, "setup_of", lambda _: setup_of(other))
    found = step.execute(NAMED["Trainer, autocast"].plan, {"policy": NAMED[LIVE[0]].config}).notes
    (first, second) = [note for note in found if "otherwise" in note]
    assert first.startswith("Transformers Trainer's trainer keeps the policy in fp32")
    assert "under autocast" in second


def test_its_facts_are_in_the_source() -> None:
    assert FRAMEWORK.versions == (version("transformers"),)
    loss = inspect.getsource(ForCausalLMLoss)
    assert "logits = logits.float()" in loss and "nn.functional.pad(labels, (0, 1)" in loss
    trainer = inspect.getsource(transformers.Trainer)
    assert "find_unused = not (self.model.is_activation_checkpointing" in trainer
    assert "functools.partial(self.accelerator.no_sync, model=model)" in trainer
    assert "inp.clone() if isinstance(inp, torch.Tensor)" in inspect.getsource(distributed._DDPSink)
    prepared = inspect.getsource(Accelerator.prepare_model)
    assert "convert_outputs_to_fp32(model.forward.__func__)" in prepared
    told = transformers.TrainingArguments(output_dir="", use_cpu=True)
    assert (told.bf16, told.activation_checkpointing, told.optim) == (
        False, False, "adamw_torch_fused",
    )  # fmt: skip
    values = FRAMEWORK.defaults({})
    assert (values["master_dtype"], values["gradient_checkpointing"]) == ("none", "none")


@pytest.mark.parametrize(
    ("changes", "field", "fix"),
    [
        ({"batch_shape": "packed"}, "batch_shape", "Set batch_shape to padded or full"),
        ({"max_tokens_per_micro_batch": 4096}, "max_tokens_per_micro_batch", "to 0"),
        ({"optimizer_step": "in-backward"}, "optimizer_step", "Set optimizer_step to update"),
        ({"finetuning": "qlora"}, "finetuning", "Set finetuning to lora"),
        ({"method": "grpo"}, "framework", "Set framework to"),
        ({"finetuning": "lora", "lora_targets": "q_proj,lm_head"}, "lora_targets", "lm_head"),
    ],
    ids=str,
)
def test_what_it_cannot_do_is_refused_with_the_field_and_the_fix(
    changes: dict[str, Any], field: str, fix: str
) -> None:
    base = {**TRAINER, "method": "sft", "model": "Qwen/Qwen2.5-0.5B"}
    plan, problems = try_plan({**base, **changes})
    assert plan is None
    assert [each for each in problems if each.field == field and fix in each.fix], problems


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"logits": "fused"}, "logits"),
        ({"empty_cache": "between-phases"}, "empty_cache"),
        ({"dtype": "fp16", "master_dtype": "none"}, "master_dtype"),
        ({"finetuning": "lora", "master_dtype": "none"}, "master_dtype"),
        ({"sharding": "fsdp2", "reduce_dtype": "fp32"}, "reduce_dtype"),
        ({"sharding": "ddp", "offload": "optimizer-between-phases"}, "offload"),
        ({"sharding": "fsdp1", "optimizer": "adamw-8bit"}, "optimizer"),
        ({"eval_steps": 5}, "eval_steps"),
    ],
    ids=str,
)
def test_what_its_files_cannot_say_has_a_way_out(changes: dict[str, Any], field: str) -> None:
    base = {**TRAINER, "method": "sft", "model": "Qwen/Qwen2.5-0.5B", "gpus": 8}
    plan, problems = try_plan({**base, "sharding": "ddp", **changes})
    assert plan is not None, problems
    found = obstacles(plan)
    assert field in {each.field for each in found}
    for each in found:
        plan = Plan(**{**plan.model_dump(), **dict(each.changes)})
    assert obstacles(plan) == ()
