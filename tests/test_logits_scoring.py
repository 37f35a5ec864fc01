"""Passes without gradient, self-certainty, values, and the published figures."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from head_steps import (
    DTYPES,
    Batch,
    chunked,
    fused_plain,
    gpu_kernels,
    plain_policy,
    plain_sft,
    trl_loop,
    verl_entropy,
    verl_outputs,
    watch,
)
from live_bytes import LiveBytes, profiled_peak_bytes
from test_logits import HIDDEN_IN_KERNEL, LOSS_DTYPES, SIZES, head_of, total, visible

from planner.formulas.logits import (
    Head,
    certainty,
    document_premise_bytes,
    effective_logits,
    embedding_backward,
    log_prob_kept,
    logprob_forward,
    logprob_instants,
    loss_backward,
    loss_forward,
    self_certainty_backward,
    self_certainty_forward,
)

torch.set_num_threads(1)


def silent(step: Callable[[Batch], Any]) -> Callable[[Batch], Any]:
    """The step without gradient."""

    def run(batch: Batch) -> Any:
        with torch.no_grad():
            return step(batch)

    return run


def plain_scores(head: Head, entropy: bool) -> Callable[[Batch], Any]:
    """Log-probabilities (and entropy) of the plain step, no loss after them."""

    def step(batch: Batch) -> Any:
        logits = F.linear(batch.hidden, batch.weight)
        if head.logits_dtype == "fp32":
            logits = logits.float()
        if head.temperature_scaled:
            logits = logits / 0.7
        logs = F.log_softmax(logits, -1)
        del logits
        taken = logs.gather(-1, batch.ids.unsqueeze(-1)).squeeze(-1)
        return (taken, -(logs.exp() * logs).sum(-1)) if entropy else taken

    return step


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "loss_dtype"), LOSS_DTYPES)
def test_plain_log_probs(size: tuple[int, int, int, int], dtype: str, loss_dtype: str) -> None:
    for entropy, scaled in product((False, True), repeat=2):
        batch = Batch(*size, DTYPES[dtype])
        head = head_of(batch, logits_dtype=loss_dtype, temperature_scaled=scaled)
        seen = watch(batch, silent(plain_scores(head, entropy)), backward=False)
        assert total(logprob_forward(head, with_entropy=entropy, role="old")) == seen.forward


@pytest.mark.parametrize("size", [(1, 62, 501, 32), (8, 14, 701, 33), (2, 150, 257, 64)])
@pytest.mark.parametrize(("dtype", "loss_dtype"), LOSS_DTYPES)
def test_older_trl_log_probs(
    size: tuple[int, int, int, int], dtype: str, loss_dtype: str
) -> None:
    batch = Batch(*size, DTYPES[dtype])
    head = head_of(
        batch, "response", logits_dtype=loss_dtype, framework="trl", framework_version="1.13.0"
    )
    seen = watch(batch, trl_loop(head, gradient=False), backward=False)
    assert visible(logprob_instants(head, with_entropy=False, role="old")) == seen.forward


@pytest.mark.parametrize(("dtype", "loss_dtype"), LOSS_DTYPES)
def test_verl_log_probs(dtype: str, loss_dtype: str) -> None:
    for entropy, scaled in product((True, False), repeat=2):
        batch = Batch(1, 77, 501, 32, DTYPES[dtype])
        head = head_of(
            batch,
            logits_dtype=loss_dtype,
            temperature_scaled=scaled,
            framework="verl",
            framework_version="0.9.1",
        )
        temperature = torch.full((77, 1), 0.9)

        def scores(batch: Batch) -> Any:
            raw = F.linear(batch.hidden, batch.weight)  # noqa: B023
            logits = raw.squeeze(0)
            if head.temperature_scaled:  # noqa: B023
                logits = logits / temperature.to(logits.dtype)  # noqa: B023
            if entropy:  # noqa: B023
                return verl_entropy(logits, head.upcasts)  # noqa: B023
            return [torch.empty(77) for _ in range(4)]

        seen = watch(batch, silent(scores), backward=False)
        instants = logprob_instants(head, with_entropy=entropy, role="old")
        assert visible(instants) == seen.forward


def test_fused_and_chunked_log_probs(monkeypatch: pytest.MonkeyPatch) -> None:
    for entropy in (False, True):
        batch = Batch(2, 300, 257, 32, torch.bfloat16)
        head = head_of(batch, "fused", entropy=entropy)
        with gpu_kernels(monkeypatch):
            seen = watch(batch, silent(fused_plain(head)), backward=False)
        assert total(logprob_forward(head, with_entropy=entropy, role="old")) == seen.forward
        head = head_of(batch, "chunked", entropy=entropy)
        seen = watch(batch, silent(chunked(head)), backward=False)
        assert total(logprob_forward(head, with_entropy=entropy, role="old")) == seen.forward


class Certainty:
    """Reference forms of self-certainty, exact, with small chunks set by the test."""

    @staticmethod
    def full(head: Head, batch: Batch) -> torch.Tensor:
        logits = F.linear(batch.hidden, batch.weight)
        if head.upcasts:
            logits = logits.float()
        if head.temperature_scaled:
            logits = logits / 0.7
        return torch.logsumexp(logits, -1) - logits.mean(-1)

    @staticmethod
    def tokens(head: Head, batch: Batch) -> torch.Tensor:
        logits = F.linear(batch.hidden, batch.weight).flatten(0, 1)
        return CertaintyOfRows.apply(logits).view(batch.ids.shape)

    @staticmethod
    def vocabulary(head: Head, batch: Batch) -> torch.Tensor:
        hidden = batch.hidden.flatten(0, 1)
        return CertaintyOfSlices.apply(hidden, batch.weight).view(batch.ids.shape)


class CertaintyOfRows(torch.autograd.Function):
    """A chunk of tokens at a time, in fp32; the backward recomputes each chunk."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        log_z = torch.zeros(logits.shape[0])
        scores = torch.zeros(logits.shape[0])
        for start in range(0, logits.shape[0], certainty.TOKEN_CHUNK):
            rows = slice(start, start + certainty.TOKEN_CHUNK)
            chunk = logits[rows].float()
            torch.logsumexp(chunk, -1, out=log_z[rows])
            torch.sum(chunk, -1, out=scores[rows])
            del chunk
        scores.div_(-logits.shape[1]).add_(log_z)
        ctx.save_for_backward(logits, log_z)
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        logits, log_z = ctx.saved_tensors
        result = torch.empty_like(logits)
        for start in range(0, logits.shape[0], certainty.TOKEN_CHUNK):
            rows = slice(start, start + certainty.TOKEN_CHUNK)
            chunk = torch.empty(logits[rows].shape)
            chunk.copy_(logits[rows]).sub_(log_z[rows, None]).exp_()
            chunk.sub_(1 / logits.shape[1]).mul_(gradient[rows, None])
            result[rows].copy_(chunk)
            del chunk
        return result


