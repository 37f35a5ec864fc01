"""Programs that learn from their own responses: the planner's step, in the dry run's bytes."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launch.own_programs import ADAPTERS, AUTOCAST, is_ours, made, request_of, takes_what_is_planned
from launch.running import Worker, unpack
from planner.launch.export import export, fitted
from planner.plan import Plan

CASES: dict[str, dict[str, Any]] = {
    "grpo, two updates": {"method": "grpo", "prompts_per_update": 1, "temperature": 0.7},
    "grpo, adapters": {"method": "grpo", **ADAPTERS, "reference": "adapter-disabled"},
    "grpo, entropy, recomputed": {
        "method": "grpo", "entropy": True, "kl": "none", "gradient_checkpointing": "full",
        **AUTOCAST,
    },
    "intuitor, adapters": {"method": "intuitor", **ADAPTERS, "reference": "adapter-disabled"},
    "ppo, autocast, recomputed": {
        "method": "ppo", "kl": "loss", "gradient_checkpointing": "full", **AUTOCAST,
        "responses_per_prompt": 1, "micro_batch_size": 2,
    },
    "grpo, kl in the reward": {
        "method": "grpo", "kl": "reward", "reference": "offloaded", "logits": "full",
    },
}  # fmt: skip


def planned(**changes: Any) -> Plan:
    shape = {"prompts_per_update": 2, "responses_per_prompt": 2, "rollout": "hf"}
    return fitted(made(**{"framework": "plain", **shape, **changes}), "plain")


@pytest.mark.parametrize("case", CASES)
def test_a_step_is_ours_in_values_and_the_dry_runs_in_bytes(
    case: str, programs: Worker, tiny: Path, tmp_path: Path
) -> None:
    plan = planned(**CASES[case])
    found = programs.ask(request_of(tmp_path, tiny, plan, "rows.jsonl", loss="policy_loss"))
    assert "peaks" in found, found
    is_ours(found)
    assert len(re.findall(r"Step \d: loss ", found["told"])) == 3
    takes_what_is_planned(plan, found)


def test_advantages_and_returns_of_ppo_are_the_steps(tmp_path: Path) -> None:
    """Of whole rows; a row that ends earlier has those of a shorter one, and nothing after."""
    import torch

    from launch.program_worker import program as module
    from planner.methods.ppo.step import _advantages

    plan = planned(method="ppo", responses_per_prompt=1)
    program = module(str(unpack(export(plan, "plain"), tmp_path) / "train_ppo.py"))
    values, rewards = torch.randn(3, 6), torch.randn(3)

    def ours(tokens: int) -> tuple[Any, Any]:
        kept = {"values": values[:, :tokens].clone(), "rewards": rewards.clone()}
        stage = SimpleNamespace(rounds=lambda count, _: range(count))
        _advantages(SimpleNamespace(kept=kept, stage=stage, plan=SimpleNamespace(kl="none")))  # type: ignore[arg-type]
        return kept["advantages"], kept["returns"]

    for tokens in (6, 4):
        learned = (torch.arange(6) < tokens).long().expand(3, 6)
        each = torch.zeros(3, 6)
        each[:, tokens - 1] = rewards
        found = program.advantages_of(values, each, learned)
        for mine, theirs in zip(found, ours(tokens), strict=True):
            assert torch.allclose(mine[:, :tokens], theirs, atol=1e-6)
            assert not mine[:, tokens:].any()


def test_a_response_ends_where_it_ends(tmp_path: Path) -> None:
    """Tokens after a response's end are padding: not attended to, not learned, not generated."""
    import torch

    from launch.program_worker import program as module

    plan = planned(method="grpo", response_tokens=6)
    program = module(str(unpack(export(plan, "plain"), tmp_path) / "train_grpo.py"))
    model = Scripted([[5, 2, 7, 7], [5, 5, 2, 7]], vocabulary=9)
    ids, mask = torch.tensor([[0, 4], [4, 4]]), torch.tensor([[0, 1], [1, 1]])
    rows = program.sampled(program.PLAN, model, ids, mask, 0, 2)
    assert rows.ids.tolist() == [[0, 4, 5, 2, 0], [4, 4, 5, 5, 2]]
    assert rows.mask.tolist() == [[0, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert rows.learned.tolist() == [[1, 1, 0], [1, 1, 1]]
    assert model.places == [[[0, 0], [0, 1]], [[1], [2]], [[2], [3]]]


class Scripted:
    """A model that all but says which tokens come, and remembers the positions it is given."""

    training = True

    def __init__(self, tokens: list[list[int]], vocabulary: int) -> None:
        self.tokens, self.vocabulary = tokens, vocabulary
        self.places: list[Any] = []
        from transformers import Qwen2Config

        self.config = Qwen2Config(num_hidden_layers=1, hidden_size=8, num_attention_heads=1)

    def eval(self) -> None: ...

    def train(self, training: bool) -> None: ...

    def __call__(self, **given: Any) -> Any:
        import torch

        which = [row[len(self.places)] for row in self.tokens]
        self.places.append(given["position_ids"].tolist())
        logits = torch.full((len(which), 1, self.vocabulary), -1e9)
        logits[range(len(which)), 0, which] = 0.0
        return SimpleNamespace(logits=logits)
