"""An export for TRL or the Trainer read again: its files and its scripts' words, by bash itself.

``PYTHONPATH=.:tests python tests/frameworks/exported.py hf_trainer 2000 1`` does so for 2,000 plans
by lot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from launch.running import PATHS, run, unpack
from planner import registry
from planner.formulas.lora import lora_weights
from planner.importer import contents
from planner.importer.given import Given, Launch, Word
from planner.importer.reading import Reading
from planner.launch.export import export
from planner.launch.huggingface.training import written_steps
from planner.plan import Plan
from planner.plan.facts import facts_of
from planner.plan.relevance import without_effect


def givens(values: Mapping[str, Any]) -> tuple[Given, ...]:
    return tuple(Given(name, value) for name, value in values.items())


def words(texts: list[str]) -> tuple[Word, ...]:
    return tuple(Word(text) for text in texts)


def launched(folder: Path, plan: Plan) -> tuple[Launch, dict[str, tuple[Given, ...]], list[Launch]]:
    """The launch that a plan's launch.sh makes, its files, and its engine's server."""
    written = export(plan, plan.framework)
    unpack(written, folder)
    said = run(folder, **PATHS)[-1]
    programs = [word for word in said if word.endswith(".py")]
    module = 0 if programs else 1
    at = said.index(programs[0]) if programs else said.index("-m")
    files = {
        file.name: givens(
            json.loads(file.text) if file.name.endswith(".json") else yaml.safe_load(file.text)
        )
        for file in written.files
        if file.name.endswith((".yaml", ".json"))
    }
    sources = {file.name: file.text for file in written.files if file.name in programs}
    read = contents.documents(sources, dict.fromkeys(sources, "python"), (), [])
    files |= {name: tuple(told) for name, told, _ in read}
    scripts = [file.text for file in written.files if file.name not in ("engine.sh", *files)]
    exported = re.findall(r"^export (\w+)(?:=(\S+))?", "\n".join(scripts), re.M)
    launch = Launch(
        said[at + module],
        words(said[at + module + 1 :]),
        (("accelerate launch", words(said[2:at])),),
        {name: Word(value or PATHS.get(name, "")) for name, value in exported},
    )
    engines = [file.name for file in written.files if file.name == "engine.sh"]
    served = [run(folder, name, **PATHS)[-1] for name in engines]
    return launch, files, [Launch(" ".join(one[:2]), words(one[2:])) for one in served]


def read_again(folder: Path, plan: Plan) -> Reading:
    importer = registry.load("frameworks", plan.framework, "importer")
    made = launched(folder, plan)
    assert importer.takes(*made[:2])
    reading: Reading = importer.imported(*made)
    return reading


NOWHERE = frozenset(
    (
        *("gpu", "gpu_bytes", "host_ram_per_node", "disk_bytes_per_second", "price_per_gpu_hour"),
        *("mean_prompt_tokens", "length_distribution", "validation_responses"),
        *("reward_seconds", "reward_concurrency"),
        # what installs them says so, in a line that nobody runs
        *("torch_version", "framework_version", "config"),
    )
)
"""Fields that no file says: the machine, the data, prices, time outside."""
SAID = {"hf_trainer": ("prompt_tokens", "response_tokens", "batch_shape")}
"""Of data fields those that a framework's files say, since the program is one of ours."""


