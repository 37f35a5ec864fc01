"""Host RAM of a node by hand: processes, pinned buffers, weights on their way in and out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.answer import to_json
from planner.estimate import estimate
from planner.numeric import power_of_two
from planner.plan import Plan
from planner.term import Term
from planner.totals.limits import HOST
from planner.units import GIB, MIB

QWEN = 7_615_616_512
"""Parameters of Qwen2.5-7B, whose head is not its embedding."""
SMALL = 494_032_768
"""Of Qwen2.5-0.5B, whose head is."""
OLMO_SCORES = 7_298_617_344 - 100_352 * 4096 + 4096 + 1
"""Of OLMo-2-1124-7B with one number a token in place of its vocabulary, and its bias."""
CARD = 326 * MIB + (116_592 + 1_734_560) * 1024 // 2
"""One process of the plain step: imports, and the middle of both published ends."""


def terms(instant: str = "", **fields: Any) -> dict[str, Term]:
    """Host terms of one phase of a plan by their names."""
    usual = {"model": "Qwen/Qwen2.5-7B", "gpu": "h100-80gb", "method": "sft", "rollout": "none"}
    found = estimate(Plan(**{**usual, **fields}))
    phase = next(one for one in found.phases if one.name == instant)
    assert phase.host_bytes == sum(int(term.bytes) for term in phase.terms if term.host)
    return {term.name: term for term in phase.terms if term.host}


def test_every_rank_is_a_process() -> None:
    one = terms("optimizer step", gpus=1, sharding="none", master_dtype="none")
    assert [int(term.bytes) for term in one.values()] == [CARD]
    eight = terms("optimizer step", gpus=16, gpus_per_node=8, sharding="fsdp2")
    assert eight["processes with a card"].bytes == 8 * CARD


def test_an_engine_of_its_own_has_processes_of_its_own() -> None:
    rl = {"method": "grpo", "rollout": "vllm-colocated", "gpus": 4, "model": "Qwen/Qwen2.5-0.5B"}
    inside = terms("optimizer step", framework="trl", **rl)
    assert inside["processes with a card"].inputs["processes"] == 4
    assert "processes without a card" not in inside
    apart = terms("optimizer step", framework="verl", rollout_tensor_parallel=2, **rl)
    assert apart["processes with a card"].inputs["processes"] == 8
    # Two engines of two GPUs, a core and a server each, beside 17 of verl's own.
    assert apart["processes without a card"].inputs["helpers"] == 17 + 2 * 2
    batch = apart["step's batch in Ray's object store"].inputs
    assert (batch["bytes_per_token"], batch["batch_tokens"] > 0) == (56, True)
    server = {**rl, "framework": "trl", "rollout": "vllm-separate", "rollout_gpus": 4}
    near = terms("optimizer step", **{**server, "gpus": 8})
    assert near["processes with a card"].inputs["processes"] == 4 + 4
    far = terms("optimizer step", **{**server, "gpus": 16, "rollout_gpus": 8})
    assert far["processes with a card"].inputs["processes"] == 8


def test_a_pinned_buffer_is_a_power_of_two() -> None:
    assert [power_of_two(n) for n in (1, 2, 3, 4, 5, 2**40, 2**40 + 1, 4.5)] == [
        *(1, 2, 4, 4, 8, 2**40, 2**41, 8)
    ]
    sizes = np.array([1, 3, 2**33, 2**33 + 1])
    assert list(power_of_two(sizes)) == [power_of_two(int(n)) for n in sizes]


def test_what_fsdp_offloads_is_pinned_tensor_by_tensor() -> None:
    plain = {"gpus": 8, "sharding": "fsdp2", "offload": "all", "master_dtype": "fp32"}
    found = terms("optimizer step", framework="trl", **plain)
    # Shapes of Qwen2.5-7B: 152064 rows twice, then 28 layers of 3584 and 18944; fp32, 8 shards.
    h, kv, wide, layers = 3584, 512, 18944, 28
    tensors = [
        *[(152064 * h, 2), (h * h, 2 * layers), (h * kv, 2 * layers), (h * wide, 3 * layers)],
        *[(h, 3 * layers + 1), (kv, 2 * layers)],
    ]
    assert sum(size * count for size, count in tensors) == QWEN
    each = sum(count * 2 ** (size // 2 - 1).bit_length() for size, count in tensors)
    assert found["weights, offloaded"].bytes == pytest.approx(8 * each, rel=1e-4)
    # The moments are made beside them, by zeros_like, which pins nothing.
    assert found["Adam moments, offloaded"].bytes == pytest.approx(8 * QWEN, rel=1e-4)


def test_between_phases_only_a_copy_that_does_not_block_is_pinned() -> None:
    rl = {"method": "grpo", "gpus": 8, "sharding": "fsdp2", "rollout": "vllm-colocated"}
    rl |= {"offload": "optimizer-between-phases", "master_dtype": "fp32"}
    plain = terms("old log-probs", framework="plain", **rl)["Adam moments, offloaded"]
    verl = terms("old log-probs", framework="verl", **rl)["Adam moments, offloaded"]
    assert plain.bytes == pytest.approx(8 * QWEN, rel=1e-4)
    assert 1.2 * plain.bytes < verl.bytes < 2 * plain.bytes


VERL = {"framework": "verl", "method": "grpo", "rollout": "vllm-colocated", "gpus": 8}
SMALL_READ, LARGE_READ = 4 * SMALL, 4 * QWEN
"""Of a bf16 file made fp32 once."""


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # A bf16 file into bf16 weights stays mapped.
        ({"gpus": 8, "sharding": "ddp", "master_dtype": "none"}, (0, 0, 0)),
        ({"gpus": 8, "sharding": "ddp", "master_dtype": "fp32"}, (8 * SMALL_READ,) * 3),
        # Alone, TRL reads to the GPU; our step and several processes read into host RAM.
        ({"gpus": 1, "sharding": "none", "master_dtype": "fp32", "framework": "trl"}, (0, 0, 0)),
        ({"gpus": 1, "sharding": "none", "master_dtype": "fp32"}, (SMALL_READ,) * 3),
        ({"gpus": 2, "sharding": "ddp", "master_dtype": "fp32", "framework": "trl"},
         (2 * SMALL_READ,) * 3),
        # Every rank of accelerate makes all of it fp32 before FSDP2 shards it, FSDP1 its shards.
        ({"gpus": 8, "sharding": "fsdp2", "master_dtype": "fp32", "framework": "trl"},
         (8 * SMALL_READ,) * 3),
        ({"gpus": 8, "sharding": "fsdp1", "master_dtype": "fp32", "framework": "trl"}, (0, 0, 0)),
        # transformers' loader asks nobody whether FSDP will send the weights anyway.
        ({"gpus": 8, "sharding": "fsdp2", "master_dtype": "none", "dtype": "fp16",
          "framework": "trl"}, (8 * 2 * SMALL,) * 3),
        ({"gpus": 8, "sharding": "fsdp1", "master_dtype": "fp32", "dtype": "fp16",
          "framework": "trl"}, (8 * 2 * SMALL,) * 3),
        # Adapters train on weights as the file has them; four-bit ones are made on the GPU.
        ({"gpus": 8, "sharding": "fsdp2", "finetuning": "lora", "framework": "trl"}, (0, 0, 0)),
        ({"gpus": 1, "sharding": "none", "finetuning": "qlora", "dtype": "fp16"}, (0, 0, 0)),
        # Each model's own file counts: OLMo-2's is fp32 beside a bf16 policy's.
        ({"gpus": 1, "sharding": "none", "method": "grpo", "rollout": "hf", "reward":
          "model", "reward_model": "allenai/OLMo-2-1124-7B"}, (2 * OLMO_SCORES,) * 3),
        # ZeRO's master weights are the optimizer's: what is read is bf16, as the file.
        ({"gpus": 8, "sharding": "zero3", "framework": "trl"}, (0, 0, 0)),
        # verl's ranks all keep a model whose head is its embedding, and else drop what they read.
        ({**VERL, "gpus_per_node": 4}, (4 * SMALL_READ,) * 3),
        ({**VERL, "model": "Qwen/Qwen2.5-7B"}, (LARGE_READ, LARGE_READ, 8 * LARGE_READ)),
    ],
)
def test_weights_are_read_by_whom_and_converted_or_not(
    fields: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    from planner.estimate import phase_plans
    from planner.phases.scene import scene_of
    from planner.plan.facts import facts_of

    usual = {"model": "Qwen/Qwen2.5-0.5B", "gpu": "h100-80gb", "method": "sft", "rollout": "none"}
    plan = Plan(**{**usual, **fields})
    load, *_ = phase_plans(scene_of(plan, facts_of(plan)))
    instant = load.instants[0]
    loaded = [t for t in instant.everything if t.name == "weights read into host RAM"]
    [term] = loaded
    assert term.low is not None and term.high is not None
    assert (int(term.low), int(term.bytes), int(term.high)) == expected


def test_a_checkpoint_is_one_model_or_every_ranks_shards() -> None:
    whole = terms("checkpoint", gpus=8, sharding="fsdp2", framework="plain", master_dtype="fp32")
    assert whole["state gathered to save"].bytes == 4 * QWEN
    rl = {"method": "grpo", "rollout": "vllm-colocated", "gpus": 16, "gpus_per_node": 8}
    shards = terms("checkpoint", framework="verl", **rl)["shards copied to save"]
    # Half of the GPUs are this node's: fp32 weights and two moments.
    assert shards.bytes == pytest.approx(QWEN * 12 / 2, rel=1e-6)
    zero = terms("checkpoint", gpus=8, sharding="zero3", framework="trl")
    assert zero["state gathered to save"].bytes == 2 * QWEN


@pytest.mark.parametrize("sharding", ["fsdp1", "fsdp2"])
@pytest.mark.parametrize(("master", "state"), [("fp32", 8), ("none", 4)])
def test_accelerate_gathers_the_optimizers_state_when_the_weights_are_written(
    sharding: str, master: str, state: int
) -> None:
    found = terms("checkpoint", gpus=8, sharding=sharding, framework="trl", master_dtype=master)
    assert "state gathered to save" not in found
    assert found["optimizer state gathered to save"].bytes == state * QWEN


def test_without_moments_the_weights_are_the_most_that_is_gathered() -> None:
    found = terms("checkpoint", gpus=8, sharding="fsdp2", framework="trl", optimizer="sgd")
    assert found["state gathered to save"].bytes == 4 * QWEN
    assert "optimizer state gathered to save" not in found


@pytest.mark.parametrize("optimizer", ["adamw-8bit", "adamw-fused"])
def test_a_checkpoints_host_ram_is_that_of_its_larger_part(optimizer: str) -> None:
    plan = Plan(
        **{"model": "Qwen/Qwen2.5-7B", "gpu": "h100-80gb", "method": "sft", "framework": "trl"},
        **{"gpus": 8, "sharding": "fsdp2", "master_dtype": "fp32", "optimizer": optimizer},
    )
    found = estimate(plan).phases[-1]
    processes = next(t for t in found.terms if t.name == "processes with a card")
    most = max(4, 2 if optimizer == "adamw-8bit" else 8) * QWEN
    assert found.host_bytes == most + int(processes.bytes)
    assert found.host_bytes == sum(int(term.bytes) for term in found.terms if term.host)


def test_what_is_gathered_of_adapters_is_the_whole_model() -> None:
    """save_model asks accelerate for the state of all weights, and picks the adapters of it."""
    lora = {"gpus": 8, "finetuning": "lora", "sharding": "fsdp2"}
    trl = terms("checkpoint", framework="trl", **lora)["state gathered to save"]
    plain = terms("checkpoint", framework="plain", **lora)["state gathered to save"]
    assert trl.bytes == 2 * QWEN + plain.bytes


def test_fsdp1_gathers_the_state_of_a_unit_on_the_gpu() -> None:
    """Embedding and head are one flat parameter, whose moment stands beside this rank's shard."""
    from planner.estimate import phase_plans
    from planner.phases.scene import scene_of
    from planner.plan.facts import facts_of

    usual = {"model": "Qwen/Qwen2.5-7B", "gpu": "h100-80gb", "method": "sft", "framework": "trl"}
    plan = Plan(**{**usual, "gpus": 8, "sharding": "fsdp1", "master_dtype": "fp32"})
    *_, saving = phase_plans(scene_of(plan, facts_of(plan)))
    terms_of = {i.name: [t for t in i.terms if not t.host] for i in saving.instants}
    (unit,) = terms_of["optimizer state gathered"]
    assert unit.bytes == pytest.approx(4 * (2 * 152064 * 3584 + 3584) * (1 + 1 / 8), rel=1e-6)


