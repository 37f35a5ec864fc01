"""Cases whose right answer is known by hand, from a config.json, a card and a price list.

The arithmetic stands beside each case, in numbers of the model's config.json and of the card, not
in the planner's own. A *floor* sums what a GPU holds at one moment of the backward and leaves much
out, so whatever has a floor above the card cannot run, and no answer may have it.
"""

from __future__ import annotations

from planner import catalog
from planner.cost import cost
from planner.plan.link import from_query_string
from planner.plan.plan import Plan
from planner.search import Found, Recommendation, Wish, search

GIB = 2**30


def plan_of(query: str) -> Plan:
    reading = from_query_string(f"v=1&{query}")
    assert reading.plan is not None and not reading.problems
    return reading.plan


def by_name(found: Found) -> dict[str, Recommendation]:
    return {name: one for one in found.recommendations for name in one.names if name != "knee"}


def floor_gib(
    parameters: float,
    vocabulary: float,
    width: int,
    inner: int,
    layers: int,
    tokens: int,
    gpus: int,
    moment_bytes: int,
) -> float:
    """Of one GPU in the backward of full fine-tuning with everything sharded and checkpointed.

    Sharded: fp32 weights and gradients, two moments. Whole, all bf16: an input a layer; embedding
    and head as they were gathered, and the head's gradient until all are reduced; one layer's
    weights and their gradients; what that layer keeps, at least four of the MLP's width and five
    of its own. A CUDA context is over 0.4 GiB on any card since Volta, and the libraries of an
    engine that sleeps over 1 GiB where that was seen.
    """
    state = parameters * (4 + 4 + 2 * moment_bytes) / gpus
    inputs = layers * tokens * width * 2
    head = vocabulary * width * 2
    layer = (parameters - 2 * vocabulary * width) / layers * 2
    kept = (4 * inner + 5 * width) * tokens * 2
    return (state + inputs + 3 * head + 2 * layer + kept) / GIB + 1.4


def test_14b_on_eight_40_gb_cards_trains_in_full_if_only_just() -> None:
    """Qwen2.5-14B: 48 layers, width 5,120, inner 13,824, vocabulary 152,064, 14.77e9 parameters.

    Responses of 8,192 after prompts of 512, on 8 A100 of 39.4 GiB, nothing offloaded.
    The engine's half of a card is 19.7 GiB and its weights are 14.77e9 × 2 = 27.5 GiB: over at
    least two GPUs. Its cache has 2 × 8 × 128 × 2 × 48 = 192 KiB a token, so 1.6 GiB a sequence;
    over eight GPUs the eight halves are 157 GiB less 27.5 of weights, some 70 sequences at once,
    over four it is two engines of less than 30 each: eight are the fastest.
    """
    whole = (14.77e9, 152_064, 5120, 13_824, 48)
    card = 39.39
    assert floor_gib(*whole, 8704, 8, 4) > card  # not even one row with fp32 moments
    assert floor_gib(*whole, 8704, 8, 1) < 0.8 * card  # with 8-bit moments there is room for one
    assert floor_gib(*whole, 3 * 8704, 8, 1) > 0.95 * card  # and for three there is none
    plan = plan_of("preset=grpo-7b@1&gpu=a100-40gb&model=Qwen/Qwen2.5-14B&response_tokens=8192")
    free = ("optimizer", "micro_batch_size", "logprob_micro_batch_size", "rollout_tensor_parallel")
    found = search(plan, Wish(goal="fastest", free=free))
    answers = by_name(found)
    assert set(answers) == {"aggressive"}  # tight is what the aggressive plan may be, and no other
    answer = answers["aggressive"]
    assert answer.footprint.verdict.word == "tight"
    assert answer.plan.micro_batch_size == 1
    assert answer.plan.optimizer == "adamw-8bit"
    assert answer.plan.rollout_tensor_parallel == 8
    kept = (answer.plan.finetuning, answer.plan.gpus, answer.plan.response_tokens)
    assert kept == ("full", 8, 8192)


def test_32b_with_16k_responses_needs_sixteen_cards_and_its_engine_a_node() -> None:
    """Qwen2.5-32B: 64 layers, width 5,120, inner 27,648, vocabulary 152,064, 32.76e9 parameters.

    On H100 of 79.1 GiB, rows of 512 + 16,384 tokens one at a time, AdamW with fp32 moments: eight
    hold 61 GiB of state each, which no card has room for beside the rest; sixteen hold 30.5.
    The engine's half of a card is 39.6 GiB and its weights are 61: over at least two GPUs. A
    sequence's cache is 256 KiB × 16,896 = 4.1 GiB. Over two GPUs there is room for two or three of
    them in 79 − 61 GiB, over eight for some sixty in 316 − 61: a node is the fastest engine.
    """
    whole = (32.76e9, 152_064, 5120, 27_648, 64, 16_896)
    assert floor_gib(*whole, 8, 4) > 79.1
    assert floor_gib(*whole, 16, 4) < 0.7 * 79.1
    plan = plan_of(
        "preset=grpo-7b@1&gpus=32&model=Qwen/Qwen2.5-32B&response_tokens=16384"
        "&micro_batch_size=1&logprob_micro_batch_size=1"
    )
    engine = ("rollout_tensor_parallel",)
    fewest = by_name(search(plan, Wish(goal="fewest-gpus", max_gpus=32, free=engine)))
    assert fewest["aggressive"].plan.gpus == 16
    assert all(16 <= one.plan.gpus <= 32 for one in fewest.values())
    assert all(one.plan.rollout_tensor_parallel > 1 for one in fewest.values())
    fastest = by_name(search(plan, Wish(goal="fastest", max_gpus=32, free=engine)))
    assert {one.plan.rollout_tensor_parallel for one in fastest.values()} == {8}
    assert fastest["balanced"].plan.gpus == 32


