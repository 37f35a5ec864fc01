"""What the host launches in training: constants beside their measurement, and sums by hand.

The plans are :mod:`test_trainer`'s: Qwen2.5-0.5B, 24 layers of 40 kernels, on an H100.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.formulas import launches
from planner.formulas.memory_bound import USUAL_KERNELS, layer_kernels
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.term import TimeTerm
from timing.test_trainer import ADAPTED, LAYERS, plan, terms, took

FILE = Path(__file__).parents[2] / "accuracy" / "measured" / "launches-h200-141gb.json"
TENSORS = 12
"""Of a layer of Qwen2: seven weights, three biases and two norms."""
A_LAYER = 0.88e-3
LAUNCHED, HOOKS = launches.LAUNCHES.name, launches.HOOKS.name
SHORT = {"micro_batch_size": 1, "prompt_tokens": 32, "response_tokens": 32}
ROUNDS = 8
SHARDED = {"gpus": 8, "sharding": "fsdp2", "prompts_per_step": 64, "prompts_per_update": 64}


def slopes(*switches: str) -> dict[str, float]:
    """Seconds a layer of each pass, by the measured no-grad forward of a plain layer."""
    rows = json.loads(FILE.read_text("utf-8"))["rows"]

    def layer(switches: tuple[str, ...]) -> dict[str, float]:
        few, many = (
            next(r["seconds"] for r in rows if (r["layers"], tuple(r["switches"])) == (n, switches))
            for n in (4, 12)
        )
        return {name: (many[name] - few[name]) / 8 for name in few}

    one = layer(("plain",))["scored"]
    return {name: seconds / one for name, seconds in layer(switches).items()}


def test_constants_are_those_of_the_measurement() -> None:
    plain, again, sharded = slopes("plain"), slopes("checkpointed"), slopes("fsdp2")
    assert plain["forward"] == pytest.approx(launches.FORWARD, abs=0.01)
    assert plain["backward"] == pytest.approx(launches.BACKWARD, abs=0.01)
    more = again["forward"] - plain["forward"]
    assert more == pytest.approx(launches.CHECKPOINTED, abs=0.01)
    more = again["backward"] - plain["backward"] - plain["forward"]
    assert more == pytest.approx(launches.RUN_AGAIN, abs=0.01)
    gathers = [sharded[name] - plain[name] for name in ("scored", "forward")]
    assert gathers[0] < launches.GATHER < gathers[1]
    hooks = launches.GATHER + launches.REDUCTION
    assert sharded["backward"] - plain["backward"] == pytest.approx(hooks, abs=0.03)
    assert plain["update"] / TENSORS == pytest.approx(launches.TENSOR, abs=0.0003)
    assert sharded["update"] / TENSORS == pytest.approx(launches.DTENSOR, abs=0.0006)
    least, most = (end * launches.TENSOR for end in launches.TENSOR_FACTORS)
    for switch, tensors in (("autocast", TENSORS), ("checkpointed", TENSORS), ("lora", 14)):
        one = round(slopes(switch)["update"] / tensors, 3)
        assert least - 1e-9 <= one <= most + 1e-9


def test_the_number_of_kernels_says_a_quarter_too_much_to_a_tenth_too_little() -> None:
    plain = slopes("plain")
    for switch, kernels in (("autocast", 53), ("lora", 82)):
        for name, seconds in slopes(switch).items():
            if name != "update":
                of = seconds / (plain[name] * kernels / USUAL_KERNELS)
                assert launches.BY_KERNELS[0] <= round(of, 2) <= launches.BY_KERNELS[1]


def whole(found: dict[str, TimeTerm]) -> float:
    return float(sum(term.seconds for term in found.values()))


def head(found: dict[str, TimeTerm]) -> float:
    names = "LM head GEMMs", "loss over the vocabulary"
    return float(sum(found[name].seconds for name in names))


def test_a_short_pass_waits_for_its_launches() -> None:
    """8 rounds of 24 layers, less what the layers compute meanwhile; a forward's head is behind."""
    short = plan(**SHORT)
    layers = ROUNDS * LAYERS * A_LAYER
    forward, backward = (terms(short, f"policy {run}") for run in ("forward", "backward"))
    assert whole(forward) == pytest.approx(1.18 * layers + head(forward))
    assert whole(backward) == pytest.approx(1.83 * layers)
    compiled = terms(short.changed(compile=True), "policy forward")
    assert whole(compiled) < whole(forward) / 2
    long = plan(micro_batch_size=8, prompt_tokens=3584)
    for run in ("forward", "backward"):
        assert took(long, f"policy {run}", LAUNCHED) == 0


def test_a_checkpoint_costs_the_host_in_both_passes() -> None:
    short = plan(**SHORT, gradient_checkpointing="full")
    layers = ROUNDS * LAYERS * A_LAYER
    forward, backward = (terms(short, f"policy {run}") for run in ("forward", "backward"))
    assert whole(forward) == pytest.approx((1.18 + 1.09) * layers + head(forward))
    assert whole(backward) == pytest.approx((1.83 + 1.18 + 1.66) * layers)


