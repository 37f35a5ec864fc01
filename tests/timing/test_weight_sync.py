"""Weights on their way to an engine, by hand: Qwen2.5-7B is 339 weights, 7.62 billion numbers."""

from __future__ import annotations

import pytest

from planner import Plan
from planner.estimate import estimate

SIZE = 7_615_616_512
COPIES = 0.77 * 3350e9
ONE = {"model": "Qwen/Qwen2.5-7B", "gpus": 8, "gpu": "h100-80gb"}


def sync(**fields: object) -> dict[str, float]:
    footprint = estimate(Plan(**{**ONE, **fields}))
    phase = next(one for one in footprint.phases if one.name == "weight sync")
    assert phase.seconds == pytest.approx(sum(one.seconds for one in phase.times))
    return {one.name: one.seconds for one in phase.times}


def test_a_colocated_engine_in_the_trainers_process() -> None:
    found = sync(framework="trl", vllm_sleep_level=0)
    # fp32 shards, seven of eight from others at 80 % of 450 GB/s, 13.6 us a weight.
    gathered = 7 / 8 * 4 * SIZE / (0.8 * 450e9) + 339 * 13.6e-6
    assert found["weights gathered for vLLM"] == pytest.approx(gathered)
    # Half a millisecond each; four bytes read and two written.
    loaded = 339 * 0.5e-3 + 6 * SIZE / COPIES
    assert found["vLLM loading weights"] == pytest.approx(loaded)
    assert len(found) == 2


def test_an_engine_that_slept_gets_its_memory_back() -> None:
    awake, two = (sync(framework="trl", vllm_sleep_level=level) for level in (0, 2))
    [woken] = two.keys() - awake.keys()
    # At 277 GB/s at least its weights, at most its share of the card.
    assert 2 * SIZE / 277e9 < two[woken] < 0.3 * 85e9 / 277e9
    one = sync(vllm_sleep_level=1, framework="verl")
    # Out and in again over PCIe 5, 80 % of 63 GB/s.
    assert one["engine's weights to host RAM and back"] == pytest.approx(
        2 * 2 * SIZE / (0.8 * 63e9), rel=1e-6
    )


def test_buckets_go_to_an_engine_in_processes_of_its_own() -> None:
    found = sync(framework="verl")
    # 30.5 GB in buckets of 2 GiB are fifteen.
    assert found["requests to vLLM"] == pytest.approx(15 * 3.2e-3)
    halves = sync(framework="verl", sync_bucket_bytes=2**30)
    assert halves["requests to vLLM"] == pytest.approx(29 * 3.2e-3)
    assert found["weights copied into buckets"] == pytest.approx(8 * SIZE / COPIES)


SEPARATE = {"rollout": "vllm-separate", "rollout_gpus": 4, "framework": "trl"}


def test_a_separate_engine_is_sent_everything_from_one_gpu() -> None:
    found = sync(**SEPARATE)
    assert found["weights sent to vLLM"] == pytest.approx(4 * SIZE / (0.8 * 450e9))
    assert found["requests to vLLM"] == pytest.approx(3.2e-3)
    far = sync(**SEPARATE | {"gpus": 16, "rollout_gpus": 8})
    # One network card of 50 GB/s at 85 %.
    assert far["weights sent to vLLM"] == pytest.approx(4 * SIZE / (0.85 * 50e9))


def test_before_its_server_was_vllms_trl_asked_for_every_weight() -> None:
    found = sync(**SEPARATE, framework_version="1.14.0")
    assert found["requests to vLLM"] == pytest.approx(339 * 3.2e-3)


def test_adapters_alone_travel_to_an_engine_that_serves_them() -> None:
    served = sync(framework="verl", finetuning="lora")
    merged = sync(framework="trl", finetuning="lora", sharding="ddp", vllm_sleep_level=0)
    # A pair for each of seven projections of 28 layers.
    loaded = served["vLLM loading weights"]
    assert loaded == pytest.approx(2 * 7 * 28 * 0.5e-3, rel=0.01)
    assert merged["vLLM loading weights"] == pytest.approx(
        339 * 0.5e-3 + 4 * SIZE / COPIES
    )


def test_every_expert_is_loaded_by_itself() -> None:
    found = sync(model="Qwen/Qwen3-30B-A3B", framework="trl", vllm_sleep_level=0)
    # 48 layers of 128 experts with three projections, and 435 others.
    weights = 48 * 128 * 3 + 435
    assert found["vLLM loading weights"] == pytest.approx(
        weights * 0.5e-3 + 6 * 30_532_122_624 / COPIES, rel=1e-3
    )


FETCHED = "vLLM weights from host RAM"
SLOT = 0.8 * 63e9


@pytest.mark.parametrize("offload", ["all-between-phases", "parameters-between-phases", "all"])
def test_weights_that_wait_in_host_ram_are_fetched_shard_by_shard(offload: str) -> None:
    found = sync(framework="verl", offload=offload)
    # An eighth of four bytes each; FSDP2's shards are not put back.
    assert found.pop(FETCHED) == pytest.approx(4 * SIZE / 8 / SLOT)
    near = sync(framework="verl", offload="optimizer-between-phases")
    assert found == near == sync(framework="verl")


def test_trl_fetches_what_fsdp2_keeps_in_host_ram() -> None:
    found = sync(framework="trl", offload="all", vllm_sleep_level=0)
    assert found[FETCHED] == pytest.approx(4 * SIZE / 8 / SLOT)


def test_fsdp1_and_adapters_load_the_whole_model_and_put_it_away() -> None:
    waits = {"framework": "verl", "offload": "all-between-phases"}
    first = sync(**waits, sharding="fsdp1")
    assert first[FETCHED] == pytest.approx(2 * 4 * SIZE / 8 / SLOT)
    adapted = sync(**waits, finetuning="lora")
    # The base that adapters stand on is in half precision.
    assert adapted[FETCHED] == pytest.approx(2 * 2 * SIZE / 8 / SLOT)