class CertaintyOfSlices(torch.autograd.Function):
    """A slice of the vocabulary at a time, with a running log-sum-exp."""

    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        log_z = torch.full((hidden.shape[0],), -torch.inf)
        scores = torch.zeros(hidden.shape[0])
        for start in range(0, weight.shape[0], certainty.VOCABULARY_CHUNK):
            part = weight[start : start + certainty.VOCABULARY_CHUNK]
            chunk = F.linear(hidden, part).float()
            torch.logaddexp(log_z, torch.logsumexp(chunk, -1), out=log_z)
            scores.add_(chunk.sum(-1))
            del chunk
        scores.div_(-weight.shape[0]).add_(log_z)
        ctx.save_for_backward(hidden, weight, log_z)
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        hidden, weight, log_z = ctx.saved_tensors
        to_hidden = torch.zeros_like(hidden)
        to_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        for start in range(0, weight.shape[0], certainty.VOCABULARY_CHUNK):
            part = weight[start : start + certainty.VOCABULARY_CHUNK]
            chunk = F.linear(hidden, part).float()
            chunk.sub_(log_z[:, None]).exp_().sub_(1 / weight.shape[0]).mul_(gradient[:, None])
            narrow = chunk.to(hidden.dtype)
            del chunk
            to_hidden.addmm_(narrow, part)
            if to_weight is not None:
                torch.mm(narrow.t(), hidden, out=to_weight[start : start + part.shape[0]])
            del narrow
        return to_hidden, to_weight


