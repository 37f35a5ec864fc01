"""Whatever the plan: either files the framework's own parser accepts, or fields in the way."""

import ast
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import Phase, given, settings

from launch.running import Worker, read_by_trl, read_by_verl
from planner.launch.export import export, fitted, why_not
from planner.launch.launch import CannotExpress, Launch
from planner.plan import FIELDS, Plan
from planner.plan.frameworks import exported
from random_plans import plans


def _accepted(workers: dict[str, Worker], launch: Launch, plan: Plan) -> None:
    if launch.framework not in workers:  # programs of our own, which Python reads
        for file in launch.files:
            assert not file.name.endswith(".py") or ast.parse(file.text)
        return
    with TemporaryDirectory() as folder:
        if launch.framework == "trl":
            reply = read_by_trl(workers["trl"], Path(folder), launch, plan)
        else:
            reply = read_by_verl(workers["verl"], Path(folder), launch)
    assert "error" not in reply, (reply, plan)


def test_every_export_is_accepted(trl: Worker, verl: Worker) -> None:
    workers = {"trl": trl, "verl": verl}
    seen: Counter[str] = Counter()

    # Shrinking would ask the parsers hundreds of times more; the failing plan is printed.
    @settings(max_examples=40, deadline=None, phases=[Phase.generate])
    @given(plans())
    def check(plan: Plan) -> None:
        for framework in exported():
            try:
                _accepted(workers, export(plan, framework), plan)
            except CannotExpress as refused:
                assert refused.fields and set(refused.fields) <= set(FIELDS)
                assert set(refused.changes) <= set(FIELDS)
                assert all(sentence.endswith(".") for sentence in why_not(plan, framework))
            # Random plans rarely suit a framework as they are; the nearest that does must.
            try:
                nearest = fitted(plan, framework)
            except CannotExpress as refused:
                assert not all(obstacle.changes for obstacle in refused.obstacles)
                seen["refused"] += 1
            else:
                _accepted(workers, export(nearest, framework), nearest)
                seen[framework] += 1

    check()
    assert seen["trl"] > 5 and seen["verl"] > 5 and seen["refused"] > 0
