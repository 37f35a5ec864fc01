"""Hypothesis strategies for valid plans, of the values that pinned plans are drawn from."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from accuracy.pinned.drawing import MODELS, repaired, values_of
from planner.plan import Plan


def _strategy(field: str, models: Sequence[str]) -> st.SearchStrategy[Any]:
    ranges: dict[str, st.SearchStrategy[Any]] = {
        "gpu_bytes": st.integers(0, 2**40),
        "host_ram_per_node": st.integers(0, 2**42),
        "gpu_memory_utilization": st.floats(0.0001, 0.9999),
        "price_per_gpu_hour": st.floats(0, 10_000),
    }
    return ranges[field] if field in ranges else st.sampled_from(values_of(field, models))


def plans(models: Sequence[str] = MODELS) -> st.SearchStrategy[Plan]:
    """Valid plans that differ from the defaults in any number of fields."""
    fields = {field: _strategy(field, models) for field in Plan.model_fields}
    return st.fixed_dictionaries({}, optional=fields).map(_repaired)


def _repaired(values: dict[str, Any]) -> Plan:
    plan = repaired(values)
    assert plan is not None, "nothing has to stay"
    return plan