FORMS = {
    "full": Certainty.full,
    "chunked-tokens": Certainty.tokens,
    "chunked-vocabulary": Certainty.vocabulary,
}


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks small enough that a small run has several, the last one odd."""
    monkeypatch.setattr(certainty, "TOKEN_CHUNK", 32)
    monkeypatch.setattr(certainty, "VOCABULARY_CHUNK", 200)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_certainty_forms_agree(dtype: torch.dtype) -> None:
    tolerance = 1e-6 if dtype == torch.float32 else 1e-5
    results = []
    for form in FORMS.values():
        batch = Batch(2, 39, 501, 32, torch.float32)
        batch.hidden = (batch.hidden.detach() / 6).requires_grad_()
        head = head_of(batch)
        scores = form(head, batch)
        (scores * batch.advantages).sum().backward()
        results.append((scores, batch.hidden.grad, batch.weight.grad))
    exact = results[0]
    for other in results[1:]:
        for mine, theirs in zip(other, exact, strict=True):
            torch.testing.assert_close(mine, theirs, atol=20 * tolerance, rtol=1e-4)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("how", FORMS)
@pytest.mark.parametrize("size", [(1, 77, 501, 32), (2, 13, 701, 90), (1, 20, 1100, 64)])
@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_certainty(how: str, size: tuple[int, int, int, int], dtype: str) -> None:
    for loss_dtype, trains, scaled in product((dtype, "fp32"), (True, False), (False, True)):
        batch = Batch(*size, DTYPES[dtype], trains)
        head = head_of(batch, logits_dtype=loss_dtype, temperature_scaled=scaled)
        form = FORMS[how]
        silent_seen = watch(batch, silent(lambda b: form(head, b)), backward=False)  # noqa: B023
        silent_instants = certainty.forward(head, "policy", how=how, with_gradient=False)
        assert visible(silent_instants) == silent_seen.forward

        def step(batch: Batch) -> torch.Tensor:
            return (form(head, batch) * batch.advantages).mean()  # noqa: B023

        seen = watch(batch, step)
        forward = certainty.forward(head, "policy", how=how, with_gradient=True)
        backward = self_certainty_backward(head, how=how, role="policy")
        assert (visible(forward), total(backward)) == (seen.forward, seen.backward)


def whole_step(step: Callable[[Batch], Any], batch: Batch) -> Callable[[], None]:
    """Forward and backward in one call."""

    def run() -> None:
        result = step(batch)
        (result[0] if isinstance(result, tuple) else result).backward()

    return run


PROFILED = [
    ("policy", {}),
    ("policy", {"logits_dtype": "fp32"}),
    ("policy", {"logits_dtype": "fp32", "entropy": True, "entropy_first": True}),
    ("policy", {"logits": "chunked"}),
    ("sft", {}),
]


@pytest.mark.parametrize(("objective", "changes"), PROFILED)
def test_allocator_agrees(objective: str, changes: dict[str, Any]) -> None:
    """The allocator's own events, which also show what operators hide."""
    batch = Batch(1, 300, 701, 64, torch.bfloat16)
    head = head_of(batch, **changes)
    if objective == "sft":
        step = plain_sft(head)
    else:
        step = chunked(head) if head.logits == "chunked" else plain_policy(head)
    peak = profiled_peak_bytes(whole_step(step, batch))
    terms = (
        total(make(head, objective=objective, role="policy"))
        for make in (loss_forward, loss_backward)
    )
    assert peak == max(terms)


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_logsumexp_hides_its_exponentials(dtype: str) -> None:
    """One more tensor than operators show; bf16's mean adds an fp32 copy on a CPU only."""
    batch = Batch(1, 301, 701, 64, DTYPES[dtype])
    head = head_of(batch)
    logits = F.linear(batch.hidden, batch.weight).detach().flatten(0, 1)
    hidden = profiled_peak_bytes(lambda: torch.logsumexp(logits, -1))
    size = logits.nbytes
    assert size <= hidden <= size + 2 * 301 * logits.itemsize
    terms = self_certainty_forward(head, how="full", with_gradient=False, role="policy")
    assert total(terms) == 2 * size
    assert HIDDEN_IN_KERNEL in {term.name for term in terms}


