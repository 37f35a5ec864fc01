"""``recommend``: its JSON, its text, its exit status, and what it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from planner.__main__ import main
from planner.background import Refused
from planner.catalog.offers import offers
from planner.dryrun.ask.answer import DryRun
from planner.dryrun.ask.port import Port
from planner.dryrun.ask.stand_in import stand_in
from planner.estimate import estimate
from planner.footprint import Verdict
from planner.plan import Plan
from planner.plan.link import from_query_string
from planner.throughput import answer_json

PLAN = "preset=grpo-7b@1&model=Qwen/Qwen2.5-1.5B&gpu=a100-40gb"
THREE = "preset=grpo-7b@1&gpu=a100-40gb"
"""A card on which each margin has a plan of its own."""
FREE = ["--free", "gradient_checkpointing,enforce_eager"]


def test_json_has_three_plans_that_estimate_to_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = ["recommend", PLAN, "--goal", "cheapest", "--max-gpus", "16", *FREE]
    assert main([*asked, "--no-dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    named = found["recommendations"]
    names = [name for one in named for name in (one["name"], *one["also"])]
    assert names[:3] == ["conservative", "balanced", "aggressive"]
    plans = [str(one["plan"]) for one in named]
    assert len(set(plans)) == len(plans), "no plan stands twice"
    assert ("are the same plan" in found["same"]) == any(one["also"] for one in named)
    assert ("knee" in names) == any(one["name"] == "knee" for one in named)
    for one in named:
        assert one["why"] and one["checked"] == "unchecked"
        plan = Plan(**one["plan"])
        assert one["footprint"] == json.loads(json.dumps(answer_json(estimate(plan))))
        assert plan.gpus <= 16 and plan.model == "Qwen/Qwen2.5-1.5B" and plan.gpu == "a100-40gb"
        changed = {each["field"]: each["after"] for each in one["differences"]}
        assert changed.keys() <= {
            *("gradient_checkpointing", "enforce_eager", "gpus"),
        }, changed
    assert found["judged"]["plans"] > 8 and found["front"]


def test_text_has_links_that_open_as_the_plans(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", PLAN, *FREE, "--no-dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    links = [line.strip() for line in lines if line.strip().startswith("?")]
    assert 1 <= len(links) <= 4 and len(set(links)) == len(links)
    for link in links:
        read = from_query_string(link)
        assert read.plan is not None and read.problems == ()
        assert estimate(read.plan).verdict.word != "out of memory"
    assert "plans estimated" in lines[-1]


@pytest.mark.parametrize(
    ("more", "arguments", "framework", "script"),
    [
        ("", (), "trl", True),
        ("", ("--framework", "verl"), "verl", True),
        ("&framework=plain", (), "plain", False),
        ("&framework=plain", ("--framework", "trl"), "trl", True),
    ],
)
def test_plans_are_of_a_framework_with_a_script_unless_one_is_set(
    more: str,
    arguments: tuple[str, ...],
    framework: str,
    script: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = f"{PLAN}{more}&gpus=2&offload=none&enforce_eager=false"
    assert main(["recommend", asked, *arguments, "--no-dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["recommendations"]
    assert {one["plan"]["framework"] for one in found} == {framework}
    assert all(("Exports to" in one["launch"]) == script for one in found)


def test_a_framework_that_has_no_such_method_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["recommend", "preset=ppo-7b@1", "--framework", "trl"]) == 2
    assert "framework: TRL has had no PPO" in capsys.readouterr().err


def test_what_the_plan_sets_stays(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --free, all of the layout may change but what PLAN itself says."""
    kept = "gpus=1&sharding=none&micro_batch_size=1&logits=fused&offload=none"
    asked = ["recommend", f"{PLAN}&{kept}", "--goal", "fastest", "--no-dry-run", "--json"]
    assert main(asked) == 0
    for one in json.loads(capsys.readouterr().out)["recommendations"]:
        plan = one["plan"]
        assert (plan["gpus"], plan["sharding"], plan["micro_batch_size"]) == (1, "none", 1)
        assert (plan["logits"], plan["offload"]) == ("fused", "none")


