"""What every framework makes of every field of a plan: ``docs/field-effects.md`` is this.

``PYTHONPATH=. python tests/field_effects.py`` writes it. Each field is set to other values in a few
plans of each framework; whether a figure moves, a rule refuses it or a reason is told is asked of
the product itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from planner.cost import cost
from planner.estimate import estimate
from planner.footprint import Footprint
from planner.launch.export import exporter_of
from planner.plan import FIELDS, Plan, choices, try_plan
from planner.plan.frameworks import OWN, exported, framework_named, frameworks
from planner.plan.relevance import without_effect

Fields = dict[str, Any]

MODEL = "Qwen/Qwen2.5-0.5B"
BASES: tuple[Fields, ...] = (
    {"method": "grpo", "reward_seconds": 2.0},
    {"method": "grpo", "finetuning": "lora", "master_dtype": "fp32", "gradient_dtype": "fp32",
     "sharding": "ddp"},
    {"method": "grpo", "model": "Qwen/Qwen3-30B-A3B", "rollout_tensor_parallel": 2},
    {"method": "grpo", "rollout": "vllm-separate", "rollout_tensor_parallel": 2, "save_steps": 50,
     "eval_steps": 50, "validation_responses": 64},
    {"method": "grpo", "rollout": "hf", "gpus": 1, "logits": "chunked", "max_num_seqs": 64},
    {"method": "ppo", "reward": "model", "max_tokens_per_micro_batch": 8192},
    {"method": "sft", "sharding": "zero2"},
    {"method": "sft", "finetuning": "qlora", "gpus": 1},
    {"method": "dpo"},
    {"method": "intuitor"},
    {"method": "reinforce++"},
    {"method": "grade", "grade_kl": "online", "grade_top_k": 64, "finetuning": "lora", "gpus": 1,
     "prompts_per_step": 4, "prompt_tokens": 32, "response_tokens": 8, "responses_per_prompt": 1},
)  # fmt: skip
"""Small plans of every kind; what a framework's rules blame is left to its defaults."""

VALUES: Mapping[str, tuple[Any, ...]] = {
    "model": ("Qwen/Qwen2.5-1.5B",),
    "critic_model": ("Qwen/Qwen2.5-1.5B",),
    "reward_model": ("Qwen/Qwen2.5-1.5B",),
    "config": (),
    "framework_version": ("1.14.0",),
    "torch_version": ("2.12.0",),
    "gpu": ("a100-80gb",),
    "gpu_bytes": (2**36,),
    "gpus_per_node": (4,),
    "host_ram_per_node": (2**33,),
    "disk_bytes_per_second": (2**30,),
    "shard_size": (4,),
    "max_tokens_per_micro_batch": (8192,),
    "mean_prompt_tokens": (100,),
    "length_distribution": ("1~lognormal_500~300",),
    "lora_targets": ("q_proj,v_proj",),
    "lora_dropout": (0.1,),
    "temperature": (0.7,),
    "resampling_factor": (2.0,),
    "reward_seconds": (5.0,),
    "reward_concurrency": (4,),
    "rollout_gpus": (6,),
    "gpu_memory_utilization": (0.35,),
    "max_num_seqs": (16,),
    "max_num_batched_tokens": (2048,),
    "sync_bucket_bytes": (2**28,),
    "grade_top_k": (32, 64),
    "price_per_gpu_hour": (9.0,),
}

SHARDINGS: tuple[Fields, ...] = (
    {"sharding": "none", "gpus": 1},
    *({"sharding": name, "gpus": 8} for name in ("ddp", "zero1", "zero2", "zero3")),
    *({"sharding": name, "gpus": 8} for name in ("fsdp1", "fsdp2")),
    {"sharding": "zero3", "gpus": 8, "offload": "all"},
)
OF_SHARDING = (
    *("reduce_dtype", "gradient_dtype", "master_dtype", "logits_dtype", "reshard_after_forward"),
    *("shard_size", "gpus_per_node", "offload", "activation_offload", "optimizer", "liger"),
    *("mean_prompt_tokens", "micro_batch_size", "gradient_checkpointing", "attention", "autocast"),
)
"""Fields that what weights are sharded by may leave without effect."""

EXPLAINED: Mapping[tuple[str, str], str] = {
    ("trl", "temperature"): "its fused head divides in the kernel, in place",
    ("trl", "reduce_dtype"): "its bf16 and fp16 are as wide",
    ("hf_trainer", "attention"): "a micro-batch of one row has no padding: SDPA runs unmasked",
    ("verl", "attention"): "FlashAttention-3 takes what its usual FlashAttention-2 does",
    ("verl", "compile"): "with flash attention the graph breaks in each layer, and a note says so",
    ("verl", "rollout_overlap"): "an engine apart overlaps in both of its ways",
}
"""Why a value that moves plain PyTorch's figures moves none of a framework's, unsaid by itself."""


@dataclass(slots=True)
class Effect:
    """What a framework makes of a field, over all plans that were tried."""

    moves: bool = False
    refused: set[str] = field(default_factory=set)
    """By the framework itself."""
    by_rule: set[str] = field(default_factory=set)
    """By a rule of all frameworks."""
    idle: set[str] = field(default_factory=set)
    script: set[str] = field(default_factory=set)
    """What the framework's launch script refuses of what the estimate honours."""
    still: bool = False
    ignored: list[str] = field(default_factory=list)
    """Plans of plain PyTorch that the value moves, and of this framework that it does not."""

    def said(self, name: str, framework: str) -> str:
        """A cell."""
        found = ["honoured"] if self.moves else []
        none = not (self.moves or self.still or self.idle)
        parts = {
            "refused": self.refused or (self.by_rule if none else set()),
            "without effect": set() if self.moves else self.idle,
            "refused by its script": self.script,
        }
        found += [
            f"{kind}: {' / '.join(sorted(said)).rstrip('.')}"
            for kind, said in parts.items()
            if said
        ]
        if (framework, name) in EXPLAINED:
            found.append(EXPLAINED[framework, name])
        return "; ".join(found) or "moves no figure"


