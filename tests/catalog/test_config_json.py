"""Configs from strangers: what is refused, and how it is said."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import catalog

GOOD: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "vocab_size": 100,
}
GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "n_embd": 48,
    "n_layer": 3,
    "n_head": 4,
    "vocab_size": 90,
}
MIXTRAL: dict[str, Any] = {
    **GOOD,
    "model_type": "mixtral",
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 2,
}
OLMOE: dict[str, Any] = {**GOOD, "model_type": "olmoe", "num_experts": 4, "num_experts_per_tok": 2}
GEMMA: dict[str, Any] = {**GOOD, "model_type": "gemma2", "num_key_value_heads": 2}
SMALL: dict[str, Any] = {**GOOD, "num_key_value_heads": 2}


def text(**changes: Any) -> str:
    return json.dumps({**GOOD, **changes})


def refusal(source: str | bytes | dict[str, Any]) -> str:
    with pytest.raises(ValueError) as caught:
        catalog.parse_config(source)
    message = str(caught.value)
    assert message.startswith("config: ")
    assert "\n" not in message
    assert len(message) < 240
    return message


def test_a_good_config_is_read() -> None:
    found = catalog.parse_config(text().encode())
    assert found.architecture is not None
    assert found.architecture.hidden == 64
    assert found.params is None
    assert found.model_type == "llama"


def test_the_same_config_has_the_same_id_however_it_is_written() -> None:
    spaced = json.dumps(dict(reversed(GOOD.items())), indent=4)
    assert catalog.parse_config(spaced) == catalog.parse_config(text(torch_dtype="bfloat16"))
    assert catalog.parse_config(text(vocab_size=101)).id != catalog.parse_config(text()).id


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"hidden_size": 10**6}, "hidden_size"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"hidden_size": -64}, "hidden_size"),
        ({"hidden_size": "64"}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"hidden_size": 64.0}, "hidden_size"),
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": [64]}, "hidden_size"),
        ({"hidden_size": 10**39}, "hidden_size"),
        ({"num_hidden_layers": 1001}, "num_hidden_layers"),
        ({"vocab_size": 2**21 + 1}, "vocab_size"),
        ({"intermediate_size": 2**20 + 1}, "intermediate_size"),
        ({"num_attention_heads": 3}, "num_attention_heads"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"num_attention_heads": 4096, "head_dim": 8192}, "head_dim"),
        ({"head_dim": 7}, "head_dim"),
        ({"max_position_embeddings": 2**40}, "max_position_embeddings"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings"),
        ({"attention_dropout": 1e400}, "attention_dropout"),
        ({"hidden_act": "__import__('os')"}, "hidden_act"),
        ({"model_type": None}, "model_type"),
        ({"model_type": ["llama"]}, "model_type"),
        ({"model_type": "../../etc/passwd"}, "model_type"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantization_config"),
        ({"partial_rotary_factor": -1}, "partial_rotary_factor"),
    ],
)
def test_absurd_values_are_refused_by_name(changes: dict[str, Any], field: str) -> None:
    written = text(**changes).replace("Infinity", "1e400")
    assert field in refusal(written)


@pytest.mark.parametrize("missing", [key for key in GOOD if key != "model_type"])
def test_what_decides_the_memory_must_be_stated(missing: str) -> None:
    config = {key: value for key, value in GOOD.items() if key != missing}
    assert f"{missing} is missing" in refusal(json.dumps(config))


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "not valid JSON"),
        ("[]", "one JSON object"),
        ("12", "one JSON object"),
        ("{", "not valid JSON"),
        (b"\xff\xfe\x00", "UTF-8"),
        ('{"hidden_size": NaN}', "NaN"),
        ('{"hidden_size": -Infinity}', "Infinity"),
        ('{"hidden_size": ' + "9" * 5000 + "}", "5000 digits"),
        ('{"a": 1, "a": 2}', "twice"),
        ('{"rope_scaling": {"factor": 1, "factor": 2}}', "twice"),
        ("[" * 100_000, "nested deeper"),
        ('{"a":' * 40 + "1" + "}" * 40, "nested deeper"),
        (" " * (256 * 1024 + 1), "256 KiB"),
        ("é" * 200_000, "not valid JSON"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_hostile_text_is_refused(source: str | bytes, words: str) -> None:
    if source == "é" * 200_000:
        refusal(source.encode())
        return
    assert words in refusal(source)


def test_braces_inside_strings_are_not_depth() -> None:
    assert catalog.parse_config(text(note="{[" * 100 + '\\"')).architecture is not None


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_value_anywhere_is_an_answer_or_a_value_error(value: Any) -> None:
    for field in (*GOOD, "rope_scaling", "layer_types", "head_dim", "text_config"):
        for base in (GOOD, GEMMA, {**GOOD, "model_type": "qwen3"}):
            try:
                catalog.model_from_config({**base, field: value})
            except ValueError as error:
                assert str(error).startswith("config: ")


@given(st.text() | st.binary())
def test_any_text_is_an_answer_or_a_value_error(source: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"^config: "):
        catalog.parse_config(source)


def test_remote_code_is_never_looked_at() -> None:
    hooked = text(auto_map={"AutoConfig": "somewhere--module.Class"}, trust_remote_code=True)
    found, plain = catalog.parse_config(hooked), catalog.parse_config(text())
    assert found.architecture == plain.architecture
    assert {**found.config, "seen": None} == {**plain.config, "seen": None}
    assert [words for words in found.warnings if "auto_map" in words and "never run" in words]


def test_a_type_without_formulas_is_listed_with_the_reason() -> None:
    found = catalog.model_from_config({"model_type": "glm4_moe", "hidden_size": "nonsense"})
    assert found.architecture is None and found.spot
    assert "a dry run has to measure its layers" in found.unsupported_reason


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({**GOOD, "attention_dropout": 0.1}, "attention_dropout"),
        ({**GOOD, "hidden_act": "relu2"}, "relu2"),
        ({**GOOD, "rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({**GOOD, "model_type": "phi3", "resid_pdrop": 0.1}, "resid_pdrop"),
        ({**GOOD, "model_type": "phi3", "lm_head_bias": True}, "lm_head_bias"),
        ({**GPT2, "attn_pdrop": 0.0}, "attn_pdrop"),
        ({**GOOD, "model_type": "gpt_neox", "hidden_dropout": 0.1}, "hidden_dropout"),
        ({**GOOD, "model_type": "olmo2", "partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({**SMALL, "model_type": "starcoder2", "residual_dropout": 0.1}, "residual_dropout"),
        ({**GPT2, "reorder_and_upcast_attn": True}, "reorder_and_upcast_attn"),
        ({**GPT2, "add_cross_attention": True}, "add_cross_attention"),
        ({**GEMMA, "head_dim": 16, "use_bidirectional_attention": True}, "bidirectional"),
        ({**MIXTRAL, "output_router_logits": True}, "output_router_logits"),
        ({**MIXTRAL, "router_jitter_noise": 0.1}, "router_jitter_noise"),
        ({**MIXTRAL, "intermediate_size": 164}, "multiples of 8"),
        ({**OLMOE, "clip_qkv": 8.0}, "clip_qkv"),
    ],
)
def test_settings_nobody_derived_give_a_reason_and_no_guess(
    config: dict[str, Any], word: str
) -> None:
    found = catalog.model_from_config(config)
    assert found.architecture is None
    assert word in found.unsupported_reason


@pytest.mark.parametrize(
    "config",
    [
        {
            **GOOD,
            "model_type": "qwen3",
            "num_key_value_heads": 2,
            "layer_types": ["full_attention"],
        },
        {**GEMMA, "layer_types": ["linear_attention"] * 4},
        {**GEMMA, "sliding_window": None},
        {**GOOD, "model_type": "olmo3", "sliding_window": None},
        {**GOOD, "model_type": "olmo3", "layer_types": ["full_attention"] * 3},
    ],
)
def test_layer_types_and_windows_must_make_sense(config: dict[str, Any]) -> None:
    assert "layer_types" in refusal(config) or "sliding_window" in refusal(config)


def test_a_multimodal_config_gives_its_text_part_and_its_tying() -> None:
    inner = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6}
    whole = {"model_type": "gemma3", "tie_word_embeddings": False, "text_config": inner}
    found = catalog.model_from_config(whole).architecture
    assert found is not None
    assert (found.family, found.tied, found.vocab) == ("gemma3_text", False, 262_208)
    assert "text_config" in refusal({"model_type": "gemma3"})
    nested = {**whole, "text_config": {**inner, "quantization_config": {"bits": 4}}}
    assert "quantization_config" in refusal(nested)


def test_sizes_that_a_family_fixes_or_lists_must_fit() -> None:
    neox = {**GOOD, "model_type": "gpt_neox", "num_attention_heads": 7, "head_dim": 32}
    assert "num_attention_heads" in refusal(neox)
    smol = {**SMALL, "model_type": "smollm3", "no_rope_layers": [1, 0]}
    assert "no_rope_layers" in refusal(smol)
    assert "head_dim" in refusal({**SMALL, "model_type": "glm4", "head_dim": None})


def test_starcoder2_drops_when_its_config_says_so() -> None:
    rates = ("attention_dropout", "residual_dropout", "embedding_dropout")
    config = {**SMALL, "model_type": "starcoder2", **dict.fromkeys(rates, 0.1)}
    found = catalog.model_from_config(config).architecture
    assert found is not None and found.dropout == 0.1


def test_gpt2_trains_with_dropout_unless_told_otherwise() -> None:
    usual = catalog.model_from_config(GPT2).architecture
    without = catalog.model_from_config(
        {**GPT2, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
    )
    assert usual is not None and without.architecture is not None
    assert usual.dropout == 0.1
    assert without.architecture.dropout == 0.0


def test_links_carry_every_field_and_nothing_else() -> None:
    encoded = catalog.encode_config({**GOOD, "torch_dtype": "bfloat16", "auto_map": {"a": "b"}})
    decoded = catalog.decode_config(encoded)
    assert decoded["num_hidden_layers"] == 4
    assert decoded["attention_bias"] is False
    assert not {"torch_dtype", "auto_map"} & decoded.keys()
    assert len(encoded) < 400


def test_a_released_link_opens_for_ever() -> None:
    """Written by the first version; must never change."""
    frozen = (
        "eNpVj1tOw0AMRffi7wgNKKpQNmM5tQsWnodmnJaA2DsDTSj99PHr3E8gd0muOeGs1GA6kTUZ_mGuueTFYQoPYYBX"
        "IUbWCFNazHqtzJKQjn0AmtoCf6zph8B0GAfQ5FKjsJLLhh8P_Vikdyy56e8fibMwa3rpEk9hfO5tK_dSMbMY-lr6"
        "ATCjSP1bWiLebH_8-sJ45ZuJ0Sr1Rt9kxTPZIvv0NUqh6kqGNTvVFU89U65701XwkivfaW5a53ykec8Vwtc3DAZ6"
        "Iw=="
    )
    assert catalog.decode_config(frozen) == {
        "attention_bias": False,
        "attention_dropout": 0.0,
        "head_dim": None,
        "hidden_act": "silu",
        "hidden_size": 64,
        "intermediate_size": 160,
        "max_position_embeddings": 2048,
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": 4,
        "num_hidden_layers": 4,
        "num_key_value_heads": None,
        "partial_rotary_factor": None,
        "tie_word_embeddings": False,
        "vocab_size": 100,
    }


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "!!!",
        "abc",
        "A" * 8193,
        base64.urlsafe_b64encode(b"not zlib").decode(),
        base64.urlsafe_b64encode(zlib.compress(b"{}")).decode(),
        base64.urlsafe_b64encode(zlib.compress(b'{"model_type": "a b"}')).decode(),
        base64.urlsafe_b64encode(zlib.compress(b" " * 50_000_000, 9))[:8000].decode(),
        base64.urlsafe_b64encode(zlib.compress(b" " * 1_000_000, 9)).decode(),
        base64.urlsafe_b64encode(zlib.compress(json.dumps(GOOD).encode()) + b"more").decode(),
        base64.urlsafe_b64encode(zlib.compress(json.dumps(GOOD).encode())[:-3]).decode(),
        base64.urlsafe_b64encode(
            zlib.compress(json.dumps(GOOD).encode() + b" " * 1_000_000)
        ).decode(),
        base64.urlsafe_b64encode(zlib.compress(json.dumps(GOOD).encode())[:-6]).decode(),
    ],
    ids=range(13),
)
def test_damaged_links_and_bombs_are_refused(damaged: str) -> None:
    with pytest.raises(ValueError, match=r"^config: "):
        catalog.decode_config(damaged)


@given(st.text(alphabet="ABCabc012-_=", max_size=60))
def test_any_link_text_is_refused_in_words(encoded: str) -> None:
    with pytest.raises(ValueError, match=r"^config: "):
        catalog.decode_config(encoded)


def test_numbers_as_keys_of_a_dictionary_are_those_of_the_file() -> None:
    """Whoever copies a config out of Python has ``id2label`` with numbers, which JSON has not."""
    config = json.loads(text(model_type="made-up"))
    read = catalog.parse_config({**config, "id2label": {0: "no", 1: "yes"}})
    written = catalog.parse_config({**config, "id2label": {"0": "no", "1": "yes"}})
    assert read.config == written.config and read.unsupported_reason
    with pytest.raises(ValueError, match="^config: what is given cannot be written as JSON"):
        catalog.parse_config({**config, "torch_dtype": object()})
