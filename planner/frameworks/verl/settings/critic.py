"""The critic's settings, most of them the policy's again: a plan has one value for both."""

from __future__ import annotations

from dataclasses import replace

from planner.frameworks.verl.settings.batches import DYNAMIC, LOGPROB_ROWS, ROWS, TOKENS, UPDATE
from planner.frameworks.verl.settings.engine import FSDP, OPTIM, OPTIMIZED, SHARDED, SHARDING
from planner.frameworks.verl.settings.model import CRITICS
from planner.frameworks.verl.settings.roles import budgets, criticises, estimator_of
from planner.frameworks.verl.settings.rows import CRITIC, Added, Said, follows, joint, same_as
from planner.plan import Plan
from planner.values.setting import Setting

_BUDGET = 32768
"""critic.ppo_max_token_len_per_gpu of critic.yaml."""


def _budgets(said: Said) -> bool:
    return criticises(said) and budgets(said)


def _counts(said: Said) -> bool:
    return criticises(said) and not budgets(said)


def _engine_counts(said: Said) -> bool:
    return _counts(said) and said[f"{CRITIC}.fsdp.use_dynamic_bsz"] is False


def _renamed(row: Setting, ours: str, theirs: str) -> Setting:
    name, kind = row.name.replace(ours, theirs), type(row)
    return same_as(row, name, row.default, row.source, criticises, kind=kind)


def _written(row: Setting) -> Setting:
    """The row, written only for plans with a critic."""

    def write(plan: Plan) -> object:
        return row.write(plan) if row.write and estimator_of(plan).critic else None

    return replace(row, write=write)


_PER_GPU = "ppo_micro_batch_size_per_gpu"
_ENGINE = "workers/config/engine.py"

CRITIC_ROWS = tuple(
    _written(row)
    for row in (
        same_as(SHARDING, f"{CRITIC}.strategy", "fsdp", "critic/dp_critic.yaml:26", criticises),
        *(_renamed(row, FSDP, f"{CRITIC}.fsdp") for row in SHARDED),
        *(_renamed(row, OPTIM, f"{CRITIC}.optim") for row in OPTIMIZED),
        *CRITICS,
        same_as(
            ROWS, f"{CRITIC}.{_PER_GPU}", "${oc.select:.ppo_micro_batch_size,null}",
            "critic/critic.yaml:40", _counts,
        ),
        same_as(
            LOGPROB_ROWS, f"{CRITIC}.forward_micro_batch_size_per_gpu",
            f"${{oc.select:.{_PER_GPU},null}}", "critic/dp_critic.yaml:32", _counts,
        ),
        same_as(
            TOKENS, f"{CRITIC}.ppo_max_token_len_per_gpu", _BUDGET, "critic/critic.yaml:46",
            _budgets,
        ),
        # Its engine is given none of the critic's own sizes but a budget for inference: the trainer
        # (trainer/ppo/v1/trainer_base.py) copies that one for both passes, and the engine then
        # cuts by a budget unless told otherwise.
        same_as(
            TOKENS, f"{CRITIC}.ppo_infer_max_token_len_per_gpu", _BUDGET,
            "workers/config/critic.py:89", _budgets, kind=Added,
        ),
        same_as(
            DYNAMIC, f"{CRITIC}.fsdp.use_dynamic_bsz", True, f"{_ENGINE}:100", criticises,
            kind=Added,
        ),
        same_as(
            ROWS, f"{CRITIC}.fsdp.micro_batch_size_per_gpu", None, f"{_ENGINE}:103",
            _engine_counts, kind=Added,
        ),
        same_as(
            LOGPROB_ROWS, f"{CRITIC}.fsdp.infer_micro_batch_size_per_gpu", None, f"{_ENGINE}:106",
            _engine_counts, kind=Added,
        ),
    )
)  # fmt: skip

CRITIC_FOLLOWING = (
    joint(("method", "critic"), f"{CRITIC}.enable", None, "critic/critic.yaml:13"),
    follows(
        UPDATE, f"{CRITIC}.ppo_mini_batch_size",
        f"${{oc.select:{UPDATE.name},256}}", "critic/critic.yaml:34", criticises,
    ),
    follows(
        DYNAMIC, f"{CRITIC}.use_dynamic_bsz", f"${{oc.select:{DYNAMIC.name},false}}",
        "critic/critic.yaml:43", criticises,
    ),
    follows(
        TOKENS, f"{CRITIC}.forward_max_token_len_per_gpu", "${.ppo_max_token_len_per_gpu}",
        "critic/critic.yaml:49", _budgets,
    ),
)  # fmt: skip
