"""RLOO's and REINFORCE++'s advantages and loss: by hand, and as TRL's and verl's code has them."""

from __future__ import annotations

import inspect
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from launch.running import Worker
from planner.plan import Plan
from planner.plan.methods import part
from planner.setup.setup import setup_of
from planner.steps.objectives import KL_WEIGHT, policy_loss
from planner.steps.run import Run
from planner.steps.stage import Stage
from step_results import RESPONSE, SEQUENCES, plan_of

GROUPED = {"reinforce_baseline": "group", "responses_per_prompt": 2, "prompts_per_step": 2}
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "rloo": ("rloo", {}, "rloo"),
    "rloo of four": ("rloo", {"responses_per_prompt": 4, "prompts_per_step": 1}, "rloo"),
    "reinforce++": ("reinforce++", {}, "reinforce_plus_plus"),
    "reinforce++ by groups": ("reinforce++", GROUPED, "reinforce_plus_plus_baseline"),
}
"""Method, fields and verl's name of the estimator."""


@pytest.fixture(scope="module")
def verl() -> Iterator[Worker]:
    worker = Worker("verl_advantages.py")
    yield worker
    worker.close()


def numbers(*shape: int, seed: int = 5) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def kept(plan: Plan, rewards: torch.Tensor, stage: Stage | None = None, **more: Any) -> Any:
    """The advantages [sequences, tokens] that a plan's own step keeps."""
    run = Run(setup=setup_of(plan), stage=stage or Stage(), kept=more)
    part(plan.method, "step", "keep_advantages")(run, rewards.clone())
    return run.kept["advantages"]


@pytest.mark.parametrize("kl", ["none", "reward"])
@pytest.mark.parametrize("name", CASES)
def test_advantages_are_verls(name: str, kl: str, verl: Worker) -> None:
    method, changes, estimator = CASES[name]
    plan = plan_of(method, **{"kl": kl, "reference": "copy", **changes})
    rewards = numbers(SEQUENCES)
    # Far apart, so that a small weight of the KL term still shows.
    old, reference = 200 * numbers(SEQUENCES, RESPONSE), 200 * numbers(SEQUENCES, RESPONSE, seed=6)
    given = {"old log-probs": old, "reference log-probs": reference}
    found = kept(plan, rewards, **given)
    answer = verl.ask(
        {
            "what": "advantages",
            "estimator": estimator,
            "rewards": rewards.tolist(),
            "old": old.tolist(),
            "reference": reference.tolist(),
            "group": plan.responses_per_prompt,
            "beta": KL_WEIGHT if kl == "reward" else 0.0,
        }
    )
    torch.testing.assert_close(found, torch.tensor(answer["found"]), rtol=1e-4, atol=1e-5)
    if kl == "reward":
        without = kept(plan.changed(kl="none"), rewards, **given)
        assert (found - without).abs().max() > 0.01


@pytest.mark.parametrize("beta", [0.0, KL_WEIGHT])
def test_rloos_advantages_are_trls(beta: float) -> None:
    """The lines between rewards and advantages, run as they stand in TRL."""
    from trl.trainer import rloo_trainer

    source = inspect.getsource(rloo_trainer.RLOOTrainer._generate_and_score_completions)
    end = "advantages = torch.nan_to_num(advantages, nan=0.0)"
    start = source.index("        # Include the KL penalty in the reward")
    rewards = numbers(SEQUENCES)
    old, reference = 200 * numbers(SEQUENCES, RESPONSE), 200 * numbers(SEQUENCES, RESPONSE, seed=6)
    names: dict[str, Any] = {
        **vars(rloo_trainer),
        "self": SimpleNamespace(beta=beta, normalize_advantages=False),
        "rewards": rewards.clone(),
        "old_per_token_logps": old,
        "ref_per_token_logps": reference,
        "completion_mask": torch.ones_like(old),
        "num_generations": 2,
        "gather": lambda tensor: tensor,
    }
    exec(textwrap.dedent(source[start : source.index(end) + len(end)]), names)
    plan = plan_of("rloo", kl="reward" if beta else "none", reference="copy")
    given = {"old log-probs": old, "reference log-probs": reference}
    expected = names["advantages"][:, None].expand(-1, RESPONSE)
    torch.testing.assert_close(kept(plan, rewards, **given), expected)


def test_leave_one_out_by_hand() -> None:
    """Of rewards 1, 2 and 6 the others' means are 4, 3.5 and 1.5."""
    groups = {"responses_per_prompt": 3, "prompts_per_step": 2}
    plan = plan_of("rloo", kl="none", **groups, micro_batch_size=1)
    found = kept(plan, torch.tensor([1.0, 2.0, 6.0, 5.0, 5.0, 5.0]))
    assert found.shape == (6, RESPONSE) and found.is_contiguous()
    assert found[:, 0].tolist() == [-3.0, -1.5, 4.5, 0.0, 0.0, 0.0]
    assert (found == found[:, :1]).all()


def test_whitened_returns_by_hand() -> None:
    """Two responses of two tokens: each token earns what comes from it on."""
    plan = plan_of("reinforce++", prompts_per_step=2, micro_batch_size=1, response_tokens=2)
    old = torch.tensor([[-1.0, -2.0], [-3.0, -4.0]])
    reference = old - torch.tensor([[1000.0, 0.0], [0.0, 2000.0]])
    given = {"old log-probs": old, "reference log-probs": reference}
    found = kept(plan, torch.tensor([1.0, 3.0]), **given)
    # KL takes 1 from the first token of one and 2 from the last of the other: returns 0, 1, 1, 1.
    # Mean 0.75, variance (0.5625 + 3 * 0.0625) / 3 = 0.25: divided by 0.5.
    torch.testing.assert_close(found, torch.tensor([[-1.5, 0.5], [0.5, 0.5]]))


