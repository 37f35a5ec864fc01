"""Intuitor on TRL: GRPO whose reward is the policy's own certainty about its answer.

Source: "Learning to Reason without External Rewards", arXiv 2505.19590. One subclass of TRL's
GRPOTrainer; rollout, reference, loss and update are TRL's. Start it with launch.sh.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from trl.kernels import ChunkedLogProbFunction
from trl.trainer.grpo_trainer import GRPOTrainer

from planner.launch.pieces.around_trl import arguments, started, trained
from planner.launch.pieces.preflight import check_card

PLAN: dict[str, Any] = {}


class Saved:
    """What TRL's kernel keeps for a backward; here there is none, and log Z is wanted."""

    log_z: torch.Tensor

    def set_materialize_grads(self, value: bool) -> None:
        """Nothing: there are no gradients."""

    def mark_non_differentiable(self, *tensors: torch.Tensor) -> None:
        """Nothing either."""

    def save_for_backward(self, *tensors: torch.Tensor) -> None:
        """Hidden states, weight, bias, targets, log Z and one more, in this order."""
        self.log_z = tensors[4]


class CertainHead:
    """Where TRL's fused head asks for entropies [N], it gets self-certainties [N].

    Self-certainty of a token is KL(uniform || policy) up to the constant log V, which is
    log Z - mean(z) of its logits z, divided by the sampling temperature as TRL has them. The
    kernel walks through the logits in tiles anyway: no tensor over the vocabulary is added.
    """

    @staticmethod
    def apply(*given: Any) -> tuple[torch.Tensor | None, ...]:
        """Log-probabilities and self-certainties; ``given`` ends with what the caller wants."""
        saved = Saved()
        forward: Any = ChunkedLogProbFunction.forward
        log_probs, _, _, mean_logits, _ = forward(saved, *given[:-1], ("mean_logits",))
        return log_probs, saved.log_z - mean_logits, None, None, None


@contextmanager
def certainty_for_entropy() -> Iterator[None]:
    """Inside, and without gradient, the fused head's entropies are self-certainties."""
    assert not torch.is_grad_enabled(), "self-certainty is a reward: it has no gradient"
    with patch("trl.trainer.utils._ChunkedLogProbFunction", CertainHead):
        yield


class IntuitorTrainer(GRPOTrainer):
    """TRL's GRPO, its reward the mean self-certainty of a response's tokens.

    TRL normalises it within the group of a prompt's responses, as it does with any reward.
    """

    certainties: torch.Tensor | None = None
    """[sequences, response tokens] of this process, 0 where a response is padded."""

    def __init__(self, **given: Any) -> None:
        reward: Any = self.self_certainty
        super().__init__(reward_funcs=[reward], **given)

    def self_certainty(self, completion_ids: list[list[int]], **columns: Any) -> list[float]:
        """The reward of each response."""
        assert self.certainties is not None
        counts = [max(1, len(ids)) for ids in completion_ids]
        return (self.certainties.sum(1) / self.certainties.new_tensor(counts)).tolist()

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        # TRL leaves the pass of old log-probabilities out where one update follows each rollout
        # (gradient_accumulation_steps a multiple of steps_per_generation * num_iterations). The
        # reward is made in that pass, so it is asked for here: no multiple is this large.
        self.certainties, usual = None, self.num_iterations
        self.num_iterations = self.args.gradient_accumulation_steps + 1
        try:
            return super()._generate_and_score_completions(inputs)
        finally:
            self.num_iterations = usual

    def _get_per_token_logps_and_entropies(self, *given: Any, **options: Any) -> Any:
        # The first pass without gradient is the policy's; the reference's comes after it.
        if torch.is_grad_enabled() or self.certainties is not None:
            return super()._get_per_token_logps_and_entropies(*given, **options)
        with certainty_for_entropy():
            log_probs, certainties, _ = super()._get_per_token_logps_and_entropies(
                *given, **{**options, "compute_entropy": True}
            )
        self.certainties = certainties
        return log_probs, None, None


def main() -> None:
    """One run, in each of the processes that ``accelerate launch`` starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    options, device = started(parser, PLAN)
    check_card(PLAN, device, options.anyway)
    if not options.dry:
        training, given = arguments(PLAN, options)
        trained(IntuitorTrainer(args=training, **given), options)


if __name__ == "__main__":
    main()
