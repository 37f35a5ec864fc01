"""Every claim of the five documents: a row each, what is right computed by hand, and its test."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from live_bytes import profiled_peak_bytes
from planner.estimate import estimate
from planner.examples import dry_runs
from planner.examples.claim import DRY_RUN, Claim, held_by
from planner.examples.documents import DOCUMENTS, document
from planner.plan.presets import presets

ROOT = Path(__file__).parents[2]
READ = re.compile(r"read: [\w-]+/[\w.-]+@[0-9a-f]{7}, \S+")
NEAR_DRY_RUN = 0.03
"""What arithmetic leaves out of a step: adapters, their gradients, one layer's temporaries."""

AUDITED: Mapping[str, tuple[str, ...]] = {
    "000": (
        "Vocabulary", "Model parameters", "Model activations", "Log probabilities", "Gradients",
        "Other (optimizer states)", "Total regular PPO", "Full logits storage",
        "Logits gradients", "Self-certainty temporaries", "Additional for Intuitor",
        "Total Intuitor memory",
        *(
            f"{thousand}K tokens: {column}"
            for thousand in (2, 4, 6, 8)
            for column in ("regular PPO", "Intuitor", "ratio")
        ),
        "18K tokens", "2K + 2K = 4K tokens", "Saving of the new lengths",
        "Chunked self-certainty", "Mixed precision", "Conservative setting, per GPU",
        "Aggressive setting, per GPU",
    ),
    "001": (
        "Why it is needed", "Top-k 256 of 32k", "soft_tokens, original",
        "soft_tokens, optimised", "ref_logits, original", "Online KL",
        "Reference activations, original", "Reference activations, optimised",
        "Reference with a KV cache", "Reward matmul, original", "Reward matmul, optimised",
        "Sparse reward input", "Policy activations, original", "Policy activations, optimised",
        "Total peak, original", "Total peak, optimised", "Total peak, reduction",
        "Success criterion", "Half the length", "Top-256 covers", "Same KL and reward",
    ),
    "002": (
        "Memory in use at the error", "Effective batch", "Batch 4 → 2", "Length 48 → 32",
        "Model weights (×3), before", "Model weights (×3), after", "Model weights, reduction",
        "Activations, before", "Activations, after: first step",
        "Activations, after: later steps", "Activations, reduction: least",
        "Activations, reduction: most", "Total, before", "Total, after: low end",
        "Total, after: high end", "Total, reduction: least", "Total, reduction: most",
        "Recomputation's cost",
    ),
    "003": (
        "Embeddings, in bytes", "Embeddings storage", "Dimensions of an embedding",
        "A batch of 8 on the GPU", "Batches", "k-NN index storage", "Distances array",
        "Indices array", "Duration of kneighbors", "Density weights",
        "Model weights (12 layers, 768 hidden)", "Optimizer state (if using Adam)", "GPU in all",
        "Peak RAM needed", "Fits in a 24 GB GPU", "Left after the weights are made",
        "280,000 prompts: embeddings", "2.8M prompts: embeddings", "28M prompts: embeddings",
        "28M prompts: in all", "2.8M prompts: in all", "Where online ends",
        "Embeddings on disk, compressed", "Offline at 280,000: loaded", "IndexFlatL2 at 280,000",
        "Neighbours of index.search(embeddings, k=10)", "Will it fit in RAM?",
        "Need offline precomputation?", "If we had millions?", "Is current code safe?",
        "Can we run this on 24GB GPU?", "Recommended approach?",
    ),
    "004": (
        "Shapes of the model", "One hidden tensor", "Query, key, value", "Attention scores",
        "Attention of a layer", "Gate and up", "MLP of a layer", "Norms of a layer", "One layer",
        "All layers", "Embeddings", "Final logits", "Per forward pass",
        "With the reference's activations cached", "Caching the chosen log-probs",
        "Why nothing can be reused", "A frozen reference", "Passes of a step",
    ),
}
"""The rows of the audit of the documents, by the claims that stand for them."""

ALL = [(one.number, claim) for one in DOCUMENTS for claim in one.claims]


def named(pair: tuple[str, Claim]) -> str:
    return f"{pair[0]} {pair[1].what}"


def test_every_row_of_the_audit_is_a_claim() -> None:
    for number, audited in AUDITED.items():
        have = [one.what for one in document(number).claims]
        assert len(set(have)) == len(have)
        assert [what for what in audited if what not in have] == []


@pytest.mark.parametrize("pair", ALL, ids=named)
def test_every_claim_has_a_verdict_and_a_reason(pair: tuple[str, Claim]) -> None:
    claim = pair[1]
    assert claim.judgement in ("agrees", "does not follow", "no derivation")
    assert claim.why and claim.written
    assert (claim.judgement == "no derivation") <= (claim.working is None)