def effects() -> dict[str, dict[str, Effect]]:
    """Field → framework → what it makes of it."""
    found = {name: {each: Effect() for each in frameworks()} for name in FIELDS}
    moved: set[tuple[str, int, str]] = set()
    for framework in sorted(frameworks(), key=lambda each: each != OWN):
        for number, base in enumerate(BASES):
            plan = _plan(framework, base)
            if plan is None:
                continue
            before = _figures(estimate(plan))
            whole = all(getattr(plan, name) == value for name, value in base.items())
            for name in FIELDS:
                for value in _values(name, plan):
                    case = (name, number, str(value))
                    kind = _tried(found[name][framework], plan, base, before, name, value)
                    if framework == OWN and kind == "moves":
                        moved.add(case)
                    if kind == "still" and whole and case in moved:
                        found[name][framework].ignored.append(f"{base} {name}={value}")
    return found


def silent() -> list[str]:
    """Where no other value of a field moves a figure, is refused or is told to have no effect."""
    found = []
    for framework, method, how in product(frameworks(), ("sft", "grpo"), SHARDINGS):
        base = {"method": method, **how}
        plan = _plan(framework, base)
        if plan is None or plan.sharding != how["sharding"]:
            continue
        before = _figures(estimate(plan))
        for name in OF_SHARDING:
            kinds = {
                _tried(Effect(), plan, base, before, name, value) for value in _values(name, plan)
            }
            if kinds == {"still"} and name not in without_effect(plan):
                found.append(f"{name} of {framework}, {base}")
    return found


def _tried(effect: Effect, plan: Plan, base: Fields, before: object, name: str, value: Any) -> str:
    changed, problems = try_plan({**plan.model_dump(), name: value})
    if changed is None:  # what follows the field may have to
        asked = {"model": MODEL, **base, "framework": plan.framework, name: value}
        changed, _ = try_plan(asked)
    if changed is None:
        framework = framework_named(plan.framework)
        for problem in problems:
            own = framework.label in problem.sentence
            (effect.refused if own else effect.by_rule).add(problem.sentence)
        return "refused"
    reason = without_effect(changed).get(name)
    if _figures(estimate(changed)) != before:
        effect.moves = True
        effect.script.update(_of_script(changed, name) - _of_script(plan, name))
        return "moves"
    if reason:
        effect.idle.add(reason)
        return "idle"
    effect.still = True
    return "still"


def _of_script(plan: Plan, name: str) -> set[str]:
    if plan.framework == OWN or plan.framework not in exported():
        return set()
    found = exporter_of(plan.framework).obstacles(plan)
    return {each.why for each in found if each.field == name}


def _plan(framework: str, base: Fields) -> Plan | None:
    """The plan of a framework, without what its rules blame; None where it has no such method."""
    left = {"model": MODEL, **base, "framework": framework}
    for _ in range(4):
        plan, problems = try_plan(left)
        if plan is not None:
            return plan
        blamed = {problem.field for problem in problems}
        if not blamed & left.keys() or blamed & {"method", "framework"}:
            return None
        left = {name: value for name, value in left.items() if name not in blamed}
    return None


def _values(name: str, plan: Plan) -> Iterator[Any]:
    now = getattr(plan, name)
    if name in ("method", "framework"):
        return
    found: tuple[Any, ...] = VALUES.get(name, choices(name))
    if name not in VALUES and not found:
        found = (not now,) if isinstance(now, bool) else (2 * now or 4, max(now // 2, 1))
    yield from (value for value in dict.fromkeys(found) if value != now)


def _figures(footprint: Footprint) -> object:
    """Everything that an answer says in figures and words of its verdict."""
    phases = [
        (phase.name, phase.rank, *(getattr(phase, name) for name in FIGURES))
        for phase in footprint.phases
    ]
    said = footprint.verdict, footprint.assumptions, footprint.blockers, footprint.error
    return repr((phases, footprint.step_seconds, footprint.budget_bytes, said, cost(footprint)))


FIGURES = (
    *("requested_bytes", "allocated_bytes", "reserved_bytes", "device_bytes", "host_bytes"),
    *("host_high_bytes", "high_bytes", "low_bytes", "seconds", "low_seconds", "high_seconds"),
    "occasions",
)

PAGE = Path(__file__).parents[1] / "docs" / "field-effects.md"
HEAD = """# What every framework makes of every field

`PYTHONPATH=. python tests/field_effects.py` writes this page; a test compares the page with the
script's output. Each field was set to other values in small plans of every kind. *Honoured*: a
figure of the estimate moves. *Refused*: there is no such plan, in these words. *Without effect*:
what the plan says elsewhere decides, and a note says so. *Refused by its script*:
the estimate has the value as it is named, and `launch` refuses it.
"""


def text(found: Mapping[str, Mapping[str, Effect]] | None = None) -> str:
    """The page."""
    found = found or effects()
    names = list(frameworks())
    labels = [framework_named(name).label for name in names]
    lines = [HEAD, f"| field | {' | '.join(labels)} |", "|---" * (len(names) + 1) + "|"]
    for name in FIELDS:
        if name in ("method", "framework", "config"):
            continue
        cells = (found[name][each].said(name, each) for each in names)
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
