"""Five hundred hostile values through every exporter and importer; more by the command."""

from pathlib import Path
from random import Random

from hostile.__main__ import tried
from hostile.bundles import kinds
from hostile.texts import READ, ways
from hostile.values import drawn
from planner import registry
from planner.launch.export import exported
from planner.plan.frameworks import frameworks
from planner.plan.trainers import exporting


def test_the_intended_words_arrive_and_nothing_runs(tmp_path: Path) -> None:
    assert not [wrong for _, wrong in tried(500, 11, tmp_path) if wrong]


def test_every_exporter_and_importer_is_tried() -> None:
    importing = {f for f in frameworks() if registry.has("frameworks", f, "importer")}
    dice = Random(1)
    assert {framework for framework, *_ in ways(dice, drawn(dice))} >= importing == {*READ}
    assert {framework for framework, *_ in kinds()} == {*exported()}
    assert {method for _, method, *_ in kinds() if "plain" in exporting(method)}