def text_of(test: str) -> str:
    """A test's source with its decorators; empty where there is no such test."""
    path, _, name = test.partition("::")
    lines = (ROOT / path).read_text("utf-8").splitlines()
    place = functions_of(path).get(name)
    return "" if place is None else "\n".join(lines[place[0] - 1 : place[1]])


def first_line(node: ast.FunctionDef) -> int:
    return min(node.lineno, *(one.lineno for one in [node, *node.decorator_list]))


@cache
def functions_of(path: str) -> Mapping[str, tuple[int, int]]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {
        node.name: (first_line(node), node.end_lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None
    }


@pytest.mark.parametrize("pair", ALL, ids=named)
def test_what_a_claim_is_tested_by_exists_and_holds_it(pair: tuple[str, Claim]) -> None:
    claim = pair[1]
    ours = claim.truth is not None or claim.said or claim.case is not None
    assert claim.tested or not ours, "what is right is held by nothing"
    texts = []
    for one in claim.tested:
        if one.startswith(DRY_RUN):
            dry = dry_runs.measured()[one.removeprefix(DRY_RUN)].requested_bytes
            assert claim.truth is not None
            assert claim.truth.value == pytest.approx(dry, rel=NEAR_DRY_RUN)
        elif one.startswith("read"):
            assert READ.fullmatch(one)
        else:
            assert re.fullmatch(r"tests/[\w/]+\.py::test_\w+", one)
            assert text_of(one), f"{one} is no test"
            texts.append(text_of(one))
    assert not texts or any(claim.what in text for text in texts), "no test names the claim"


def the_same(number: str, test: str, expected: Mapping[str, float]) -> None:
    """What is right of every claim that this test holds; none may be left out."""
    held = {
        one.what: one.true
        for one in document(number).claims
        if one.true is not None and any(name.endswith(f"::{test}") for name in one.tested)
    }
    assert held == {what: pytest.approx(value, rel=1e-6) for what, value in expected.items()}


def test_ours_of_document_000() -> None:
    weights, tokens = 1_543_714_304, 64 * 6_144
    expected = {
        "Vocabulary": 151_936,
        "Model parameters": weights * 4 / 1e9,
        "Model activations": 28 * tokens * 1_536 * 2 / 1e9,
        "Log probabilities": tokens * 4 / 1e6,
        "Gradients": weights * 4 / 1e9,
        "Other (optimizer states)": weights * 8 / 1e9,
        "Total regular PPO": 2 * weights * 16 / 1e9,
        "Full logits storage": 4 * 3_584 * 151_936 * 2 / 1e9,
        "Logits gradients": 0,
        "Self-certainty temporaries": tokens * 4 / 1e6,
        "Additional for Intuitor": tokens * 4 / 1e9,
        "Total Intuitor memory": weights * 16 / 1e9,
    }
    the_same("000", "test_ours_of_document_000", expected)


@pytest.mark.parametrize(
    ("whole", "names"),
    [
        (2_000, ("2K tokens: regular PPO", "2K tokens: Intuitor", "2K tokens: ratio")),
        (4_000, ("4K tokens: regular PPO", "4K tokens: Intuitor", "4K tokens: ratio")),
        (6_000, ("6K tokens: regular PPO", "6K tokens: Intuitor", "6K tokens: ratio")),
        (8_000, ("8K tokens: regular PPO", "8K tokens: Intuitor", "8K tokens: ratio")),
        (4_000, ("2K + 2K = 4K tokens",)),
        (18_000, ("18K tokens",)),
    ],
)
def test_document_000s_lengths_are_planned(whole: int, names: tuple[str, ...]) -> None:
    """What training takes of a card without the engine's pool; the ratio lies below one."""
    found = [one for name in names for one in document("000").claims if one.what == name]
    need = []
    for one in found:
        if one.case is not None:
            plan = one.case.plan
            assert plan.prompt_tokens + plan.response_tokens == pytest.approx(whole, abs=2)
            need.append(estimate(plan).trainer_bytes)
    if len(found) == 3:
        ppo, intuitor = need
        assert intuitor < ppo and found[2].said.startswith("below 1")


def test_document_000_saves_less_than_it_says() -> None:
    [claim] = [one for one in document("000").claims if one.what == "Saving of the new lengths"]
    assert claim.true == pytest.approx(100 * 14 / 18)


def test_document_000s_settings_both_fit_when_planned() -> None:
    for name, rows, own in (("Conservative", 64, 30.684), ("Aggressive", 256, 157.148)):
        claim = next(
            one for one in document("000").claims if one.what == f"{name} setting, per GPU"
        )
        assert claim.what in ("Conservative setting, per GPU", "Aggressive setting, per GPU")
        assert claim.derived == pytest.approx(own, abs=1e-3)
        plan = claim.case.plan
        assert plan.prompts_per_step * plan.responses_per_prompt == rows
        assert estimate(plan).verdict.word == "fits"


def test_the_documents_chunks_are_not_self_certainty() -> None:
    """"Chunked self-certainty": its code, on three shapes of logits, beside the exact value."""
    random = np.random.default_rng(0)
    for scale in (0.5, 2.0, 5.0):
        rows = random.normal(scale=scale, size=(6, 151_936))
        mean = rows.mean(-1)
        exact = np.log(np.exp(rows).sum(-1)) - mean
        chunks = [rows[:, start : start + 1024] for start in range(0, 151_936, 1024)]
        assert len(chunks) == 149
        theirs = np.mean([np.log(np.exp(c).sum(-1)) - c.mean(-1) for c in chunks], axis=0)
        assert (exact - theirs).min() >= 0.999 * np.log(149)
    assert np.log(149) == pytest.approx(5.0, abs=0.01)


def test_the_documents_mixed_precision_doubles_the_temporaries() -> None:
    """"Mixed precision": the temporaries beside a bf16 tensor of logits, in its bytes."""
    logits = torch.randn(256, 4096, dtype=torch.bfloat16)

    def certainty(z: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(z, dim=-1) - z.mean(dim=-1)

    size = logits.nbytes
    plain = profiled_peak_bytes(lambda: certainty(logits)) / size
    upcast = profiled_peak_bytes(lambda: certainty(logits.float())) / size
    assert upcast / plain == pytest.approx(2, rel=0.05), (plain, upcast)


def test_ours_of_document_001() -> None:
    weights, vocabulary, hidden, tokens = 4_022_468_096, 151_936, 2_560, 64
    row = [32 + t for t in range(tokens)]
    kept = 36 * sum(171_432 * n + 192 * n * n for n in row)
    inputs = sum(row) * hidden * 2
    after = inputs + 36 * (171_432 * 95 + 192 * 95**2)
    twice = [32 + t for t in range(128)]
    failed = 3 * weights * 2 + 2 * 36 * sum(171_432 * n + 192 * n * n for n in twice)
    before = 3 * weights * 2 + kept
    expected = {
        "Why it is needed": failed / 1e9,
        "Top-k 256 of 32k": 8 / 4.03,
        "Online KL": 1.5,
        "Reference with a KV cache": 4_064 / 96,
        "Half the length": sum(n * n for n in twice) / sum(n * n for n in row),
        "Effective batch": 1,
        "soft_tokens, original": tokens * vocabulary * 4 / 1e9,
        "soft_tokens, optimised": tokens * vocabulary * 4.03 / 1e6,
        "soft_tokens, reduction": 8 / 4.03,
        "ref_logits, original": tokens * vocabulary * 4 / 1e9,
        "ref_logits, optimised": vocabulary * 4 / 1e6,
        "Reference activations, original": 96 * (vocabulary + 3 * 9_728) * 2 / 1e9,
        "Reference activations, optimised": 96 * 36 * 2 * 8 * 128 * 2 / 1e9,
        "Reference activations, reduction": (vocabulary + 3 * 9_728) * 2 / 147_456,
        "Reward matmul, original": tokens * hidden * 2 / 1e9,
        "Reward matmul, optimised": tokens * 256 * hidden * 2 / 1e6,
        "Reward matmul, reduction": 1 / 256,
        "Policy activations, original": kept / 1e9,
        "Policy activations, optimised": inputs / 1e9,
        "Policy activations, reduction": kept / after,
        "Total peak, original": before / 1e9,
        "Total peak, optimised": (3 * weights * 2 + after) / 1e9,
        "Total peak, reduction": before / (3 * weights * 2 + after),
        "Success criterion": before / (3 * weights * 2 + after),
    }
    the_same("001", "test_ours_of_document_001", expected)
    # "KV-cache memory": of every position a key and a value, 36 layers, 8 heads of 128, bf16.
    assert round(96 * 36 * 2 * 8 * 128 * 2 / 1e6) == 14


def test_a_product_stores_its_result_alone() -> None:
    """"Sparse reward input": nothing of batch × seq × vocab × hidden is made or kept."""
    sizes: list[int] = []
    soft = torch.rand(1, 64, 320, requires_grad=True)
    embedding = torch.rand(320, 48)

    def count(tensor: torch.Tensor) -> torch.Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        peak = profiled_peak_bytes(lambda: soft @ embedding)
    assert max(sizes) <= 64 * 320
    assert peak < 64 * 320 * 48 * 4 / 10


def test_ours_of_document_002() -> None:
    weights = 4_022_468_096

    def kept(rows: int, tokens: int, token: int, pair: int) -> int:
        return rows * 36 * sum(token * n + pair * n * n for n in range(32, 32 + tokens))

    before = kept(4, 48, 233_896, 128)
    first, later = kept(2, 32, 171_432, 192), 2 * 36 * 2_560 * 2 * 1_520
    wide, narrow = 3 * weights * 4, 3 * weights * 2
    expected = {
        "Memory in use at the error": 77.84 + 921.65 / 1_024 + 0.49,
        "Effective batch": 2,
        "Batch 4 → 2": 100 * before / 2 / (wide + before),
        "Length 48 → 32": 100 * (1 - 1_520 / 2_664),
        "bf16 for fp32": 100 * (1 - (narrow + first) / (wide + kept(2, 32, 233_896, 128))),
        "Model weights (×3), before": wide / 1e9,
        "Model weights (×3), after": narrow / 1e9,
        "Model weights, reduction": 50,
        "Activations, before": before / 1e9,
        "Activations, after: first step": first / 1e9,
        "Activations, after: later steps": later / 1e9,
        "Activations, reduction: least": 100 * (1 - first / before),
        "Activations, reduction: most": 100 * (1 - later / before),
        "Total, before": (wide + before) / 1e9,
        "Total, after: low end": (narrow + later) / 1e9,
        "Total, after: high end": (narrow + first) / 1e9,
        "Total, reduction: least": 100 * (1 - (narrow + first) / (wide + before)),
        "Total, reduction: most": 100 * (1 - (narrow + later) / (wide + before)),
        "Recomputation's cost": 100 / 3,
    }
    the_same("002", "test_ours_of_document_002", expected)


def test_ours_of_document_004() -> None:
    cells, hidden, inner, rank = 2 * 512, 2_048, 11_008, 16
    adapter = cells * 4 * (hidden + rank)
    scores = 2 * 16 * 512 * 512 * 6
    qkv = 3 * cells * hidden * 2 + 3 * adapter
    gate_up = 2 * cells * inner * 2 + 2 * adapter
    mlp = gate_up + cells * (2 * inner + 4 * (inner + rank))
    norm = cells * (4 * hidden + 4)
    layer = qkv + scores + adapter + mlp + 2 * norm
    layers = 36 * layer - norm
    logits = cells * 151_936 * 8
    whole = layers + norm + cells * hidden * 2 + logits
    expected = {
        "One hidden tensor": cells * hidden * 2 / 1e6,
        "Query, key, value": qkv / 1e6,
        "Attention scores": scores / 1e6,
        "Attention of a layer": (qkv + scores + adapter) / 1e6,
        "Gate and up": gate_up / 1e6,
        "MLP of a layer": mlp / 1e6,
        "Norms of a layer": 2 * norm / 1e6,
        "One layer": layer / 1e6,
        "All layers": layers / 1e9,
        "Embeddings": 0,
        "Final logits": logits / 1e6,
        "Per forward pass": whole / 1e9,
        "With the reference's activations cached": whole / 1e9,
        "Caching the chosen log-probs": 2 * 511 * 2 / 1e6,
    }
    the_same("004", "test_ours_of_document_004", expected)


def test_the_model_has_no_batch_norm_and_no_dropout() -> None:
    """"Why nothing can be reused": Qwen2's modules in transformers."""
    config = Qwen2Config(
        hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, vocab_size=32,
    )
    modules = [*Qwen2ForCausalLM(config).modules()]
    assert config.attention_dropout == 0
    norms = (torch.nn.modules.batchnorm._BatchNorm, torch.nn.Dropout)
    assert not any(isinstance(module, norms) for module in modules)


def test_a_frozen_reference_is_free_with_adapters() -> None:
    """"A frozen reference": parameters held in the policy's forward, in bytes."""
    plan = presets()["doc-004-activations@1"].plan

    def held(**changes: str) -> int:
        phases = estimate(plan.changed(**changes)).phases
        forward = next(phase for phase in phases if phase.name == "policy forward")
        return forward.by_category()["parameters"]

    alone = held(reference="none", kl="none")
    assert held(reference="adapter-disabled") == alone
    assert held(reference="copy") - alone == pytest.approx(2 * 3_085_938_688, rel=1e-3)


def test_claims_keep_the_tests_that_they_name() -> None:
    own = Claim("x", "1", 1, "rows", why="y", tested=("a",))
    other = Claim("z", "", why="y", judged="agrees")
    assert [one.tested for one in held_by(("b",), (own, other))] == [("a",), ("b",)]
    with pytest.raises(ValueError, match="neither claimed nor judged"):
        Claim("x", "said", why="y")


def test_how_far_a_claim_is_from_what_is_right() -> None:
    found = {one.what: one for one in document("000").claims}
    assert found["Model parameters"].excess == pytest.approx(3 / 6.174857216)
    assert found["Logits gradients"].excess is None
    assert found["Vocabulary"].excess is None
