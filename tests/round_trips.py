"""Plans exported and imported again: every field that memory or seconds depend on comes back.

``PYTHONPATH=.:tests python -m round_trips FRAMEWORK COUNT`` goes over so many random plans, and
with ``--mended`` over plans that do not fit: the exported files with the smallest change that makes
them fit, imported again, say exactly that plan.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator

from accuracy.pinned.drawing import MODELS, one_of_each, repaired, values_of
from planner.advice.advice import Advice
from planner.estimate import estimate
from planner.formulas.lora import adapted_names, lora_weights
from planner.importer.given import Launch
from planner.importer.imported import imported
from planner.importer.reading import Reading
from planner.importer.rewriting import suggested
from planner.importer.shell import read_shell
from planner.launch.export import export, fitted, in_the_way
from planner.launch.launch import CannotExpress
from planner.plan import Plan, choices
from planner.plan.chosen import differences as changed
from planner.plan.facts import facts_of
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


def launched(plan: Plan) -> Launch:
    """What an exported script starts."""
    script, *beside = export(plan, plan.framework).files
    return read_shell(script.text, script.name, {one.name: one.text for one in beside})[-1]


def read_again(plan: Plan) -> Reading:
    """What an import reads of an exported bundle, all of its files given."""
    found = imported({one.name: one.text for one in export(plan, plan.framework).files})
    assert found.framework == plan.framework, found.notes
    return found.reading


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
    found = [
        f"{field}: {getattr(plan, field)!r} came back as {getattr(read, field)!r}"
        for field in Plan.model_fields
        if field not in idle and _said(plan, field) != _said(read, field)
    ]
    one, other = estimate(plan), estimate(read)
    if (one.device_bytes, one.host_bytes) != (other.device_bytes, other.host_bytes):
        found.append(f"{one.device_bytes} bytes came back as {other.device_bytes}")
    return found


def _said(plan: Plan, field: str) -> object:
    """A field's value, of several words for the same thing always one."""
    if field == "lora_targets" and plan.finetuning != "full":
        policy = facts_of(plan).policy
        return adapted_names(lora_weights(policy, tuple(plan.lora_targets.split(","))))
    return getattr(plan, field) or (plan.model if field in OWN_MODELS else None)


OWN_MODELS = ("critic_model", "reward_model")
"""Fields that are the policy's model where nothing is said."""


def tried(plan: Plan) -> list[str]:
    """What is wrong with a plan's round trip, as sentences; empty where nothing is."""
    reading = read_again(plan)
    lists = {"unknown": reading.unknown, "beyond": reading.beyond}
    lost = [f"{one.name} is {name}: {one.why}" for name, found in lists.items() for one in found]
    return [*lost, *reading.messages, *differences(plan, again(plan, reading))]


SUMMED = {"prompt_tokens", "response_tokens", "validation_response_tokens"}
"""What trainers without rollout have one length for."""


def mended(plan: Plan) -> list[str] | None:
    """What is wrong with the files of a plan that does not fit, changed so that it does.

    None for a plan that fits, or that no change mends.
    """
    if estimate(plan).verdict.word != "out of memory":
        return None
    texts = {one.name: one.text for one in export(plan, plan.framework).files}
    said = {name: getattr(plan, name) for name in (*UNSAID, "gpus_per_node", "config")}
    found = imported(texts, {name: value for name, value in said.items() if value})
    if found.plan is None:
        return [f"no plan: {', '.join((*found.asks, *found.notes))}"]
    ways = Advice(estimate(found.plan), refused=in_the_way).ways
    if not ways:
        return None
    new, after = suggested(found, ways[0]), ways[0].after.plan
    left = [f"{one.field} is not {one.after}" for one in changed(dict(new.plan), dict(after))]
    idle = {f"{field} is not" for field in without_effect(after)}
    if after.rollout == "none" and _row(new.plan) == _row(after):
        idle |= {f"{field} is not" for field in SUMMED}
    return [one for one in left if not one.startswith(tuple(idle))]


def _row(plan: Plan) -> int:
    return plan.prompt_tokens + plan.response_tokens


def main(framework: str, count: int, of: Callable[[Plan], list[str] | None] = tried) -> int:
    """Print what went wrong, each with how often; the number of plans that it did for."""
    wrong: Counter[str] = Counter()
    failed = done = 0
    for plan in drawn(framework, 50 * count, 42):
        found = of(plan)
        if found is None:
            continue
        failed += bool(found)
        wrong.update(found)
        done += 1
        if done == count:
            break
    print(f"{framework}: {done - failed:,} of {done:,} plans came back as they were.")
    for sentence, times in wrong.most_common(40):
        print(f"{times} × {sentence}")
    return failed


if __name__ == "__main__":
    each = mended if "--mended" in sys.argv else tried
    sys.exit(min(main(sys.argv[1], int(sys.argv[2]), each), 1))
