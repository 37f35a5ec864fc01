"""Programs of the loss: recorded once, split by what decides, named, and as the lists before them.

``heads-listed-by-hand.json`` has what lists of instants by hand gave, before programs derived them,
for settings that no run on a CPU shows: compiled pieces, autocast's casts, copies without padding.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from framework_steps import ScoringKernel
from head_steps import (
    Batch,
    big,
    head_of,
    silent,
    squash,
    total,
    visible,
    watch,
    with_loss,
)
from planner.formulas.logits import (
    Head,
    backward_instants,
    forward_instants,
    logprob_instants,
    recording,
    scoring_kept,
)
from planner.formulas.logits.over_vocabulary import product as head_product
from planner.formulas.logits.pieces import LOGITS, PROBS
from planner.formulas.logits.recording import Run, Scored

LISTED = Path(__file__).parents[1] / "fixtures" / "heads-listed-by-hand.json"
SIZES = {"rows": 4, "vocab": 151_936, "hidden": 3584}
HALF = {"dtype": "bf16", "logits_dtype": "bf16"}
VERL = {"framework": "verl", "framework_version": "0.9.1"}
TRL = {"framework": "trl", "framework_version": "1.16.0"}
PLAIN = {"framework": "plain", "framework_version": "1"}
UNSEEN: list[dict[str, Any]] = [
    {"logits": "chunked", "chunk_compile": True, **PLAIN, **HALF},
    {"logits": "chunked", "chunk_compile": True, "chunk_tokens": 256, **VERL, **HALF},
    {"logits": "fused", "casts_tiles": True, **TRL, **HALF},
    {"logits": "fused", "casts_columns": True, **TRL, **HALF},
    {"logits": "full", "autocast_casts": True, "dtype": "bf16", "logits_dtype": "fp32", **PLAIN},
    {"logits": "full", "compiled_entropy": True, **VERL, **HALF},
    {"logits": "full", "copied_logits": True, **VERL, **HALF},
]


def unseen() -> dict[str, Head]:
    found = {}
    for number, setting in enumerate(UNSEEN):
        for tokens, trains, entropy, softcap in product(
            (300, 2560), (True, False), (False, True), (False, True)
        ):
            made = {**SIZES, "tokens": tokens, "weight_trains": trains, "entropy": entropy}
            found[f"{number} {tokens} {trains} {entropy} {softcap}"] = Head(
                **with_loss({**made, "softcap": softcap, **setting})
            )
    return found


def test_programs_give_what_lists_gave() -> None:
    listed = json.loads(LISTED.read_text("utf-8"))
    heads = unseen()
    assert listed.keys() == heads.keys()
    for key, head in heads.items():
        passes = (
            forward_instants(head, objective="policy", role="policy"),
            backward_instants(head, objective="policy", role="policy"),
            logprob_instants(head, with_entropy=head.entropy, role="policy"),
        )
        read = head.logits != "full" or not head.way.outside_model
        kept = scoring_kept(head, role="policy") if read else ()
        found = [max(total(instant.terms) for instant in instants) for instants in passes]
        assert [*found, total(kept)] == listed[key], key


def test_sizes_record_nothing_again() -> None:
    def score(tokens: int, vocab: int) -> None:
        forward_instants(
            big(tokens=tokens, vocab=vocab, logits="chunked"), objective="policy", role="policy"
        )

    for tokens in (300, 2560):  # one chunk, and several
        score(tokens, 501)
    before = recording._recorded.cache_info().misses
    for tokens, vocab in ((40, 32_000), (9000, 151_936)):
        score(tokens, vocab)
    assert recording._recorded.cache_info().misses == before


def test_a_sweep_is_split_where_the_loop_goes_round_again() -> None:
    """Points of one chunk have nothing of a second one's instants, and others have all."""
    tokens = np.array([100, 512, 513, 4000])
    many = big(tokens=tokens, logits="chunked", entropy=True)
    found = backward_instants(many, objective="policy", role="policy")
    assert len({instant.name for instant in found}) == 4
    for instant in found:
        held = sum(term.bytes for term in instant.terms) > 0
        second = instant.name.startswith("second")
        assert (held == (tokens > 512)).all() if second else held.all()


def run(**changes: Any) -> Run:
    return Run(big(**changes), False, True)


def test_what_lives_is_what_a_name_or_a_node_holds() -> None:
    made = run()
    logits = head_product(made)
    made.at("probabilities")
    probs = made.function([logits], [made.new(PROBS, "half")], [(LOGITS, "half")], [])[0]
    scratch = made.new(PROBS, "half", "scratch")
    del scratch, logits
    end = len(made.tape.events)
    (name, alive), *_ = list(made.moments(0, end))[-2:]
    names = {label or kind[0].partition(":")[0] for kind, label in alive}
    assert (name, names) == ("probabilities", {LOGITS.name, PROBS.name, "scratch"})
    # A product's output is in no node: it goes with its name.
    assert {kind[0].partition(":")[0] for kind, _ in made.tape.live(end)} == {PROBS.name}
    del probs


def test_only_moments_that_can_be_the_highest_stay() -> None:
    def program(made: Run) -> Scored:
        for count in (1, 3, 2):
            made.at(f"{count} at once")
            held = [made.new(PROBS, "half", f"tensor {each}") for each in range(count)]
            del held
        made.at("numbers")
        numbers = made.numbers(*["fp32"] * 5)
        return Scored(made.function(made.inputs(), numbers[:1], [(PROBS, "half")] * 2)[0])

    forward, *_ = recording.recorded(program, big(), again=False, gradient=False)
    assert [name for name, _ in forward] == ["3 at once"]


def test_terms_are_called_by_what_they_are() -> None:
    """Each tensor of a chunk's backward by its own name, and each with why it is there."""
    head = big(tokens=2560, logits="chunked", entropy=True)
    widest = next(
        instant
        for instant in backward_instants(head, objective="policy", role="policy")
        if instant.name == "second chunk over the vocabulary"
    )
    names = {term.name for term in widest.terms}
    own = ("logits", "probabilities", "one-hot rows", "log-probabilities", "gradient so far")
    assert names >= {*(f"chunk's {each}" for each in own), "first chunk's weight gradient"}
    assert names >= {"gradient of the hidden states", "new gradient of the head's weight"}
    assert all(term.formula and term.inputs and term.source for term in widest.terms)


@pytest.mark.parametrize(("dtype", "loss_dtype"), [("bf16", "bf16"), ("fp32", "fp32")])
def test_transformers_caps_logits_beside_them(dtype: str, loss_dtype: str) -> None:
    """Without gradient too; lists by hand had the capped logits alone for TRL up to 1.14."""
    for version, scores in (("1.14.0", kernel_scores), ("1.13.0", None)):
        batch = Batch(3, 61, 1501, 32, getattr(torch, {"bf16": "bfloat16"}.get(dtype, "float32")))
        head = head_of(
            batch, "response", logits_dtype=loss_dtype, softcap=True,
            framework="trl", framework_version=version,
        )  # fmt: skip
        found = visible(logprob_instants(head, with_entropy=False, role="old"))
        if scores:
            seen = watch(batch, silent(lambda batch: scores(head, batch)), backward=False)  # noqa: B023
            assert found == seen.forward
        assert found >= 2 * head.item_bytes * int(head.tokens) * 1501


def kernel_scores(head: Head, batch: Batch) -> Any:
    """GRPO's scoring in TRL 1.14 as on a GPU, without gradient."""
    raw = squash(torch.nn.functional.linear(batch.hidden, batch.weight), head)
    return ScoringKernel.apply(raw[:, :-1])
