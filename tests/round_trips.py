"""Plans exported and imported again: every field that memory or seconds depend on comes back.

``PYTHONPATH=.:tests python -m round_trips FRAMEWORK COUNT`` goes over so many random plans.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from accuracy.pinned.drawing import MODELS, one_of_each, repaired, values_of
from launch.running import PATHS, run, unpack
from planner import registry
from planner.estimate import estimate
from planner.importer.given import Launch, Word
from planner.importer.reading import Reading
from planner.launch.export import export, fitted
from planner.launch.launch import CannotExpress
from planner.plan import Plan, choices
from planner.plan.relevance import without_effect
from planner.plan.trainers import exporting

UNSAID = (
    *("gpu", "gpu_bytes", "host_ram_per_node", "disk_bytes_per_second", "price_per_gpu_hour"),
    *("torch_version", "expandable_segments", "reward", "reward_seconds", "reward_concurrency"),
    *("mean_prompt_tokens", "length_distribution", "validation_responses"),
)
"""What no setting says: machines and prices, what rewards take, and what a data set holds."""
SHARE = 0.3
"""Of the fields that a plan sets."""


def drawn(framework: str, count: int, seed: int) -> Iterator[Plan]:
    """Random plans that a framework exports."""
    dice, models = random.Random(seed), (*MODELS, *one_of_each())
    methods = [method for method in choices("method") if framework in exporting(method)]
    while count:
        values = {
            field: dice.choice(values_of(field, models))
            for field in Plan.model_fields
            if dice.random() < SHARE
        }
        kept = {"framework": framework, "method": dice.choice(methods)}
        plan = repaired({**values, **kept, "gpus": dice.choice((1, 2, 4, 8, 16, 64))}, kept)
        try:
            near = fitted(plan, framework) if plan else None
        except CannotExpress:
            continue
        if near is not None:
            count -= 1
            yield near


def launched(plan: Plan, folder: Path) -> Launch:
    """What an exported script starts, by bash itself with stand-ins for programs."""
    words = run(unpack(export(plan, plan.framework), folder), **PATHS)[-1]
    at = words.index("-m") + 1
    return Launch(words[at], tuple(map(Word, words[at + 1 :])))


def again(plan: Plan, reading: Reading) -> Plan:
    """The plan that was read, on the same machine with the same data."""
    unsaid = {name: getattr(plan, name) for name in UNSAID}
    if plan.batch_shape == "full" and reading.plan["batch_shape"] == "padded":
        unsaid["batch_shape"] = "full"  # whether rows need padding, data decide
    if max(plan.gpus - plan.rollout_gpus, plan.rollout_gpus) <= plan.gpus_per_node:
        unsaid["gpus_per_node"] = plan.gpus_per_node  # one node may have more than a run uses
    return Plan(**{**reading.plan, **unsaid})


def differences(plan: Plan, read: Plan) -> list[str]:
    """A sentence for each field that came back otherwise, and for figures that did."""
    idle = without_effect(plan)
    if plan.logits == "fused":
        idle["logits_dtype"] = "fused heads compute in one dtype"
    named = {"critic_model": plan.model}
    found = [
        f"{field}: {before!r} came back as {after!r}"
        for field, before in plan.model_dump().items()
        if field not in idle
        and (before or named.get(field)) != ((after := getattr(read, field)) or named.get(field))
    ]
    one, other = estimate(plan), estimate(read)
    if (one.device_bytes, one.host_bytes) != (other.device_bytes, other.host_bytes):
        found.append(f"{one.device_bytes} bytes came back as {other.device_bytes}")
    return found


def tried(plan: Plan, folder: Path) -> list[str]:
    """What is wrong with a plan's round trip, as sentences; empty where nothing is."""
    launch = launched(plan, folder)
    importer = registry.load("frameworks", plan.framework, "importer")
    assert importer.takes(launch)
    reading: Reading = importer.imported(launch)
    lists = {"unknown": reading.unknown, "beyond": reading.beyond}
    lost = [f"{one.name} is {name}: {one.why}" for name, found in lists.items() for one in found]
    return [*lost, *reading.messages, *differences(plan, again(plan, reading))]


def main(framework: str, count: int, seed: int = 42) -> int:
    """Print what went wrong, each with how often; the number of plans that it did for."""
    wrong: Counter[str] = Counter()
    failed = 0
    for plan in drawn(framework, count, seed):
        with TemporaryDirectory() as folder:
            found = tried(plan, Path(folder))
        failed += bool(found)
        wrong.update(found)
    print(f"{framework}: {count - failed:,} of {count:,} plans came back as they were.")
    for sentence, times in wrong.most_common(40):
        print(f"{times} × {sentence}")
    return failed


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1], int(sys.argv[2])), 1))