def test_a_node_is_judged_only_where_its_ram_is_given() -> None:
    plan = Plan(model="Qwen/Qwen2.5-0.5B", gpu="h100-80gb", gpus=1, method="sft", rollout="none")
    assert not [each for each in estimate(plan).blockers if "host RAM" in each]
    small = estimate(plan.changed(host_ram_per_node=GIB)).blockers
    assert [each for each in small if "host RAM of 1.0 GiB is too small" in each]
    assert not estimate(plan.changed(host_ram_per_node=64 * GIB)).blockers


def test_what_nobody_knows_of_processes_and_rays_store_has_bounds() -> None:
    plan = Plan(
        model="Qwen/Qwen2.5-0.5B", gpu="h100-80gb", method="grpo", framework="verl", gpus=4,
        rollout="vllm-colocated", prompts_per_step=64, responses_per_prompt=8,
        prompt_tokens=512, response_tokens=1024,
    )  # fmt: skip
    found = estimate(plan)
    batch = 56 * 64 * 8 * (512 + 1024)
    # Eight processes: the ends of the CUDA build's own are half of their distance from its middle.
    reach = 8 * (1_734_560 - 116_592) * 1024 // 2
    assert found.host_bytes is not None
    assert found.host_low_bytes == found.host_bytes - reach - batch
    assert found.host_high_bytes == found.host_bytes + reach + 4 * batch
    shown = to_json(found)
    assert shown["host_high_bytes"] == max(one["host_high_bytes"] for one in shown["phases"])
    between = plan.changed(host_ram_per_node=found.host_bytes + reach)
    told = estimate(between)
    of_host = next(one for one in told.verdict.limits if one.name == HOST)
    assert not told.blockers and told.verdict.word == of_host.word == "tight"
    assert of_host.high_bytes == found.host_high_bytes > of_host.budget_bytes
    assert f"upper bound {of_host.high_bytes / GIB:,.1f} GiB" in told.verdict.sentence
    enough = estimate(plan.changed(host_ram_per_node=found.host_high_bytes)).verdict
    assert enough.word == "fits" and "host" not in enough.sentence


