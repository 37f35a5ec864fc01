"""``python -m accuracy.hand_read FOLDER``: forty launch files, read by hand, and what Import says.

FOLDER has the frameworks' sources, ``FOLDER/verl`` and ``FOLDER/trl``, at the commits that
hand_read.json names. That file was written before the importer was run on any of the forty:
values that a text sets, in a plan's fields, and nothing of the texts themselves. What was drawn
is drawn again here, so nobody has chosen a file.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planner.importer.imported import Imported, imported
from planner.importer.reading import Entry

FILE = Path(__file__).with_name("hand_read.json")
SEED = 2042
DRAWN = {"verl": 28, "trl": 12}
TRAINS = {
    "verl": r"-m\s+\S*(main_ppo|sft_trainer|main_ppo_split)\b|main_ppo\w*\.py",
    "trl": r"\.train\(\)",
}
"""What a text that starts a training has in it."""


def drawn(folder: Path) -> dict[str, list[str]]:
    """The files that the lot has fallen on, by framework."""
    draw = random.Random(SEED)
    return {
        name: sorted(draw.sample(_starting(folder / name, name), many))
        for name, many in DRAWN.items()
    }


def _starting(folder: Path, name: str) -> list[str]:
    found = []
    for part in ("examples", "trl/scripts") if name == "trl" else ("examples",):
        for path in (folder / part).rglob("*"):
            inner = str(path.relative_to(folder))
            if path.suffix not in (".sh", ".py", ".yaml", ".slurm") or "examples/tuning/" in inner:
                continue
            configured = name == "trl" and inner.startswith("examples/cli_configs/")
            if configured or re.search(TRAINS[name], path.read_text("utf-8", "replace")):
                found.append(inner)
    return sorted(found)


def compared(hand: dict[str, Any], found: Imported) -> Iterator[tuple[str, str, Any, Any]]:
    """Field, outcome, value by hand and value of the importer."""
    for field, said in hand.items():
        have = found.framework if field == "framework" else found.reading.plan.get(field)
        if field.endswith("_model") and have == "":  # the policy's own
            have = found.reading.plan.get("model")
        yield field, _outcome(field, said, have, found), said, have


def _outcome(field: str, said: Any, have: Any, found: Imported) -> str:
    kind, value = next(iter(said.items())) if isinstance(said, dict) else ("set", said)
    reading = found.reading
    if kind == "any":
        value = have if have in value else value[0]
    if kind == "folder" and str(have).endswith(f"/{value}"):
        value = have
    if field == "framework":
        return "as read" if have == value else "wrong"
    if not reading.plan:
        return "listed" if reading.messages else "wrong"
    named = _names(field, [*reading.open, *reading.beyond])
    if kind == "no_field":
        return "as read" if have is None and (named or field == "method") else "wrong"
    if kind == "open":
        if value is not None and have is not None and have != value:
            return "wrong"
        if _names(field, reading.open):
            return "as read"
        return "named" if have is None and named else "unsaid"
    if have is None:
        nothing = value == 1 and field.endswith("_parallel") and _names(field, reading.understood)
        return "as read" if nothing else "named" if named else "missing"
    if have != value:
        return "wrong"
    given = _names(field, reading.understood) or field == "method" or kind == "default"
    return "as read" if given else "by default"


def _names(field: str, entries: list[Entry]) -> bool:
    """Whether a setting carries the field, or is one that no field has and that says this."""
    hint = NO_FIELD.get(field, field)
    return any(field in one.fields or re.search(hint, one.name) for one in entries)


NO_FIELD = {
    "tensor_parallel": r"megatron\.tensor_model_parallel",
    "pipeline_parallel": r"megatron\.pipeline_model_parallel",
    "context_parallel": "sequence_parallel|context_parallel",
    "expert_parallel": r"megatron\.expert_model_parallel",
    "offload": r"actor\.megatron\..*offload",
    "reference": r"ref\.megatron\..*offload",
    "sharding": "model_engine",
    "logits": r"trainer\.class",
    "reinforce_baseline": "adv_estimator",
    "turns": r"multi_turn|config-name|trainer\.(tools|environment_factory)|max_tool_calling",
}
"""Settings that say what a field would, and are not planned or have no field."""


def main(folder: Path) -> None:
    """Print a row for each file, then every value that is not as it was read by hand."""
    by_hand = json.loads(FILE.read_text("utf-8"))
    told, totals = list[str](), Counter[str]()
    print(f"| file | by hand | {' | '.join(OUTCOMES)} |\n|---|{'---:|' * (len(OUTCOMES) + 1)}")
    for name, paths in drawn(folder).items():
        files = by_hand[name]["files"]
        if paths != sorted(files):
            sys.exit(f"{folder / name} is not {name} at {by_hand[name]['commit']}")
        for path in paths:
            found = imported({Path(path).name: (folder / name / path).read_text("utf-8")})
            counts: Counter[str] = Counter()
            for field, outcome, said, have in compared(files[path], found):
                counts[outcome] += 1
                if outcome != "as read":
                    told.append(f"{outcome}: {name}/{path}: {field} is {said}, imported {have}")
            totals += counts
            print(_row(f"{name}: `{path}`", counts))
    print(_row("all", totals), "", *told, sep="\n")


OUTCOMES = ("as read", "named", "listed", "wrong", "missing", "by default", "unsaid")


def _row(name: str, counts: Counter[str]) -> str:
    numbers = (counts[one] for one in OUTCOMES)
    return f"| {name} | {counts.total()} | {' | '.join(str(one or '') for one in numbers)} |"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