def audited(logits: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """The three things verl and the Intuitor fork compute on bf16 logits."""

    def certain() -> torch.Tensor:
        return torch.logsumexp(logits, -1) - logits.mean(-1)

    def spread() -> torch.Tensor:
        return verl_entropy(logits, autocast=False)

    return {"entropy": spread, "certainty": certain, "both": lambda: (spread(), certain())}


def test_audited_extra_peaks() -> None:
    """Entropy, self-certainty, and one after the other: 2.0 times the logits each, on a CPU."""
    logits = torch.randn(301, 1501, dtype=torch.bfloat16)
    for run in audited(logits).values():
        assert profiled_peak_bytes(run) / logits.nbytes == pytest.approx(2.0, abs=0.01)
    head = head_of(
        Batch(1, 301, 1501, 8, torch.bfloat16), framework="verl", framework_version="0.9.1"
    )
    entropy = total(logprob_forward(head, with_entropy=True, role="old")) - logits.nbytes
    assert entropy / logits.nbytes == pytest.approx(2.0, abs=0.01)
    # Self-certainty after it in the same pass: no higher, so Intuitor adds nothing to the peak.
    later = self_certainty_forward(head, how="full", with_gradient=False, role="old")
    assert total(later) <= entropy + logits.nbytes


BIG = {"tokens": 8192, "vocab": 50_000, "hidden": 16, "dtype": "bf16", "framework_version": "1"}


def per_entry(terms: Any) -> float:
    """Bytes per token and vocabulary entry, what one operator hides left out."""
    shown = sum(term.bytes for term in terms if term.name != HIDDEN_IN_KERNEL)
    return float(round(shown / (8192 * 50_000), 1))


def big(rows: int = 1, **changes: Any) -> Head:
    given = {"rows": rows, "logits": "full", "weight_trains": True, "framework": "plain", **BIG}
    return Head(**{"logits_dtype": "bf16", **given, **changes})


PUBLISHED = [
    ("HF loss, logits alive", "sft", {"logits_held": True}, 10, 14),
    ("HF loss, logits dropped", "sft", {}, 8, 12),
    ("bf16 log-softmax and gather, one row", "policy", {}, 4, 6),
    ("naive fp32 log-softmax and gather", "policy", {"logits_dtype": "fp32"}, 8, 12),
]


@pytest.mark.parametrize(("name", "objective", "changes", "forward", "backward"), PUBLISHED)
def test_published_table(
    name: str, objective: str, changes: dict[str, Any], forward: int, backward: int
) -> None:
    head = big(**changes)
    assert per_entry(loss_forward(head, objective=objective, role="policy")) == forward, name
    assert per_entry(loss_backward(head, objective=objective, role="policy")) == backward, name


def test_published_entropy_and_certainty() -> None:
    """The entropy row had the raw logits alive in the forward only, and the entropy first."""
    switches = {"logits_dtype": "fp32", "entropy": True, "entropy_first": True}
    forward = loss_forward(big(**switches, logits_held=True), objective="policy", role="policy")
    backward = loss_backward(big(**switches), objective="policy", role="policy")
    assert (per_entry(forward), per_entry(backward)) == (14, 24)
    how: dict[str, Any] = {"how": "full", "role": "policy"}
    certain = self_certainty_forward(big(), with_gradient=True, **how)
    back = self_certainty_backward(big(), **how)
    assert (per_entry(certain), per_entry(back)) == (2, 10)


@pytest.mark.parametrize(
    ("loss_dtype", "rows", "backward"),
    [("bf16", 1, 6), ("bf16", 8, 4), ("fp32", 1, 16), ("fp32", 8, 16)],
)
def test_published_trl_rows(loss_dtype: str, rows: int, backward: int) -> None:
    head = big(
        rows,
        logits="response",
        logits_dtype=loss_dtype,
        framework="trl",
        framework_version="1.9.0",
    )
    assert per_entry(loss_backward(head, objective="policy", role="policy")) == backward


def test_published_fused_head() -> None:
    """256 MiB of tile, 4 bytes per hidden number and head weight, then the head's bf16 cast."""
    tokens, vocab, hidden = 6000, 151_936, 2048
    head = big(tokens=tokens, vocab=vocab, hidden=hidden, logits="fused")
    terms = loss_backward(head, objective="policy", role="policy")
    published = 256 * 2**20 + 6 * hidden * (tokens + vocab)
    assert abs(total(terms) - published) <= 8 * tokens + 8
    gradients = [term.bytes for term in terms if term.category == "gradients"]
    assert gradients == [4 * vocab * hidden, 2 * vocab * hidden]


def test_document_premise() -> None:
    """468 GB: twice the document's 234 GB, which is 233.5 rounded up."""
    figure = document_premise_bytes(sequences=64, tokens=6000, vocab=152_000)
    assert figure == 2 * 233_472_000_000
    assert abs(figure - 468e9) / 468e9 < 0.003


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_values(dtype: str) -> None:
    """A critic's clipped value loss as verl writes it."""

    def step(batch: Batch) -> torch.Tensor:
        values = F.linear(batch.hidden, batch.weight).squeeze(-1)
        clipped = torch.max(torch.min(values, batch.old + 0.2), batch.old - 0.2)
        losses = (values - batch.reference) ** 2, (clipped - batch.reference) ** 2
        return 0.5 * torch.max(*losses).mean()

    for trains in (True, False):
        batch = Batch(3, 21, 1, 96, DTYPES[dtype], trains)
        head = head_of(batch)
        head = head_of(batch, vocab=151_936)
        seen = watch(batch, step)
        forward = loss_forward(head, objective="value", role="critic")
        backward = loss_backward(head, objective="value", role="critic")
        assert (total(forward), total(backward)) == (seen.forward, seen.backward)


def test_tied_embedding_gradient() -> None:
    """A tied weight's second dense gradient is alive beside the head's until it is added."""
    vocab, hidden, tokens = 501, 64, 12
    weight = torch.randn(vocab, hidden, dtype=torch.bfloat16, requires_grad=True)
    ids = torch.randint(0, vocab, (tokens,))
    with LiveBytes([weight, ids]) as live:
        loss = F.linear(F.embedding(ids, weight), weight).sum()
        live.reset_peak()
        loss.backward()
    dense = embedding_backward(vocab=vocab, hidden=hidden, item_bytes=2, role="policy")
    assert dense.category == "gradients"
    alive = [size for (_, size), count in live.at_peak.items() for _ in range(count)]
    assert alive.count(dense.bytes) == 2


def test_kept_numbers() -> None:
    head = big()
    term = log_prob_kept(head, name="self-certainty", sequences=64, tokens=3072, role="policy")
    assert (term.name, term.bytes) == ("self-certainty", torch.zeros(64, 3072).nbytes)


def test_effective_logits() -> None:
    for asked in ("full", "response", "chunked", "fused"):
        assert effective_logits("grpo", "plain", "1", asked) == asked
        assert effective_logits("grpo", "trl", "1.16.0", asked) == "fused"
        assert effective_logits("sft", "trl", "1.15.0", asked) == "fused"
        assert effective_logits("grpo", "trl", "1.14.0", asked) == "response"
        assert effective_logits("grpo", "openrlhf", "0.11.2", asked) == "full"
    assert effective_logits("grpo", "verl", "0.9.1", "response") == "full"
    assert effective_logits("ppo", "verl", "0.9.1", "fused") == "chunked"


@pytest.mark.parametrize(
    ("changes", "field", "fix"),
    [
        ({"framework": "trl", "framework_version": "2.0.0"}, "framework_version", "1.16.0"),
        ({"framework": "verl", "framework_version": "0.8"}, "framework_version", "0.9.1"),
        ({"framework": "slime", "framework_version": "1"}, "framework", "verl"),
        ({"framework": "trl", "framework_version": "1.16.0"}, "logits", "fused"),
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
        self_certainty_forward(big(), how="fast", with_gradient=False, role="policy")
    older = {"logits": "chunked", "framework": "trl", "framework_version": "1.13.0"}
    with pytest.raises(ValueError, match=r"framework_version.*1\.15\.0"):
        loss_forward(big(**older), objective="sft", role="policy")
    older["logits"] = "response"
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
    {"framework": "openrlhf", "framework_version": "0.11.2", "logits_dtype": "fp32"},
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