def test_a_forward_without_gradient_records_nothing() -> None:
    """Nor does a checkpoint do anything in it."""
    asked = plan(**SHORT, method="dpo", reference="copy", gradient_checkpointing="full")
    found = terms(asked, "reference log-probs")
    assert found[LAUNCHED].inputs["pass_by_forward"] == 1.0
    assert terms(asked, "policy forward")[LAUNCHED].inputs["pass_by_forward"] == 2.27


def sharded(**changes: Any) -> Plan:
    return plan(**{**SHORT, **SHARDED, **changes})


def test_fsdp2_runs_hooks_around_each_layer() -> None:
    layers = ROUNDS * LAYERS * A_LAYER
    forward, backward = (terms(sharded(), f"policy {run}") for run in ("forward", "backward"))
    assert forward[HOOKS].seconds == pytest.approx(1.6 * layers)
    assert backward[HOOKS].seconds == pytest.approx((1.6 + 2.4) * layers)
    kept = sharded(reshard_after_forward=False)
    assert took(kept, "policy backward", HOOKS) == pytest.approx(2.4 * layers)
    assert HOOKS not in terms(plan(**SHORT), "policy forward")
    # What the launches leave of the computation hides hooks, too.
    middle = sharded(prompt_tokens=12_000)
    found = terms(middle, "policy forward")
    assert found[LAUNCHED].seconds == 0
    spare = found[HOOKS].inputs["spare_seconds"]
    assert spare > 0 and found[HOOKS].seconds == pytest.approx(max(1.6 * layers - spare, 0))
    long = sharded(micro_batch_size=8, prompt_tokens=12_000)
    assert took(long, "policy backward", HOOKS) == 0


def test_ligers_kernels_are_cast_under_autocast_as_well() -> None:
    wide = {"master_dtype": "fp32", "gradient_dtype": "fp32", "liger": True}
    found = terms(plan(**SHORT, **wide), "policy forward")[LAUNCHED].inputs
    narrow = terms(plan(**SHORT, liger=True), "policy forward")[LAUNCHED].inputs
    # Seven weights, three biases, and the inputs of all projections but those that give the stream
    # back, which attention and the gated product hand over in half precision.
    assert found["kernels"] == narrow["kernels"] + 7 + 3 + 5
    arch = facts_of(plan()).policy
    compiled = [layer_kernels(arch, "compiled", "sdpa", 0, autocast=cast) for cast in (False, True)]
    assert compiled[0] == compiled[1]


def test_the_ends_are_those_of_the_whole_launches() -> None:
    """0.73 to 1.02 ms a layer, by 0.75 to 1.1 of the kernels' number; the card's part is sure."""
    one = terms(plan(), "policy forward")[LAUNCHED]
    hidden = one.inputs["computed_seconds"]
    of_all = one.seconds + hidden
    least = max(of_all * 0.73 / 0.88 * 0.75 - hidden, 0)
    assert one.low == pytest.approx(least)
    assert one.high == pytest.approx(of_all * 1.02 / 0.88 * 1.1 - hidden)
    long = terms(plan(micro_batch_size=8, prompt_tokens=3584), "policy forward")[LAUNCHED]
    assert long.low is None and long.high is None


UPDATED = launches.UPDATE.name


def test_an_update_visits_every_tensor_while_gradients_are_clipped() -> None:
    tensors = 24 * TENSORS + 2
    found = terms(plan(), "optimizer step")
    clipping = found["gradient clipping"].seconds
    by_hand = tensors * 0.010 * A_LAYER
    assert found[UPDATED].seconds == pytest.approx(by_hand - clipping)
    big = terms(plan(model="Qwen/Qwen3-4B", prompt_tokens=64), "optimizer step")
    assert big[UPDATED].seconds == 0
    adapters = terms(plan(**ADAPTED), "optimizer step")[UPDATED]
    assert adapters.inputs["tensors"] == 24 * 14
    shards = terms(sharded(), "optimizer step")[UPDATED]
    assert shards.inputs["launches_a_tensor"] == 0.039 and shards.inputs["tensors"] == tensors
    assert shards.low < shards.seconds < shards.high


def test_updates_elsewhere_are_no_launches_of_the_card() -> None:
    """DeepSpeed's buffers are flat, the host updates what is offloaded, or layers one by one."""
    wide = {"master_dtype": "fp32", "gradient_dtype": "fp32"}
    zero = sharded(sharding="zero2", **wide)
    for asked in (zero, sharded(offload="all", **wide)):
        assert UPDATED not in terms(asked, "optimizer step")
    early = plan(optimizer_step="in-backward", micro_batch_size=8)
    assert UPDATED not in terms(early, "policy backward")