def test_one_24_gb_card_trains_1_5b_in_full_with_8_bit_moments_and_no_7b() -> None:
    """RTX 4090, 23.5 GiB. Qwen2.5-1.5B is 1.544e9 parameters: fp32 weights, gradients and moments
    are 16 bytes each, 23.0 GiB, and with a context 23.4, before any activation; with 8-bit
    moments 10 bytes, 14.4 GiB. Qwen2.5-7B is 7.616e9: fp32 weights alone are 28.4 GiB, and an
    adapter's frozen bf16 weights beside the engine's are 2 × 14.2.
    """
    card = 23.52
    context = 0.4  # at least, on any card since Volta
    assert 0.95 * card < 1.544e9 * 16 / GIB + context  # and not a single activation yet
    assert 1.544e9 * 10 / GIB < 0.9 * card < card < 7.616e9 * 4 / GIB
    one_card = "preset=grpo-7b@1&gpu=rtx-4090&gpus=1&sharding=none&micro_batch_size=1"
    more = "&logprob_micro_batch_size=1&gpu_memory_utilization=0.3"
    small = search(
        plan_of(f"{one_card}{more}&model=Qwen/Qwen2.5-1.5B"), Wish(goal="fit", free=("optimizer",))
    )
    assert set(by_name(small)) == {"conservative", "balanced", "aggressive"}
    for one in small.recommendations:
        assert one.plan.optimizer in ("adamw-8bit", "paged-adamw-8bit")
        (backward,) = (p for p in one.footprint.phases if p.name == "policy backward")
        assert 1.544e9 * 10 / GIB < backward.device_bytes / GIB < 0.9 * card
    large = plan_of(f"{one_card}{more}&model=Qwen/Qwen2.5-7B")
    free = ("optimizer", "gpu_memory_utilization")
    for lora in (False, True):
        found = search(large, Wish(goal="fit", free=free, lora_allowed=lora))
        assert not found.recommendations
        assert found.misses


OFFERS = {  # dollars an hour from and to, dense bf16 TFLOP/s, GB/s of memory
    "l40s": (0.79, 1.40, 362.05, 864),
    "rtx-pro-6000-blackwell": (0.89, 1.69, 467.8, 1792),
    "a100-40gb": (1.84, 4.10, 312, 1555),
    "a100-80gb": (0.80, 3.00, 312, 2039),
    "h100-80gb": (1.99, 5.00, 989, 3350),
    "h200-141gb": (2.50, 7.00, 989, 4800),
    "b200-180gb": (4.89, 10.57, 2250, 8000),
    "b300-288gb": (6.99, 6.99, 2250, 8000),
}
"""Eight cards as the list prices of the catalog have them."""


def test_the_cheapest_of_eight_cards_is_the_one_that_nothing_beats_a_dollar() -> None:
    """On one card nothing is communicated, so a step is operations by the card's peak and bytes by
    its bandwidth, at shares that are the same for all eight. The card with the least dollars a
    PFLOP/s-hour *and* the least a TB/s-hour is then the cheapest, whatever the mix: 1.29 ÷ 0.4678
    = 2.76 and 1.29 ÷ 1.792 = 0.72 for the RTX PRO 6000; the next are 3.02 (L40S) and 0.87 (B300).
    """
    prices = {key: (low + high) / 2 for key, (low, high, _, _) in OFFERS.items()}
    per_flop = {key: prices[key] / OFFERS[key][2] for key in OFFERS}
    per_byte = {key: prices[key] / OFFERS[key][3] for key in OFFERS}
    assert min(per_flop, key=per_flop.__getitem__) == "rtx-pro-6000-blackwell"
    assert min(per_byte, key=per_byte.__getitem__) == "rtx-pro-6000-blackwell"
    for key, (low, high, _, bandwidth) in OFFERS.items():
        card = catalog.gpu(key)
        assert card.price is not None
        assert (card.price.usd_per_hour_low, card.price.usd_per_hour_high) == (low, high), key
        assert card.bandwidth_bytes_per_second == bandwidth * 1e9, key
    plan = plan_of(
        "preset=sft-8b@1&model=Qwen/Qwen2.5-1.5B&gpus=1&sharding=none&micro_batch_size=4"
        "&prompt_tokens=2048&response_tokens=2048"
    )
    found = by_name(search(plan, Wish(goal="cheapest", free=(), cards=tuple(OFFERS))))
    assert {one.plan.gpu for one in found.values()} == {"rtx-pro-6000-blackwell"}
    # 64 rows of 4,096 tokens, 500 steps, 6 operations a parameter and token, 2 more for the
    # forward that checkpointing repeats: hours at the peak, and no run beats two thirds of it.
    hours = 64 * 4096 * 500 * 8 * 1.544e9 / 467.8e12 / 3600
    usd = cost(found["balanced"].footprint).usd_run
    assert usd is not None and 1.29 * hours / 0.67 < usd < 1.29 * hours / 0.15
