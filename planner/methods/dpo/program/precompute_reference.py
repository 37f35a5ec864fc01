"""The reference's share of a DPO run, computed once for a fixed data set.

Writes each response's log-probability (reference cached-logprobs) or the last hidden state of each
response token (cached-activations), with what they were made of. train_dpo.py reads them, and
refuses them when model, revision or data have changed since.

    python3 precompute_reference.py --data pairs.jsonl
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from planner.launch.pieces.beginning import begun
from planner.launch.pieces.options import parser_of
from planner.launch.pieces.pairs import Pair, pairs_of, rows_for
from planner.launch.pieces.policy import frozen, language_model
from planner.launch.pieces.ranks import count, met, parted, rank
from planner.launch.pieces.reference_cache import PER_FILE, file_of, identity, stale
from planner.launch.pieces.scores import hidden_states, response_log_probs

PLAN: dict[str, Any] = {}


def rows_of_pairs(model: Any, pairs: list[Pair], pad: int, device: torch.device) -> Tensor:
    """What is kept of pairs: [2 * pairs] in fp32, or [2 * pairs, response_tokens, hidden]."""
    rows = rows_for(PLAN, pairs, pad, device)
    with torch.no_grad():
        hidden = hidden_states(PLAN, model, rows)
        if PLAN["reference"] == "cached-logprobs":
            return response_log_probs(PLAN, model, rows, hidden).float().cpu()
        count = rows.learned.shape[1]
        kept = hidden.new_zeros((len(hidden), PLAN["response_tokens"], hidden.shape[-1]))
        # The state before a token is the one that predicts it.
        kept[:, :count] = hidden[:, -count - 1 : -1]
        return kept.cpu()


def main() -> None:
    """Check, load, compute what is missing, write what it was made of."""
    parser = parser_of(PLAN, __doc__)
    parser.add_argument("--cache", type=Path, default=Path("reference-cache"), metavar="DIR")
    # launch.sh gives both programs the same options; those of the training alone are not for here.
    given, _ = parser.parse_known_args()
    device, tokenizer = begun(PLAN, given)
    pairs = pairs_of(PLAN, given.data, tokenizer)
    if given.dry:
        return
    made_of = identity(PLAN, given.model, given.revision, given.data, len(pairs))
    if not stale(given.cache, made_of):
        print(f"{given.cache} is there already, made of the same model and data.")
        return
    given.cache.mkdir(parents=True, exist_ok=True)
    mark = given.cache / "begun.json"
    begins_anew = not mark.exists() or json.loads(mark.read_text("utf-8")) != made_of
    met()  # all have looked before one writes
    if begins_anew and rank() == 0:
        for file in given.cache.glob("reference*"):
            file.unlink()
        mark.write_text(json.dumps(made_of), "utf-8")
    met()
    # Only forwards run here, without gradient: the model once, and one micro-batch's activations.
    model = frozen(language_model(PLAN, given, PLAN["dtype"])).to(device)
    size = PLAN["logprob_micro_batch_size"]
    for number in range(rank(), -(-len(pairs) // PER_FILE), count()):
        path = file_of(given.cache, number)
        if path.exists():
            continue
        part = pairs[number * PER_FILE : (number + 1) * PER_FILE]
        found = [
            rows_of_pairs(model, part[first : first + size], tokenizer.pad_token_id, device)
            for first in range(0, len(part), size)
        ]
        fresh = path.with_suffix(".part")
        save_file({"rows": torch.cat(found)}, fresh)
        fresh.replace(path)
        print(f"{path.name}: {len(part)} pairs", flush=True)
    met()
    if rank() == 0:
        (given.cache / "reference.json").write_text(json.dumps(made_of, indent=1) + "\n", "utf-8")
    parted()


if __name__ == "__main__":
    main()