def test_nothing_fits_says_what_lacks_and_exits_3(
    capsys: pytest.CaptureFixture[str],
) -> None:
    large = "preset=grpo-7b@1&gpu=rtx-4090&gpus=1&sharding=none"
    asked = ["recommend", large, "--free", "enforce_eager"]
    assert main(asked) == 3
    said = capsys.readouterr().out
    assert "The closest" in said and "GiB" in said
    assert main([*asked, "--exit-zero"]) == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--free", "method"], "--free"),
        (["--max-gpus", "-1"], "--max-gpus"),
        (["--goal", "deadline"], "--deadline"),
        (["--cards", "a1000"], "a1000"),
        (["--cards", "gaudi-3"], "gaudi-3"),
    ],
)
def test_what_cannot_be_names_its_option(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["recommend", PLAN, *arguments]) == 2
    assert named in capsys.readouterr().err


def last(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_cards_to_rent_are_the_default_and_filters_hold(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Free of a card in PLAN, a goal about money looks at others; a provider's price is paid."""
    asked = "preset=grpo-7b@1&model=Qwen/Qwen2.5-1.5B&framework=trl"
    options = ["--vendor", "nvidia", "--provider", "verda", "--offer", "spot", "--no-dry-run"]
    assert main(["recommend", asked, *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for one in found["recommendations"]:
        plan = one["plan"]
        (offer, *_) = offers(plan["gpu"], "Verda", "spot")
        assert plan["price_per_gpu_hour"] == offer.usd_per_hour
    assert {one["gpu"] for one in found["front"]} - {"h100-80gb"}, "other cards than the plan's"
    assert any("the catalog has no Verda spot price" in text for text in found["left_out"])
    assert main(["recommend", f"{asked}&gpu=l40s", *options]) == 2
    assert "none of them is from NVIDIA with a Verda spot price" in capsys.readouterr().err
    assert main(["recommend", f"{asked}&gpu=a10g", "--no-dry-run", *FREE]) == 0
    assert "The catalog has no provider's price for this GPU." in capsys.readouterr().out


class Ran:
    """In place of dry runs: each plan's estimate with the next of the outcomes as its verdict."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *outcomes: str) -> None:
        self.outcomes, self.plans = list(outcomes), list[Plan]()
        monkeypatch.setattr(Port, "run", lambda port, plan: self.run(plan))

    def run(self, plan: Plan) -> DryRun:
        outcome = self.outcomes[len(dict.fromkeys((*self.plans, plan))) - 1]
        self.plans.append(plan)
        if outcome == "no answer":
            raise Refused("It was lost.")
        closed = estimate(plan)
        found = replace(closed, verdict=Verdict(word=outcome, sentence=""))
        return DryRun(
            footprint=found, estimate=closed, comparisons=(), phases=(), timeline=(), notes=(),
            versions={}, seconds=1.0, standing=replace(stand_in(plan), code=plan.framework),
        )  # fmt: skip


def test_the_dry_run_of_the_plan_to_take_follows_the_estimates(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = Ran(monkeypatch, "fits")
    assert main(["recommend", PLAN, *FREE]) == 0
    estimates, _, after = capsys.readouterr().out.partition("These are estimates")
    assert "dry run agrees" not in estimates and "balanced" in after
    assert "its dry run agrees." in after and re.match(r"Take the .*balanced.* plan\.", last(after))
    assert len(set(ran.plans)) == 1


def test_where_it_disagrees_the_plan_is_demoted_with_the_reason_and_the_next_is_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["recommend", THREE, "--goal", "fastest", "--free", "optimizer,micro_batch_size"]
    ran = Ran(monkeypatch, "out of memory", "fits")
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["recommendations"]
    named = {name: one for one in told for name in (one["name"], *one["also"])}
    assert named["balanced"]["checked"] == "demoted"
    assert "out of memory" in named["balanced"]["reason"]
    assert named["conservative"]["checked"] == "agrees"
    assert len(set(ran.plans)) == 2
    every = Ran(monkeypatch, *4 * ["out of memory"])
    assert main(asked) == 3  # nothing that is left fits
    assert len(set(every.plans)) == len({str(one["plan"]) for one in named.values()})


def test_a_dry_run_without_an_answer_leaves_the_plan_unchecked_and_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Ran(monkeypatch, "no answer")
    assert main(["recommend", PLAN, *FREE]) == 0
    said = capsys.readouterr().out
    assert "balanced: estimate only. The dry run failed: It was lost." in said.replace(
        " and aggressive", ""
    )
