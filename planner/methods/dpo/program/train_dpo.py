"""DPO: a loss over pairs of given responses, against a frozen reference.

A micro-batch of pairs is twice as many rows in one forward. The reference is a model beside the
policy, the policy without its adapters, or was computed before training and is read from disk.

    python3 train_dpo.py --data pairs.jsonl          train as planned
    python3 train_dpo.py --data pairs.jsonl --dry    check card and data, load no model
"""

from __future__ import annotations

import argparse
import copy
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from planner.launch.pieces.beginning import begun
from planner.launch.pieces.options import parser_of
from planner.launch.pieces.pairs import Pair, pairs_of, rows_for
from planner.launch.pieces.policy import DTYPES, answering, frozen
from planner.launch.pieces.ranks import mean
from planner.launch.pieces.reference_cache import Cache, identity, stale
from planner.launch.pieces.rows import Rows
from planner.launch.pieces.scores import hidden_states, inner, log_probs, response_log_probs
from planner.launch.pieces.training import Run, run_of, trained, updated

PLAN: dict[str, Any] = {}


def preference_loss(policy: Tensor, reference: Tensor, beta: float) -> Tensor:
    """Sigmoid loss [] of log-probabilities [2 * pairs]: chosen, rejected, chosen and so on.

    Rafailov et al. 2023, arXiv 2305.18290, equation 7.
    """
    chosen, rejected = (policy - reference).view(-1, 2).t()
    return -F.logsigmoid(beta * (chosen - rejected)).mean()


def reference_of(run: Run, cache: Cache | None, pairs: list[Pair]) -> Tensor:
    """What the loss needs of the reference for all pairs of a step, computed or read.

    [2 * pairs] log-probabilities, or [2 * pairs, response_tokens, hidden] hidden states.
    """
    if cache is not None:
        return cache.of([pair.place for pair in pairs], run.device)
    kept = torch.zeros(2 * len(pairs), device=run.device)
    size = PLAN["logprob_micro_batch_size"]
    with answering(PLAN, run.policy, run.reference, run.device) as model, torch.no_grad():
        for first in range(0, len(pairs), size):
            part = pairs[first : first + size]
            rows = rows_for(PLAN, part, run.tokenizer.pad_token_id, run.device)
            found = response_log_probs(PLAN, model, rows, hidden_states(PLAN, model, rows))
            kept[2 * first : 2 * first + len(found)] = found
    return kept


def dpo_loss(run: Run, head: Any, rows: Rows, kept: Tensor) -> Tensor:
    """Loss [] of a micro-batch; ``kept`` are its rows of :func:`reference_of`."""
    hidden = hidden_states(PLAN, run.policy, rows)
    if kept.dim() > 1:
        with torch.no_grad():
            states = kept[:, : rows.learned.shape[1]]
            found, _ = log_probs(PLAN, run.policy, head, states, rows.targets)
            kept = (found.float() * rows.learned).sum(-1)
    taken = response_log_probs(PLAN, run.policy, rows, hidden)
    return preference_loss(taken, kept, run.given.beta)


def step(run: Run, cache: Cache | None, lossy: Any, pairs: list[Pair]) -> dict[str, float]:
    """Reference of all pairs, then each update's micro-batches and optimizer; its mean loss.

    ``lossy`` is :func:`dpo_loss` of rows and what the reference gave them.
    """
    kept = reference_of(run, cache, pairs)

    def some(places: slice) -> tuple[Rows, Tensor]:
        rows = rows_for(PLAN, pairs[places], run.tokenizer.pad_token_id, run.device)
        return rows, kept[2 * places.start : 2 * places.stop]

    loss = updated(PLAN, lossy, run.optimizer, len(pairs), some)
    return mean({"loss": loss}, run.device)


def cache_of(given: argparse.Namespace, pairs: int) -> Cache | None:
    """Where the planned reference was computed before; stops where that was of something else."""
    if not PLAN["reference"].startswith("cached"):
        return None
    made_of = identity(PLAN, given.model, given.revision, given.data, pairs)
    if why := stale(given.cache, made_of):
        raise SystemExit(f"cache: {why}. Run precompute_reference.py.")
    return Cache(given.cache)


def reference_head(policy: Any) -> Any:
    """The head that hidden states of the reference are given, where those are cached."""
    if PLAN["reference"] != "cached-activations":
        return None
    head = inner(policy).get_output_embeddings()
    if PLAN["finetuning"] == "full":
        # The policy's head trains; the reference's is a frozen copy of it as it was.
        return frozen(copy.deepcopy(head).to(DTYPES[PLAN["dtype"]]))
    return getattr(head, "base_layer", head)  # without an adapter


def main() -> None:
    """Check, load, train, save."""
    parser = parser_of(PLAN, __doc__)
    parser.add_argument("--cache", type=Path, default=Path("reference-cache"), metavar="DIR")
    parser.add_argument("--beta", type=float, default=0.1, help="hold to the reference")
    given = parser.parse_args()
    device, tokenizer = begun(PLAN, given)
    pairs = pairs_of(PLAN, given.data, tokenizer)
    if given.dry:
        return
    cache = cache_of(given, len(pairs))
    run = run_of(PLAN, given, device, tokenizer, compares=True)
    head = reference_head(run.policy)
    trained(PLAN, run, pairs, partial(step, run, cache), (run.policy, partial(dpo_loss, run, head)))


if __name__ == "__main__":
    main()
