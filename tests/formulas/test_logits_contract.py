"""What the logits formulas take, refuse and do with arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from head_steps import big, logprob_forward, loss_backward, loss_forward
from planner.formulas.logits import Head, certainty_instants, certainty_kept, log_prob_kept
from planner.plan.frameworks import framework_named
from planner.values.loss_code import PATHS, WAYS

torch.set_num_threads(1)


def test_kept_numbers() -> None:
    head = big()
    term = log_prob_kept(head, name="self-certainty", sequences=64, tokens=3072, role="policy")
    assert (term.name, term.bytes) == ("self-certainty", torch.zeros(64, 3072).nbytes)


@pytest.mark.parametrize(
    ("how", "dtype", "kept_bytes"),
    [("full", "bf16", 2), ("full", "fp32", 4), ("chunked-tokens", "fp32", 2)],
)
def test_what_self_certainty_keeps(how: str, dtype: str, kept_bytes: int) -> None:
    """Logits in the loss's dtype where all are scored at once, the head's own where in chunks."""
    terms = certainty_kept(big(logits_dtype=dtype), how=how, role="policy")
    assert [term.bytes for term in terms] == [kept_bytes * 8192 * 50_000]
    assert certainty_kept(big(), how="chunked-vocabulary", role="policy") == ()


def runs(objective: str, framework: str, version: str, asked: str) -> str:
    return framework_named(framework).loss_code(version).way(objective, asked).path


def test_effective_logits() -> None:
    for asked in ("full", "response", "chunked", "fused"):
        assert runs("policy", "plain", "1", asked) == asked
        assert runs("policy", "trl", "1.16.0", asked) == asked
        assert runs("cross-entropy", "trl", "1.15.0", asked) == asked
    # A plan's usual value stands for whatever an older version has.
    assert runs("policy", "trl", "1.14.0", "fused") == "response"
    assert runs("policy", "verl", "0.9.1", "response") == "response"
    assert runs("policy", "verl", "0.9.1", "fused") == "chunked"


def test_a_path_that_a_framework_has_not_is_the_code_of_a_named_loss() -> None:
    trl, verl = framework_named("trl"), framework_named("verl")
    for objective in ("policy", "cross-entropy"):
        newest, older = trl.loss_code("1.16.0"), trl.loss_code("1.14.0")
        assert newest.way(objective, "fused").by_kernel
        assert newest.way(objective, "full") is WAYS["full"]
        assert older.way(objective, "full") is WAYS["full"]
    assert older.way("policy", "fused").path == "response"
    assert not older.own("cross-entropy")
    code = verl.loss_code("0.9.1")
    assert {asked for asked in PATHS if code.way("policy", asked).as_named} == {"response"}


@pytest.mark.parametrize(
    ("changes", "field", "fix"),
    [
        ({"framework": "trl", "framework_version": "2.0.0"}, "framework_version", "1.16.0"),
        ({"framework": "verl", "framework_version": "0.8"}, "framework_version", "0.9.1"),
        ({"framework": "slime", "framework_version": "1"}, "framework", "verl"),
        ({"logits": "some"}, "logits", "response"),
        ({"logits_dtype": "fp8"}, "logits_dtype", "bf16"),
        ({"dtype": "fp8"}, "dtype", "fp16"),
    ],
)
def test_refusals(changes: dict[str, Any], field: str, fix: str) -> None:
    with pytest.raises(ValueError, match=f"{field}.*{fix}"):
        big(**changes)


def test_refused_objectives() -> None:
    with pytest.raises(ValueError, match="objective.*policy"):
        loss_forward(big(), objective="dpo", role="policy")
    with pytest.raises(ValueError, match="self_certainty.*chunked-tokens"):
        certainty_instants(big(), how="fast", with_gradient=False, role="policy")
    older = {"logits": "response", "framework": "trl", "framework_version": "1.13.0"}
    with pytest.raises(ValueError, match="entropy.*framework_version"):
        loss_forward(big(**older, entropy=True), objective="policy", role="policy")


ARRAY_HEADS: list[dict[str, Any]] = [
    {},
    {"logits_dtype": "fp32", "entropy": True, "softcap": True},
    {"logits": "fused"},
    {"logits": "chunked", "entropy": True},
    {"logits": "response", "framework": "trl", "framework_version": "1.9.0"},
    {"logits": "response", "framework": "trl", "framework_version": "1.14.0"},
    {"framework": "verl", "framework_version": "0.9.1", "logits_dtype": "fp32", "entropy": True},
]


@pytest.mark.parametrize("changes", ARRAY_HEADS)
def test_arrays_are_the_same_arithmetic(changes: dict[str, Any]) -> None:
    """A sweep gives, element by element, what single plans give, whichever instant is highest."""
    tokens = np.array([8, 300, 520, 4096, 40_000])
    vocab = np.array([[501], [32_001]])
    hidden = np.array([[[64]], [[4096]]])
    rows = np.array([1, 4, 1, 2, 8])
    many = big(tokens=tokens, vocab=vocab, hidden=hidden, **{**changes})
    many = Head(**{**{name: getattr(many, name) for name in Head.__slots__}, "rows": rows})

    def bytes_of(head: Head) -> list[Any]:
        found = [
            sum(term.bytes for term in make(head, objective="policy", role="policy"))
            for make in (loss_forward, loss_backward)
        ]
        found.append(
            sum(term.bytes for term in logprob_forward(head, with_entropy=False, role="old"))
        )
        return found

    swept = [np.broadcast_to(each, (2, 2, 5)) for each in bytes_of(many)]
    for h, v, t in np.ndindex(2, 2, 5):
        one = big(
            int(rows[t]),
            **{
                "tokens": int(tokens[t]),
                "vocab": int(vocab[v, 0]),
                "hidden": int(hidden[h, 0, 0]),
                **changes,
            },
        )
        assert [int(each[h, v, t]) for each in swept] == bytes_of(one)
