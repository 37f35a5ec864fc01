"""A pasted config.json is answered as the catalog's row is, or says what of it is not covered."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from planner import catalog
from planner.catalog.families import FAMILIES
from planner.estimate import estimate, judged
from planner.plan import Plan
from planner.steps.models import settings_of

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 100,
}
MEASURED = [
    row for row in catalog.models() if row.architecture is not None and row.architecture.measured
]


def pasted(config: dict[str, Any]) -> catalog.Model:
    """The model of a config as text, and the same once a link has carried it."""
    found = catalog.parse_config(json.dumps(config))
    if found.architecture is not None:
        carried = catalog.encode_config(found.config)
        again = catalog.parse_config(catalog.decode_config(carried))
        assert (again, again.warnings) == (found, found.warnings)
        assert again.left_out == found.left_out
        assert catalog.encode_config(again.config) == carried
    return found


def warnings_of(config: dict[str, Any]) -> str:
    """What an estimate of the model warns of."""
    encoded = catalog.encode_config(pasted(config).config)
    plan = Plan(method="sft", config=encoded, response_tokens=16, prompt_tokens=16)
    return " ".join(estimate(plan).warnings)


@pytest.mark.parametrize("row", catalog.models(), ids=lambda row: row.id)
def test_the_config_of_every_row_is_answered_as_the_row_is(row: catalog.Model) -> None:
    found = pasted(dict(row.config))
    assert found.architecture == row.architecture
    assert found.warnings == ()


@pytest.mark.parametrize("row", MEASURED, ids=lambda row: row.id)
def test_other_sizes_than_a_rows_are_measured_on_the_spot(row: catalog.Model) -> None:
    layers = row.config["num_hidden_layers"]
    found = pasted({**row.config, "num_hidden_layers": layers + 1})
    assert found.architecture is None and found.spot
    assert "a dry run has to measure its layers" in found.unsupported_reason
    assert not pasted(dict(row.config)).spot


def test_what_changes_no_size_may_differ_from_the_row() -> None:
    row = catalog.model("openai/gpt-oss-20b")
    other = {"rope_theta": 5, "eos_token_id": 7, "transformers_version": "5.0", "pad_token_id": 3}
    assert pasted({**row.config, **other}).architecture == row.architecture
    assert pasted({**row.config, "attention_dropout": 0.1}).architecture is None


@pytest.mark.parametrize(
    ("whole", "part"),
    [("gemma3", "google/gemma-3-4b-it"), ("qwen3_5", "Qwen/Qwen3.5-0.8B")],
)
def test_a_multimodal_model_is_planned_as_its_text_and_says_so(whole: str, part: str) -> None:
    row = catalog.model(part)
    config = {"model_type": whole, "text_config": dict(row.config), "vision_config": {}}
    assert pasted(config).architecture == row.architecture
    plan = Plan(method="sft", gpus=1, config=catalog.encode_config(pasted(config).config))
    told = estimate(plan)
    assert f"All of {whole} but its language model is left out" in told.assumptions[0]
    assert told.verdict.incomplete and told.verdict.sentence.startswith("Incomplete. All of ")
    assert "GiB" not in told.verdict.sentence and not told.priced
    assert judged(told).verdict == told.verdict
    small = estimate(plan.changed(gpu="custom", gpu_bytes=2**30)).verdict
    assert small.word == "out of memory" and small.sentence.startswith("Out of memory. ")
    alone = estimate(plan.changed(config=catalog.encode_config(pasted(dict(row.config)).config)))
    assert not alone.verdict.incomplete and not alone.assumptions


def test_code_of_a_repository_is_told_or_refused() -> None:
    hooked = {**LLAMA, "auto_map": {"AutoConfig": "configuration_x.XConfig"}}
    assert "never run; llama is planned as transformers has it" in warnings_of(hooked)
    assert "never run" not in warnings_of(LLAMA)
    found = pasted({**hooked, "model_type": "somebody_s_own"})
    assert found.architecture is None and "never run" in found.unsupported_reason


def test_another_class_than_the_one_that_is_planned_is_told() -> None:
    named = {**LLAMA, "architectures": ["LlamaForSequenceClassification"]}
    assert "LlamaForSequenceClassification; planned is LlamaForCausalLM" in warnings_of(named)
    assert "architectures" not in warnings_of({**LLAMA, "architectures": ["LlamaForCausalLM"]})
    for wrong in ("Llama", [3], ["a b"], ["x"] * 99, {"a": 1}):
        with pytest.raises(ValueError, match=r"^config: architectures"):
            pasted({**LLAMA, "architectures": wrong})


@pytest.mark.parametrize("name", ["quantization_config", "compression_config"])
def test_compressed_weights_are_refused_under_both_names(name: str) -> None:
    with pytest.raises(ValueError, match=f"^config: {name} is set"):
        pasted({**LLAMA, name: {"format": "pack-quantized"}})


def test_infinity_is_read_where_transformers_writes_it() -> None:
    limits = {"model_type": "mamba2", "time_step_limit": [0.0, float("inf")]}
    assert pasted(limits).spot
    assert pasted({**LLAMA, "time_step_limit": [0.0, float("inf")]}).architecture is not None
    with pytest.raises(ValueError, match="^config: attention_dropout is inf"):
        pasted({**LLAMA, "attention_dropout": float("inf")})


@pytest.mark.parametrize("model_type", sorted(FAMILIES))
def test_the_step_builds_what_a_link_carries(model_type: str) -> None:
    sizes = {"num_key_value_heads": 4, "moe_intermediate_size": 32, "num_experts_per_tok": 2}
    experts = {"num_experts": 4, "num_local_experts": 4}
    given = {**LLAMA, **sizes, **experts, "model_type": model_type, "pad_token_id": 7}
    carried = catalog.decode_config(catalog.encode_config(pasted(given).config))
    built = settings_of(carried, "eager")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(built)
    assert model.config.pad_token_id == 7
    assert model.config.vocab_size == 100


def test_padding_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="^config: pad_token_id: 100 is no row of vocab_size 100"):
        pasted({**LLAMA, "pad_token_id": 100})
    assert pasted({**LLAMA, "pad_token_id": -1}).config["pad_token_id"] == -1
    assert "pad_token_id" not in pasted(LLAMA).config
    assert pasted({**LLAMA, "pad_token_id": None}).config["pad_token_id"] is None


HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.lists(st.integers() | st.text(max_size=9), max_size=4),
    st.dictionaries(st.text(max_size=9), st.integers(), max_size=3),
)
ROWS = {row.model_type: dict(row.config) for row in catalog.models()}


def test_a_name_of_several_lines_is_quoted_in_one() -> None:
    with pytest.raises(ValueError, match="^config: ") as refused:
        pasted({**ROWS["glm4_moe"], "hidden_size": {"a\nb": 2**31 + 1}})
    assert str(refused.value).startswith(r"config: 'a\nb' is 2,147,483,649")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_change_of_a_real_config_is_an_answer_or_a_sentence(data: st.DataObject) -> None:
    config = data.draw(st.sampled_from(tuple(ROWS.values())))
    names = st.sampled_from((*config, "seen", "auto_map", "architectures", "text_config"))
    changes = data.draw(st.dictionaries(names | st.text(max_size=9), HOSTILE, max_size=3))
    text = json.dumps({**config, **changes})
    try:
        found = catalog.parse_config(text)
    except ValueError as error:
        assert str(error).startswith("config: ") and "\n" not in str(error)
        return
    assert (found.architecture is None) == bool(found.unsupported_reason)
    if found.architecture is not None:
        again = catalog.parse_config(catalog.decode_config(catalog.encode_config(found.config)))
        assert (again, again.warnings) == (found, found.warnings)
        assert again.left_out == found.left_out
