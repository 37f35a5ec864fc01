"""Hypothesis strategies for valid plans.

Fields are drawn freely and those that the plan's rules blame are left to the defaults,
so nearly every draw ends in a valid plan without repeating the rules here.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from planner.plan import Plan, choices, try_plan
from planner.plan.fieldtext import KINDS

MODELS = ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-4B")
CARDS = ("h100-80gb", "a100-80gb", "rtx-4090")
SIZES = (1, 2, 4, 8, 16, 64, 128, 512)
TOKENS = (1, 17, 128, 512, 2048, 16_384, 131_072)


def _strategy(field: str, models: Sequence[str]) -> st.SearchStrategy[Any]:
    special: dict[str, st.SearchStrategy[Any]] = {
        "model": st.sampled_from(models),
        "critic_model": st.sampled_from(("", *models)),
        "reward_model": st.sampled_from(("", *models)),
        "gpu": st.sampled_from(CARDS),
        "gpu_bytes": st.integers(0, 2**40),
        "host_ram_per_node": st.integers(0, 2**42),
        "lora_targets": st.sampled_from(("all-linear", "q_proj,v_proj")),
        "gpu_memory_utilization": st.floats(0.0001, 0.9999),
        "price_per_gpu_hour": st.floats(0, 10_000),
        "max_tokens_per_micro_batch": st.sampled_from((0, 4096, 65_536)),
        "vllm_sleep_level": st.integers(0, 2),
        "temperature": st.sampled_from((0.7, 1.0)),
        "lora_dropout": st.sampled_from((0.0, 0.1)),
    }
    if field in special:
        return special[field]
    if choices(field):
        return st.sampled_from(choices(field))
    if KINDS[field] is bool:
        return st.booleans()
    if KINDS[field] is int:
        return st.sampled_from(TOKENS if field.endswith("_tokens") else SIZES)
    return st.just(Plan.model_fields[field].default)


def _repaired(values: dict[str, Any]) -> Plan:
    """The plan of these values without those that the rules blame."""
    left = dict(values)
    while True:
        plan, problems = try_plan(left)
        if plan is not None:
            return plan
        blamed = {problem.field for problem in problems} & left.keys()
        for field in blamed or tuple(left):
            del left[field]


def plans(models: Sequence[str] = MODELS) -> st.SearchStrategy[Plan]:
    """Valid plans that differ from the defaults in any number of fields."""
    fields = {field: _strategy(field, models) for field in Plan.model_fields}
    return st.fixed_dictionaries({}, optional=fields).map(_repaired)