READ = """
import sys, torch
from transformers import AutoConfig, AutoModelForCausalLM

def anonymous():
    line = next(each for each in open("/proc/self/status") if each.startswith("RssAnon"))
    return int(line.split()[1]) * 1024

sizes = dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=8, vocab_size=8000,
             num_attention_heads=8, num_key_value_heads=8)
config = AutoConfig.for_model("llama", **sizes)
model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
model.save_pretrained(sys.argv[1])
held = sum(weight.numel() for weight in model.parameters())
del model
grown = []
for dtype in (torch.bfloat16, torch.bfloat16, torch.float32):
    before = anonymous()
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=dtype)
    grown.append((anonymous() - before) / held)
print(grown[1], grown[2])  # the first also imported what loading needs
"""


def test_weights_in_the_files_dtype_stay_mapped_for_real(tmp_path: Path) -> None:
    """Bytes an element in anonymous memory: none of a mapped file, four of converted ones."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path)], capture_output=True, text=True, check=True
    )
    mapped, converted = map(float, done.stdout.split())
    assert mapped < 0.4
    assert 3.6 < converted < 4.8


SAYS = "what DeepSpeed says of host RAM, beyond what is counted"


@pytest.mark.parametrize(
    ("fields", "each"),
    [
        # 4 bytes in each process that loads, or 16 of training state; half as much again.
        ({"gpus": 8, "sharding": "zero2", "offload": "optimizer"}, 4 * 8 * 1.5),
        ({"gpus": 2, "sharding": "zero1", "offload": "optimizer"}, 16 * 1.5),
        ({"gpus": 16, "sharding": "zero3", "offload": "optimizer"}, 16 / 2 * 1.5),
        ({"gpus": 8, "sharding": "zero3", "offload": "all"}, 18 * 1.5),
        ({"gpus": 16, "sharding": "zero3", "offload": "all"}, 18 / 2 * 1.5),
    ],
)
def test_a_node_may_need_what_deepspeed_says(fields: dict[str, Any], each: float) -> None:
    usual = {"model": "Qwen/Qwen2.5-7B", "gpu": "h100-80gb", "method": "sft", "framework": "trl"}
    found = estimate(Plan(**{**usual, **fields}))
    update = next(one for one in found.phases if one.name == "optimizer step")
    [said] = (term for term in update.terms if term.name == SAYS)
    assert said.bytes == 0 == said.low
    assert said.high == pytest.approx(each * QWEN - said.inputs["kept"], abs=2)
    processes = min(fields["gpus"], 8) * (334 * MIB + 1_734_560 * 1024)
    assert update.host_high_bytes == pytest.approx(each * QWEN + processes, rel=0.001)


def test_deepspeed_says_nothing_without_its_own_offload() -> None:
    for fields in (
        {"sharding": "zero3", "offload": "none"},
        {"sharding": "zero3", "offload": "all-between-phases"},
        {"sharding": "fsdp2", "offload": "all"},
    ):
        assert SAYS not in terms("optimizer step", gpus=8, **fields)


def test_what_was_killed_with_744_gb_is_no_plan_without_a_word() -> None:
    """hiyouga/LlamaFactory#6755: a 32B by ZeRO-3 with offload on one card, exit code -9."""
    plan = Plan(
        model="Qwen/Qwen2.5-32B", method="sft", framework="trl", gpu="h100-nvl-94gb", gpus=1,
        gpus_per_node=1, sharding="zero3", offload="all", prompt_tokens=512, response_tokens=512,
        micro_batch_size=1, prompts_per_step=1, host_ram_per_node=744 * GIB,
    )  # fmt: skip
    found = estimate(plan)
    assert found.host_bytes < plan.host_ram_per_node < found.host_high_bytes
    assert found.verdict.word == "tight" and "825.9 GiB" in found.verdict.sentence


def test_adapters_leave_frozen_weights_in_half_precision() -> None:
    lora = {"finetuning": "lora", "sharding": "zero3", "offload": "all", "gpus": 8}
    said = terms("optimizer step", **lora)[SAYS].inputs
    assert said["offloaded_parameters"] > 100 * said["trainable"] > 0