def test_a_groups_mean_is_taken_off_before_whitening() -> None:
    plan = plan_of("reinforce++", **GROUPED, kl="none", response_tokens=1)
    found = kept(plan, torch.tensor([1.0, 3.0, 10.0, 10.0]))[:, 0]
    # -1, 1, 0, 0: mean 0, variance 2 / 3.
    torch.testing.assert_close(found, torch.tensor([-1.0, 1.0, 0.0, 0.0]) * 1.5**0.5)
    alone = kept(plan.changed(reinforce_baseline="none"), torch.tensor([1.0, 3.0, 10.0, 10.0]))
    assert (alone[:, 0] - found).abs().max() > 0.5


class OneOfTwo(Stage):
    """One of two ranks, which meet in memory."""

    def __init__(self, rank: int, shared: dict[int, torch.Tensor], barrier: Barrier) -> None:
        super().__init__()
        self._at, self._shared, self._barrier = rank, shared, barrier

    @property
    def rank(self) -> int:
        return self._at

    def gathered(self, tensor: torch.Tensor, ranks: int) -> torch.Tensor:
        assert ranks == 2
        self._shared[self._at] = tensor
        self._barrier.wait(timeout=20)
        found = torch.cat([self._shared[0], self._shared[1]])
        self._barrier.wait(timeout=20)
        return found


@pytest.mark.parametrize("kl", ["none", "reward"])
@pytest.mark.parametrize("name", CASES)
def test_a_step_on_two_gpus_has_the_advantages_of_one(name: str, kl: str) -> None:
    """Groups of four and two on two sequences a GPU, and a batch that is whitened as a whole."""
    method, changes, _ = CASES[name]
    fields = {"kl": kl, "reference": "copy", "micro_batch_size": 2, **changes}
    one = plan_of(method, **fields)
    both = plan_of(method, **fields, gpus=3, sharding="fsdp2")
    rewards = numbers(SEQUENCES)
    given = {
        "old log-probs": 200 * numbers(SEQUENCES, RESPONSE),
        "reference log-probs": 200 * numbers(SEQUENCES, RESPONSE, seed=6),
    }
    shared: dict[int, torch.Tensor] = {}
    barrier, parts = Barrier(2), {}

    def run(rank: int) -> None:
        own = slice(2 * rank, 2 * rank + 2)
        numbers_of = {key: tensor[own] for key, tensor in given.items()}
        parts[rank] = kept(both, rewards[own], OneOfTwo(rank, shared, barrier), **numbers_of)

    threads = [Thread(target=run, args=(rank,)) for rank in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = kept(one, rewards, **given)
    torch.testing.assert_close(torch.cat([parts[0], parts[1]]), whole)


def test_the_loss_is_verls(verl: Worker) -> None:
    old, new = numbers(SEQUENCES, RESPONSE), numbers(SEQUENCES, RESPONSE, seed=6)
    new = old + 0.5 * (new - old).tanh()  # ratios below 3, where verl's second clip begins
    found = numbers(SEQUENCES, RESPONSE, seed=7)
    names = {"old": old, "new": new, "advantages": found}
    request = {name: tensor.tolist() for name, tensor in names.items()}
    answer = verl.ask({"what": "loss", **request})
    assert float(policy_loss(new, old, found, None, None)) == pytest.approx(answer["found"])


def test_trls_loss_is_the_same_where_a_response_is_one_token() -> None:
    """TRL clips a whole response's ratio, which is its only token's there, and not otherwise."""
    from trl.trainer.rloo_trainer import RLOOTrainer

    def trl(old: torch.Tensor, new: torch.Tensor, found: torch.Tensor) -> float:
        same = SimpleNamespace(
            reduce=lambda tensor, reduction: tensor,
            gather=lambda tensor: tensor,
            gather_for_metrics=lambda tensor: tensor,
        )
        trainer = SimpleNamespace(
            _get_per_token_logps_and_entropies=lambda *_, **__: (new, new, None),
            accelerator=same,
            aux_loss_enabled=False,
            epsilon_low=0.2,
            epsilon_high=0.2,
            model=SimpleNamespace(training=True),
            _metrics=defaultdict(lambda: defaultdict(list)),
        )
        ids, mask = torch.zeros_like(old, dtype=torch.long), torch.ones_like(old)
        inputs = {"prompt_ids": ids, "prompt_mask": mask, "completion_ids": ids}
        inputs |= {"completion_mask": mask, "old_logps": old.sum(1), "advantages": found}
        compute: Any = RLOOTrainer._compute_loss
        return float(compute(trainer, None, inputs))

    def ours(old: torch.Tensor, new: torch.Tensor, found: torch.Tensor) -> float:
        return float(policy_loss(new, old, found[:, None].expand_as(old), None, None))

    old, new, found = numbers(SEQUENCES, 1), numbers(SEQUENCES, 1, seed=6), numbers(SEQUENCES)
    assert ours(old, new, found) == pytest.approx(trl(old, new, found))
    old, new = numbers(SEQUENCES, 3), numbers(SEQUENCES, 3, seed=6)
    assert ours(old, new, found) != pytest.approx(trl(old, new, found), rel=0.01)
