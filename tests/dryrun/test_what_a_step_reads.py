"""What a dry run asks the closed form while it runs is in the keys of its evidence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any

import pytest

import evidence
from accuracy.cpu_cases import CASES
from accuracy.trl_cases import CASES as OF_TRL
from accuracy.verl_cases import CASES as OF_VERL
from planner.dryrun.logs import curve
from planner.dryrun.run.execute import dry_run
from planner.plan.frameworks import OWN

LOGITS = ("full", "response", "chunked", "fused")
OURS = [
    next(case for case in CASES if case.plan.logits == logits and case.plan.method == method)
    for logits, method in (*((each, "grpo") for each in LOGITS), ("chunked", "sft"))
]
OURS += [next(case for case in CASES if case.plan.method == name) for name in ("intuitor", "grade")]
OURS.append(next(case for case in CASES if case.plan.finetuning == "lora"))
PLANS = [(OWN, case.plan, case.configs) for case in OURS]
PLANS += [
    (code, case.plan, {role: case.config for role in ("policy", "critic", "reward")})
    for code, case in (("trl", OF_TRL[0]), ("verl", OF_VERL[0]))
]


@contextmanager
def called() -> Iterator[set[str]]:
    """Modules of the planner whose functions are called, with no answer at hand from before."""
    found: set[str] = set()
    for name, module in sys.modules.items():
        if name.startswith(("planner.formulas", "planner.plan")):
            for value in vars(module).values():
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
    root = str(evidence.ROOT / "planner")

    def heard(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            found.add(frame.f_globals["__name__"])

    sys.setprofile(heard)
    try:
        yield found
    finally:
        sys.setprofile(None)


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")
@pytest.mark.parametrize(("code", "plan", "configs"), PLANS, ids=[
    f"{code}-{plan.method}-{plan.finetuning}-{plan.logits}" for code, plan, _ in PLANS
])  # fmt: skip
def test_a_key_covers_what_a_dry_run_calls(code: str, plan: Any, configs: Any) -> None:
    if code != OWN:
        import_module(f"planner.frameworks.{code}.run.step")  # which calls what makes its formulas
    with called() as modules:
        curve.peaks(dry_run(plan, configs, code=code))
    assert "planner.dryrun.run.execute" in modules
    assert not {module for module in modules if evidence._path(module) is None}
