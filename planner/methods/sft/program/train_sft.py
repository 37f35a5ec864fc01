"""Supervised fine-tuning: transformers' own loss of given texts.

A row is a text, or a prompt with a response, which alone is learned then.

    python3 train_sft.py --data texts.jsonl          train as planned
    python3 train_sft.py --data texts.jsonl --dry    check card and data, load no model
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from itertools import islice
from typing import Any

import torch
import transformers
from torch import Tensor

from planner.launch.pieces.options import common_options
from planner.launch.pieces.policy import (
    DTYPES,
    loaded,
    optimizer_of,
    tokenizer_of,
    trained_policy,
)
from planner.launch.pieces.preflight import check_card, peak_sentence
from planner.launch.pieces.prompts import shuffled
from planner.launch.pieces.ranks import apart, count, in_common, joined, mean, parted, rank, share
from planner.launch.pieces.texts import text_rows, texts_of

PLAN: dict[str, Any] = {}


def sft_loss(policy: Any, rows: dict[str, Tensor]) -> Tensor:
    """Mean cross-entropy [] of the learned tokens of a micro-batch."""
    found: Tensor = policy(**rows, use_cache=False).loss
    return found


def step(
    lossy: Any,
    optimizer: torch.optim.Optimizer,
    texts: list[tuple[list[int], int]],
    pad: int,
    device: torch.device,
) -> float:
    """Each update's micro-batches and optimizer; the last one's mean loss.

    ``lossy`` is :func:`sft_loss` of the run's policy, of rows.
    """
    per_update, size = PLAN["prompts_per_update"] // count(), PLAN["micro_batch_size"]
    seen = 0.0
    for start in range(0, len(texts), per_update):
        part, seen = texts[start : start + per_update], 0.0
        for first in range(0, len(part), size):
            micro = part[first : first + size]
            rows = text_rows(PLAN, micro, pad, device)
            with apart(lossy, first + size >= len(part)):
                loss = lossy(rows)
                (loss * (len(micro) / len(part))).backward()
            seen += float(loss.detach()) * len(micro) / len(part)
            del loss, rows
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return mean({"loss": seen}, device)["loss"]


def main() -> None:
    """Check, load, train, save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    common_options(parser, PLAN)
    given = parser.parse_args()
    device = joined(PLAN, given.device)
    check_card(PLAN, device, given.anyway)
    tokenizer = tokenizer_of(given.model, given.revision)
    texts = texts_of(PLAN, given.data, tokenizer)
    if given.dry:
        return
    torch.manual_seed(given.seed)
    causal = transformers.AutoModelForCausalLM
    model = loaded(causal, given.model, given.revision, PLAN["stored_dtype"], PLAN).to(device)
    policy: Any = trained_policy(PLAN, model)
    optimizer = optimizer_of(PLAN, policy, given.learning_rate)
    autocast = torch.autocast(device.type, DTYPES[PLAN["dtype"]], enabled=True)

    def lossy(rows: dict[str, Tensor]) -> Tensor:
        with autocast if PLAN["autocast"] else nullcontext():
            return sft_loss(policy, rows)

    common = in_common(policy, lossy)
    torch.manual_seed(given.seed + rank())
    order, per_update = shuffled(texts, given.seed), PLAN["prompts_per_update"]
    for number in range(1, given.steps + 1):
        asked = list(islice(order, PLAN["prompts_per_step"]))
        own = [
            text
            for start in range(0, len(asked), per_update)
            for text in share(asked[start : start + per_update])
        ]
        loss = step(common, optimizer, own, tokenizer.pad_token_id, device)
        if PLAN["empty_cache"] != "never" and device.type == "cuda":
            torch.cuda.empty_cache()
        print(f"Step {number}: loss {loss:.6g}{peak_sentence(PLAN, device)}", flush=True)
    if rank() == 0:
        policy.save_pretrained(given.output)
        tokenizer.save_pretrained(given.output)
    del common  # DDP goes before what it speaks through
    parted()


if __name__ == "__main__":
    main()
