"""DPO: a loss over pairs of given responses, against a frozen reference.

A micro-batch of pairs is twice as many rows in one forward. The reference is a model beside the
policy, the policy without its adapters, or was computed before training and is read from disk.

    python3 train_dpo.py --data pairs.jsonl          train as planned
    python3 train_dpo.py --data pairs.jsonl --dry    check card and data, load no model
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from planner.launch.pieces.options import common_options
from planner.launch.pieces.pairs import Pair, pairs_of, rows_for
from planner.launch.pieces.policy import (
    DTYPES,
    frozen,
    loaded,
    on_device,
    optimizer_of,
    tokenizer_of,
    trained_policy,
    without_adapters,
)
from planner.launch.pieces.preflight import check_card, peak_sentence
from planner.launch.pieces.prompts import shuffled
from planner.launch.pieces.ranks import apart, count, in_common, joined, mean, parted, rank, share
from planner.launch.pieces.reference_cache import Cache, identity, stale
from planner.launch.pieces.rows import Rows
from planner.launch.pieces.scores import hidden_states, log_probs, response_log_probs

PLAN: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Models:
    """The policy, and what there is of the reference beside it: a model, a head, a cache."""

    policy: Any
    reference: Any = None
    head: Any = None
    cache: Cache | None = None


def preference_loss(policy: Tensor, reference: Tensor, beta: float) -> Tensor:
    """Sigmoid loss [] of log-probabilities [2 * pairs]: chosen, rejected, chosen and so on.

    Rafailov et al. 2023, arXiv 2305.18290, equation 7.
    """
    chosen, rejected = (policy - reference).view(-1, 2).t()
    return -F.logsigmoid(beta * (chosen - rejected)).mean()


@contextmanager
def reference_model(models: Models, device: torch.device) -> Iterator[Any]:
    """The model that answers as the reference inside, on the device."""
    if models.reference is None:
        with without_adapters(models.policy):
            yield models.policy
        return
    with on_device(models.reference, device, PLAN["reference"] == "offloaded"):
        yield models.reference


def reference_of(models: Models, pairs: list[Pair], pad: int, device: torch.device) -> Tensor:
    """What the loss needs of the reference for all pairs of a step, computed or read.

    [2 * pairs] log-probabilities, or [2 * pairs, response_tokens, hidden] hidden states.
    """
    if models.cache is not None:
        return models.cache.of([pair.place for pair in pairs], device)
    kept = torch.zeros(2 * len(pairs), device=device)
    size = PLAN["logprob_micro_batch_size"]
    with reference_model(models, device) as model, torch.no_grad():
        for first in range(0, len(pairs), size):
            rows = rows_for(PLAN, pairs[first : first + size], pad, device)
            hidden = hidden_states(model, rows, PLAN["logits"] == "full")
            found = response_log_probs(PLAN, model, rows, hidden)
            kept[2 * first : 2 * first + len(found)] = found
    return kept


def dpo_loss(models: Models, rows: Rows, kept: Tensor, beta: float) -> Tensor:
    """Loss [] of a micro-batch; ``kept`` are its rows of :func:`reference_of`."""
    hidden = hidden_states(models.policy, rows, PLAN["logits"] == "full")
    if kept.dim() > 1:
        with torch.no_grad():
            states = kept[:, : rows.learned.shape[1]]
            found = log_probs(PLAN, models.policy, models.head, states, rows.targets)
            kept = (found.float() * rows.learned).sum(-1)
    return preference_loss(response_log_probs(PLAN, models.policy, rows, hidden), kept, beta)


def step(
    models: Models,
    lossy: Any,
    optimizer: torch.optim.Optimizer,
    pairs: list[Pair],
    pad: int,
    device: torch.device,
) -> float:
    """Reference of all pairs, then each update's micro-batches and optimizer; its mean loss.

    ``lossy`` is :func:`dpo_loss` of the run's models, of rows and what the reference gave them.
    """
    kept = reference_of(models, pairs, pad, device)
    per_update, size = PLAN["prompts_per_update"] // count(), PLAN["micro_batch_size"]
    for start in range(0, len(pairs), per_update):
        part, seen = pairs[start : start + per_update], 0.0
        for first in range(0, len(part), size):
            micro = part[first : first + size]
            rows = rows_for(PLAN, micro, pad, device)
            place = 2 * (start + first)
            with apart(lossy, first + size >= len(part)):
                loss = lossy(rows, kept[place : place + 2 * len(micro)])
                (loss * (len(micro) / len(part))).backward()
            seen += float(loss.detach()) * len(micro) / len(part)
            del loss, rows
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return mean({"loss": seen}, device)["loss"]


def models_of(given: argparse.Namespace, pairs: list[Pair], device: torch.device) -> Models:
    """Everything that the planned reference needs; stops where its cache is of something else."""
    causal, form = transformers.AutoModelForCausalLM, PLAN["reference"]
    cache = None
    if form.startswith("cached"):
        made_of = identity(PLAN, given.model, given.revision, given.data, len(pairs))
        if why := stale(given.cache, made_of):
            raise SystemExit(f"cache: {why}. Run precompute_reference.py.")
        cache = Cache(given.cache)
    model = loaded(causal, given.model, given.revision, PLAN["stored_dtype"], PLAN).to(device)
    head = None
    if form == "cached-activations":
        head = model.get_output_embeddings()
        if PLAN["finetuning"] == "full":
            # The policy's head trains; the reference's is a frozen copy of it as it was.
            head = copy.deepcopy(head).to(DTYPES[PLAN["dtype"]])
            frozen([head])
    policy = trained_policy(PLAN, model)
    reference = None
    if form in ("copy", "offloaded"):
        reference = loaded(causal, given.model, given.revision, PLAN["dtype"], PLAN)
        frozen([reference])
        reference.to("cpu" if form == "offloaded" else device)
    return Models(policy, reference, head, cache)


def main() -> None:
    """Check, load, train, save."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    common_options(parser, PLAN)
    parser.add_argument("--cache", type=Path, default=Path("reference-cache"), metavar="DIR")
    parser.add_argument("--beta", type=float, default=0.1, help="hold to the reference")
    given = parser.parse_args()
    device = joined(PLAN, given.device)
    check_card(PLAN, device, given.anyway)
    tokenizer = tokenizer_of(given.model, given.revision)
    pairs = pairs_of(PLAN, given.data, tokenizer)
    if given.dry:
        return
    torch.manual_seed(given.seed)
    models = models_of(given, pairs, device)
    optimizer = optimizer_of(PLAN, models.policy, given.learning_rate)
    autocast = torch.autocast(device.type, DTYPES[PLAN["dtype"]], enabled=True)

    def lossy(rows: Rows, kept: Tensor) -> Tensor:
        with autocast if PLAN["autocast"] else nullcontext():
            return dpo_loss(models, rows, kept, given.beta)

    common = in_common(models.policy, lossy)
    torch.manual_seed(given.seed + rank())
    order, per_update = shuffled(pairs, given.seed), PLAN["prompts_per_update"]
    for number in range(1, given.steps + 1):
        asked = list(islice(order, PLAN["prompts_per_step"]))
        own = [
            pair
            for start in range(0, len(asked), per_update)
            for pair in share(asked[start : start + per_update])
        ]
        loss = step(models, common, optimizer, own, tokenizer.pad_token_id, device)
        if PLAN["empty_cache"] != "never" and device.type == "cuda":
            torch.cuda.empty_cache()
        print(f"Step {number}: loss {loss:.6g}{peak_sentence(PLAN, device)}", flush=True)
    if rank() == 0:
        models.policy.save_pretrained(given.output)
        tokenizer.save_pretrained(given.output)
    del common  # DDP goes before what it speaks through
    parted()


if __name__ == "__main__":
    main()
