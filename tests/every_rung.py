"""A plan through every rung that needs no other process: ``every_rung.py QUERY WORDS``.

Run in a copy of the product whose folder was added to (:func:`recipes.run`), with the copy before
this repository on the path. Each check fails with what was found; the last line says that it ended.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Iterator
from math import isclose
from pathlib import Path
from urllib.parse import parse_qs

from planner import Plan, estimate, sweep
from planner.__main__ import main
from planner.advice.advice import Advice
from planner.comparison import compared
from planner.plan import choices, try_plan
from planner.plan.frameworks import framework_named
from planner.plan.link import from_query, from_query_string
from planner.plan.query import to_query, to_query_string
from planner.search import Wish, search
from planner.search.tiers import NAMES
from planner.sweeps.grid import FOLLOWERS

SIZES = {"response_tokens": [64, 256], "prompts_per_step": [8, 16]}
DECIDING = ("gradient_checkpointing", "optimizer", "logits", "finetuning", "dtype")
"""Fields of which a combination is made, whose values decide what a step does."""


def links(plan: Plan) -> None:
    """Complete and short, with what was chosen; every field comes back."""
    assert from_query(to_query(plan)).plan == plan
    assert from_query_string(to_query_string(plan, short=True)).plan == plan
    chosen = ("framework", "method", "model", *OWN)
    reading = from_query({key: [text] for key, text in to_query(plan, "", chosen).items()})
    assert (reading.plan, reading.problems, reading.notes) == (plan, (), ()), reading
    assert reading.chosen == {*chosen}, reading.chosen


def swept(plan: Plan) -> None:
    """Sizes as arrays, and combinations of choices, are what each plan's own estimate says."""
    for deciding in DECIDING:
        over = {deciding: choices(deciding), **SIZES}
        table = sweep(plan, over)
        assert table["valid"].sum() >= 4, table
        for row in table.to_dict("records"):
            given = {field: row[field] for field in over}
            given |= {one: row[led] for one, led in FOLLOWERS.items() if led in row}
            made, _ = try_plan(plan.model_dump() | given)
            assert (made is not None) == row["valid"], given
            if made is not None:
                alone = estimate(made)
                assert row["device_bytes"] == alone.device_bytes, (given, row)
                assert row["worst_phase"] == alone.worst.name, (given, row)
                assert isclose(row["step_seconds"], alone.step_seconds or 0), (given, row)


def advised(plan: Plan) -> None:
    """Whatever is advised is a plan of the same method and framework, estimated whole."""
    found = Advice(estimate(plan))
    assert found.singles and not found.ways and found.idle
    for one in (*found.singles, *found.faster):
        assert {*one.changes}.isdisjoint(("method", "framework")), one
        made, problems = try_plan(plan.model_dump() | dict(one.changes))
        assert made is not None, problems
        assert one.after.device_bytes == estimate(made).device_bytes, one.title


def searched(plan: Plan) -> None:
    """A plan of each margin for a goal, of this method and with this framework."""
    found = search(plan, Wish(goal="cheapest", keep=("framework", *OWN)))
    names = {name for one in found.recommendations for name in one.names}
    assert names >= {*NAMES}, found.misses
    for one in found.recommendations:
        for field in ("method", "framework", "model", *OWN):
            assert getattr(one.plan, field) == getattr(plan, field), field
        assert one.footprint == estimate(one.plan)


def beside_another(plan: Plan) -> None:
    """Compare has what differs, own fields too."""
    other, _ = try_plan({"model": plan.model, "gpus": plan.gpus})
    assert other is not None
    named = compared((("made up", plan), ("usual", other)), estimate)
    whole = bool(framework_named(plan.framework).loop_read)
    assert [one.runs for one in named] == [whole, True]
    assert named[0].footprint.verdict.said == ("fits" if whole else "incomplete")


def commands(plan: Plan) -> None:
    """The command line's words of it, and JSON that is a plan again."""
    query = to_query_string(plan)
    for told, *words in (
        (LABEL, "estimate", query),
        ("Single changes:", "advise", query),
        (LABEL, "recommend", query, "--goal", "fastest"),
        (LABEL, "compare", query, "preset=sft-8b@1", "--exit-zero"),
        ("response_tokens", "sweep", query, "--over", "response_tokens=64:256"),
        ("report.html", "report", query, "--output", "report.html"),
        *((own, "fields") for own in OWN),
    ):
        assert told in _said(*words), words
    assert LABEL in Path("report.html").read_text("utf-8")
    answer = json.loads(_said("estimate", query, "--json"))
    assert answer["plan"] == json.loads(plan.model_dump_json()), "JSON is not the plan"
    Path("plan.json").write_text(json.dumps(answer), "utf-8")
    assert json.loads(_said("estimate", "plan.json", "--json")) == answer


def _said(*words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main(words)
    assert status == 0, (words, out.getvalue())
    return out.getvalue()


def rungs() -> Iterator[str]:
    """Every check of this module, in its order."""
    plan = from_query_string(QUERY).plan
    assert plan is not None
    for rung in (links, swept, advised, searched, beside_another, commands):
        rung(plan)
        yield rung.__name__


if __name__ == "__main__":
    QUERY, LABEL = sys.argv[1:]
    OWN = tuple(key for key in parse_qs(QUERY) if key.startswith("made_up"))
    for name in rungs():
        print(name)
    print("walked")
