"""Which models a run has, by its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from planner.frameworks.verl import FRAMEWORK
from planner.frameworks.verl.estimator import Estimator
from planner.frameworks.verl.settings.rows import ACTOR, MODEL, Said, shown
from planner.plan import Plan
from planner.plan.methods import methods
from planner.plan.trainers import trainer_of


def estimator_of(plan: Plan) -> Estimator:
    """What verl calls a plan's advantages."""
    found: Estimator = trainer_of(FRAMEWORK.name, plan.method).export
    return found


def method_of(said: Said) -> tuple[str, Estimator, Mapping[str, Any]]:
    """The method of an advantage estimator, verl's words for it, and fields that go with it.

    Raises:
        ValueError: no method here has it.
    """
    name = said["algorithm.adv_estimator"]
    for method, estimator in _estimators():
        if isinstance(name, str) and name in estimator.fields:
            return method, estimator, estimator.fields[name]
    raise ValueError(f"The advantage estimator {shown(name)} is no method that is planned.")


def _estimators() -> Iterator[tuple[str, Estimator]]:
    for method in methods():
        found = trainer_of(FRAMEWORK.name, method).export
        if found is not None:
            yield method, found


def criticises(said: Said) -> bool:
    """Whether a critic trains (``trainer/ppo/utils.py``, need_critic)."""
    asked = said["critic.enable"]
    if asked is not None:
        return bool(asked)
    try:
        return method_of(said)[1].critic
    except ValueError:
        return False


def compares(said: Said) -> bool:
    """Whether a reference scores responses (``trainer/ppo/utils.py``, need_reference_policy)."""
    return bool(said[f"{ACTOR}.use_kl_loss"] or said["algorithm.use_kl_in_reward"])


def adapts(said: Said) -> bool:
    """Whether adapters alone train."""
    rank = said[f"{MODEL}.lora_rank"]
    return isinstance(rank, int) and rank > 0


def compares_whole(said: Said) -> bool:
    """Whether the reference is a model of its own."""
    return compares(said) and not adapts(said)


def budgets(said: Said) -> bool:
    """Whether a budget of tokens cuts micro-batches."""
    return bool(said[f"{ACTOR}.use_dynamic_bsz"])


def separates(said: Said) -> bool:
    """Whether the engine has GPUs of its own.

    Raises:
        ValueError: it has, and generates for a trainer that is not planned.
    """
    apart = said["actor_rollout_ref.hybrid_engine"] is False
    if apart and said["trainer.v1.trainer_mode"] != "sync":
        raise ValueError("An engine apart is planned for verl's one_step_off_policy alone.")
    return apart


def apart(plan: Plan) -> bool:
    """Whether a plan's engine has GPUs of its own."""
    return bool(plan.rollout == "vllm-separate")


def always(said: Said) -> bool:
    """For what every run has."""
    return True
