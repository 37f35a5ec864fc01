"""Which depths stand for a model, and how two of them are led to the whole: by hand."""

from __future__ import annotations

import pytest

from planner.dryrun.logs.depth import Pattern
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.link import from_query_string
from planner.plan.presets import presets
from planner.plan.query import to_query_string
from planner.trial.ask.endings import CannotRun
from planner.trial.ask.footprints import FootprintFigures, PhaseFigures
from planner.trial.ask.variants import executed, layers_of, smaller, with_layers
from planner.trial.run.extrapolation import Depth, extrapolated
from planner.trial.run.truncation import Needs, Room, depths_of, two_depths
from trial.running import tiny

PLAIN = Pattern(28, 0, 1)


def test_depths_keep_the_pattern() -> None:
    assert depths_of(PLAIN) == (1, 2, 3, 4, 5, 6, 7, 8)
    assert depths_of(Pattern(4, 0, 1)) == (1, 2, 3)
    assert depths_of(Pattern(26, 0, 6)) == (8, 14, 20)
    assert depths_of(Pattern(27, 1, 4)) == (7, 11, 15, 19, 23)


def needs(layers: int) -> Needs:
    return Needs(bytes=100 + 10 * layers, seconds=float(layers))


def test_the_deepest_that_fits_is_run_beside_a_shallow_one() -> None:
    full = needs(28)
    assert two_depths(PLAIN, full, needs, Room(bytes=1000, seconds=100)) == (2, 8)
    # Nine tenths of the room hold 100 + 10 * 5.
    assert two_depths(PLAIN, full, needs, Room(bytes=167, seconds=100)) == (2, 5)
    assert two_depths(PLAIN, full, needs, Room(bytes=1000, seconds=4.5)) == (2, 4)
    assert two_depths(PLAIN, full, needs, Room(bytes=134, seconds=100)) == (1, 2)
    assert two_depths(PLAIN, full, needs, Room(bytes=130, seconds=100)) is None
    assert two_depths(PLAIN, full, needs, Room(bytes=10, seconds=100)) is None
    assert two_depths(Pattern(2, 0, 1), full, needs, Room(bytes=1000, seconds=1)) is None


def figures(size: int, seconds: float = 1.0) -> FootprintFigures:
    phase = PhaseFigures(
        name="policy forward", source="trial", requested_bytes=size, seconds=seconds, active_bytes=7
    )
    return FootprintFigures(source="trial", plan={}, phases=(phase,))


def depth(layers: int, said: int, instant: str, measured: int | None = None) -> Depth:
    return Depth(
        layers=layers,
        predicted=figures(said),
        instants={"policy forward": instant},
        measured=None if measured is None else figures(measured, seconds=1.0 + layers),
    )


def test_what_was_measured_beyond_the_dry_run_is_led_on_as_a_line() -> None:
    low, high = depth(2, 120, "mm", 131), depth(4, 140, "mm", 155)
    found, notes = extrapolated(tiny("sft"), low, high, depth(28, 400, "mm"))
    phase = found.phases[0]
    # Beyond: 11 and 15, two a layer, so 63 at 28 layers.
    assert phase.requested_bytes == 463
    assert phase.seconds == pytest.approx(29.0)
    assert phase.active_bytes == 7
    assert not notes


def test_a_peak_that_moves_is_scaled_instead() -> None:
    low, high = depth(2, 100, "logits", 110), depth(4, 100, "logits", 110)
    found, notes = extrapolated(tiny("sft"), low, high, depth(28, 400, "gradients"))
    assert found.phases[0].requested_bytes == 440
    assert any("another instant" in note for note in notes)


def test_time_never_falls_with_depth() -> None:
    low, high = depth(2, 100, "mm", 100), depth(4, 100, "mm", 100)
    assert low.measured is not None
    slow = low.measured.phases[0].model_copy(update={"seconds": 9.0})
    low = Depth(
        layers=2,
        predicted=low.predicted,
        instants=low.instants,
        measured=low.measured.model_copy(update={"phases": (slow,)}),
    )
    found, notes = extrapolated(tiny("sft"), low, high, depth(28, 100, "mm"))
    assert found.phases[0].seconds == 5.0
    assert any("no more time" in note for note in notes)


@pytest.mark.parametrize(
    "model",
    ["Qwen/Qwen2.5-7B", "meta-llama/Llama-3.1-8B", "google/gemma-3-1b-pt", "Qwen/Qwen3-30B-A3B"],
)
def test_a_model_cut_to_all_its_layers_is_the_same_model(model: str) -> None:
    plan = Plan(model=model, method="sft")
    whole = with_layers(plan, layers_of(plan))
    assert facts_of(whole).policy == facts_of(plan).policy
    part = with_layers(plan, 4)
    assert layers_of(part) == 4
    assert facts_of(part).policy.vocab == facts_of(plan).policy.vocab
    assert part.model == model


def test_no_preset_of_deepspeed_runs() -> None:
    refused = {key for key, one in presets().items() if one.plan.sharding.startswith("zero")}
    for key in refused:
        with pytest.raises(CannotRun, match="^sharding: zero. is DeepSpeed's, .* set sharding to "):
            executed(presets()[key].plan)
    assert len(refused) >= 4


RUNNING = [key for key, one in presets().items() if not one.plan.sharding.startswith("zero")]


@pytest.mark.parametrize("key", RUNNING)
def test_what_runs_of_every_preset_is_a_plan_that_a_link_carries(key: str) -> None:
    running, _ = executed(presets()[key].plan)
    for plan in (running, with_layers(running, 2)):
        reading = from_query_string(to_query_string(plan))
        assert reading.plan == plan and not reading.problems


def test_what_no_link_carries_is_refused() -> None:
    plan = tiny("ppo").changed(critic_model="Qwen/Qwen2.5-0.5B")
    with pytest.raises(CannotRun, match="^critic_model: "):
        with_layers(plan, 1)


def test_smaller_plans_fall_and_say_what_changed() -> None:
    plan = tiny("sft", micro_batch_size=8, prompts_per_step=8, gpus=1)
    found = list(smaller(plan))
    words = [word for _, word in found]
    assert words[0] == "gradient_checkpointing full"
    assert words[1] == "gradient_checkpointing full, micro_batch_size 4"
    assert words[3].endswith("micro_batch_size 1")
    assert words[4].endswith("micro_batch_size 1, lengths 12 + 11 tokens")
    assert "12 + 11" not in words[5]
    sizes = [one.micro_batch_size * (one.prompt_tokens + one.response_tokens) for one, _ in found]
    assert sizes == sorted(sizes, reverse=True)
