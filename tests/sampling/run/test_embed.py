"""Embeddings: padding is masked, the mean's head is the mean of logits, lengths are cut."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from planner.sampling.ask.source import source_of
from planner.sampling.run.embed import Embedder, batches, padded_tokens, seconds_a_prompt
from planner.sampling.run.vectors import F32
from sampling.run import tiny


def embedder(model: Path, embedding: str = "hidden", dtype: str = "fp32") -> Embedder:
    return Embedder(model, embedding=embedding, dtype=dtype, device="cpu", prompt_tokens=16)


def by_hand(model: Path, ids: Sequence[int], embedding: str) -> F32:
    """transformers alone, one prompt, nothing padded, all logits."""
    import torch
    from transformers import AutoModelForCausalLM

    own = AutoModelForCausalLM.from_pretrained(model)
    with torch.inference_mode():
        out = own(input_ids=torch.tensor([list(ids)]), output_hidden_states=True)
    values = out.logits if embedding == "logits" else out.hidden_states[-1]
    mean = values[0].mean(0)
    found: F32 = (mean / mean.norm()).numpy()
    return found


@pytest.mark.parametrize("embedding", ["hidden", "logits"])
def test_a_padded_batch_equals_each_prompt_alone(embedding: str, model: Path) -> None:
    ours = embedder(model, embedding)
    ids = ours.tokens(["w1 w2", "w3 w4 w5 w6 w7 w8 w9 w10 w11", "w12 w13 w14"])
    together = ours.embed(ids)
    assert together.shape[1] == (tiny.WORDS + 4 if embedding == "logits" else tiny.HIDDEN)
    for row, own in zip(ids, together, strict=True):
        assert np.allclose(own, ours.embed([row])[0], atol=1e-5)
        assert np.allclose(own, by_hand(model, row, embedding), atol=1e-5)


def test_a_model_with_a_cap_on_its_logits_has_them_all_averaged(model: Path) -> None:
    ours = embedder(model, "logits")
    ids = ours.tokens(["w1 w2 w3", "w4 w5 w6 w7"])
    plain = ours.embed(ids)
    own = ours._model.forward
    calls: list[int] = []

    def capped(**given: object) -> object:
        calls.append(1)
        out = own(**given)
        out.logits = out.logits.tanh() * 0.5
        return out

    ours._by_head = None
    ours._model.forward = capped
    squashed = ours.embed(ids)
    assert ours._by_head is False and len(calls) == 2
    assert not np.allclose(squashed, plain, atol=1e-3)


def test_prompts_are_cut_and_a_chunk_keeps_its_order(model: Path) -> None:
    ours = embedder(model)
    ids = ours.tokens([" ".join(["w1"] * n) for n in (3, 40, 1, 9)])
    assert [len(row) for row in ids] == [3, 16, 1, 9]
    assert list(batches(ids, 2)) == [[1, 3], [0, 2]]
    assert padded_tokens([3, 16, 1, 9], 2) == 2 * 16 + 2 * 3
    done: list[int] = []
    chunk = ours.chunk(ids, 2, done.append, tiny.HIDDEN)
    assert done == [2, 4]
    for row, own in zip(ids, chunk, strict=True):
        assert np.allclose(own, ours.embed([row])[0], atol=1e-5)
    with pytest.raises(ValueError, match="^model: its embeddings have 16 values"):
        ours.chunk(ids, 2, done.append, 99)


def test_chats_need_a_template_and_have_it(model: Path, tmp_path: Path) -> None:
    chat = (("user", "w1 w2"),)
    with pytest.raises(ValueError, match="^prompts: .* no chat template"):
        embedder(model).tokens([chat])
    other = shutil.copytree(model, tmp_path / "chat")
    template = "{% for m in messages %}{{ m['content'] }} w9{% endfor %}"
    (other / "chat_template.jinja").write_text(template)
    (own,), (plain,) = embedder(other).tokens([chat]), embedder(other).tokens(["w1 w2 w9"])
    assert list(own) == list(plain)


def test_the_calibration_times_real_batches(model: Path, tmp_path: Path) -> None:
    found = tiny.job(tmp_path, model, tiny.some(40))
    seconds, timed = seconds_a_prompt(embedder(model), found.prompts(), 4, 40, 0.1)
    assert 0 < seconds < 1 and timed >= 4


def test_a_folder_is_known_by_what_is_in_it(model: Path, tmp_path: Path) -> None:
    own = source_of(str(model))
    assert own.identity.startswith("sha256 ") and own.width("hidden") == tiny.HIDDEN
    other = shutil.copytree(model, tmp_path / "other")
    assert source_of(str(other)).identity == own.identity
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "rope_theta": 5.0}))
    assert source_of(str(other)).identity != own.identity


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "only safetensors"),
        (lambda f: (f / "tokenizer.json").unlink(), "no tokenizer.json"),
        (
            lambda f: (f / "model.safetensors.index.json").write_text(
                '{"weight_map": {"a": "../../x.safetensors"}}'
            ),
            "files elsewhere",
        ),
        (
            lambda f: (f / "model.safetensors.index.json").write_text(
                '{"weight_map": {"a": "pytorch_model.bin"}}'
            ),
            "no safetensors here",
        ),
        (lambda f: (f / "config.json").write_text("import os"), "JSON"),
        (lambda f: (f / "config.json").write_text("{}"), "hidden_size"),
    ],
)
def test_another_folder_is_refused(harm: object, said: str, model: Path, tmp_path: Path) -> None:
    other = shutil.copytree(model, tmp_path / "other")
    harm(other)  # type: ignore[operator]
    with pytest.raises(ValueError, match="^model: ") as error:
        source_of(str(other)).width("hidden")
    assert said in str(error.value)


def test_what_is_neither_a_folder_nor_an_id_is_refused() -> None:
    with pytest.raises(ValueError, match="neither a folder here nor a Hub id"):
        source_of("../../nowhere")