def normal(plan: Plan) -> dict[str, Any]:
    """A plan's fields as the files have them: what is another word for the same run is one word."""
    values = plan.model_dump()
    trained = plan.gpus - plan.rollout_gpus
    together = plan.micro_batch_size * trained
    rows = -(-plan.prompts_per_update * plan.responses_per_prompt // together) * together
    updates = plan.prompts_per_step // plan.prompts_per_update
    if plan.rollout == "none":
        # A step of several updates is as many steps, and a row has one length.
        prompts = rows // plan.responses_per_prompt
        values |= {"prompts_per_step": prompts, "prompts_per_update": prompts}
        values["logprob_micro_batch_size"] = plan.micro_batch_size
        accumulated = rows // together if plan.optimizer_step == "micro-batch" else 1
        values["steps"] *= updates * accumulated
        values["save_steps"] *= updates * accumulated
        if plan.optimizer_step == "micro-batch":
            values |= {"prompts_per_step": together, "prompts_per_update": together}
            values["optimizer_step"] = "update"
        length = plan.prompt_tokens + plan.response_tokens
        values |= {"prompt_tokens": length // 2, "response_tokens": length - length // 2}
        values |= {"reward": "rule", "reward_model": ""}  # nothing is scored
    elif plan.optimizer_step == "micro-batch" and together % plan.responses_per_prompt == 0:
        values |= {"prompts_per_update": together // plan.responses_per_prompt}
        values["optimizer_step"] = "update"
    elif plan.optimizer_step == "micro-batch":
        values["prompts_per_update"] = plan.prompts_per_step
    if plan.batch_shape == "full":
        values["batch_shape"] = "padded"  # which rows are full is the data's
    if plan.reward_model == plan.model:
        values["reward_model"] = ""
    if plan.shard_size == trained:
        values["shard_size"] = 0  # all of them
    if plan.rollout == "vllm-colocated":
        per_gpu = plan.prompts_per_step * plan.responses_per_prompt // trained
        values["max_num_seqs"] = per_gpu * plan.rollout_tensor_parallel
    return values | {name: getattr(plan, name) for name in SAID.get(plan.framework, ())}


def plan_read(plan: Plan, reading: Reading) -> Plan:
    """The plan that a reading makes, with what no file says taken from the exported one."""
    asked = {field for entry in reading.open for field in entry.fields}
    machines = plan.gpus - plan.rollout_gpus > plan.gpus_per_node
    beside = NOWHERE | (set() if machines else {"gpus_per_node"}) | asked
    said = {name: getattr(plan, name) for name in beside}
    if reading.plan.get("prompt_tokens", plan.prompt_tokens) < plan.mean_prompt_tokens:
        said["mean_prompt_tokens"] = 0  # of a row that has one length, where prompts end is unknown
    return Plan(**{**said, **reading.plan})


def differing(plan: Plan, reading: Reading) -> dict[str, tuple[Any, Any]]:
    """Fields that matter in a plan and came back otherwise: as exported, as read."""
    found, wanted = plan_read(plan, reading), normal(plan)
    own_steps = 1 if plan.rollout == "none" else written_steps(plan)
    if not plan.save_steps:
        # The default saves, too; where no whole step has it, that is said and not read.
        wanted["save_steps"] = 0 if 500 % own_steps else 500 // own_steps
    if adapted(plan) == adapted(found):
        wanted["lora_targets"] = found.lora_targets  # other names of the same weights
    left = {*Plan.model_fields} - without_effect(plan).keys()
    return {
        name: (wanted[name], getattr(found, name))
        for name in sorted(left)
        if wanted[name] != getattr(found, name)
    }


def adapted(plan: Plan) -> tuple[Any, ...]:
    if plan.finetuning == "full":
        return ()
    return lora_weights(facts_of(plan).policy, tuple(plan.lora_targets.split(",")))


def complaints(plan: Plan, reading: Reading) -> list[str]:
    """What an export's own files leave unread; no checkpoint is, where no whole step has one."""
    asked = {field for entry in reading.open for field in entry.fields}
    unsaid = {"gpu"} | ({"prompt_tokens"} if plan.rollout == "hf" else set())
    return [
        *(f"unknown {entry.name}" for entry in reading.unknown),
        *(f"beyond {one.name}: {one.why}" for one in reading.beyond if one.name != "save_steps"),
        *reading.messages,
        *(f"asks for {field}" for field in asked ^ unsaid),
    ]


if __name__ == "__main__":
    import sys
    from tempfile import TemporaryDirectory

    from frameworks.drawn_plans import drawn

    count, wrong = int(sys.argv[2]), 0
    for plan in drawn(sys.argv[1], count, seed=int(sys.argv[3])):
        with TemporaryDirectory() as folder:
            reading = read_again(Path(folder), plan)
        said = [differing(plan, reading), complaints(plan, reading)]
        wrong += any(said)
        if any(said):
            print(*said, plan.model_dump(exclude_defaults=True))
    print(f"{count:,} plans exported and read again: {wrong} differ")
    sys.exit(bool(wrong))
