"""Supervised fine-tuning: transformers' own loss of given texts.

A row is a text, or a prompt with a response, which alone is learned then.

    python3 train_sft.py --data texts.jsonl          train as planned
    python3 train_sft.py --data texts.jsonl --dry    check card and data, load no model
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from planner.launch.pieces.beginning import begun
from planner.launch.pieces.options import parser_of
from planner.launch.pieces.ranks import mean
from planner.launch.pieces.texts import text_rows, texts_of
from planner.launch.pieces.training import Run, run_of, trained, updated

PLAN: dict[str, Any] = {}


def sft_loss(policy: Any, rows: dict[str, Tensor]) -> Tensor:
    """Mean cross-entropy [] of the learned tokens of a micro-batch."""
    found: Tensor = policy(**rows, use_cache=False).loss
    return found


def step(run: Run, lossy: Any, texts: list[tuple[list[int], int]]) -> dict[str, float]:
    """Each update's micro-batches and optimizer; the last one's mean loss."""

    def some(places: slice) -> tuple[dict[str, Tensor]]:
        return (text_rows(PLAN, texts[places], run.tokenizer.pad_token_id, run.device),)

    loss = updated(PLAN, lossy, run.optimizer, len(texts), some)
    return mean({"loss": loss}, run.device)


def main() -> None:
    """Check, load, train, save."""
    given = parser_of(PLAN, __doc__).parse_args()
    device, tokenizer = begun(PLAN, given)
    texts = texts_of(PLAN, given.data, tokenizer)
    if given.dry:
        return
    run = run_of(PLAN, given, device, tokenizer, compares=False)
    trained(PLAN, run, texts, partial(step, run), (run.policy, partial(sft_loss, run.policy)))


if __name__ == "__main__":
    main()
