"""Hand arithmetic and published counts; ``catalog/test_rebuild.py`` holds the real modules."""

from __future__ import annotations

import pytest

from planner import catalog
from planner.catalog.architecture import Architecture
from planner.formulas import parameters


def architecture(name: str) -> Architecture:
    found = catalog.model(name).architecture
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("openai-community/gpt2", 124_439_808),
        ("Qwen/Qwen2.5-1.5B", 1_543_714_304),
        ("Qwen/Qwen2.5-7B", 7_615_616_512),
        ("Qwen/Qwen3-0.6B", 596_049_920),
        ("Qwen/Qwen3-4B", 4_022_468_096),
        ("meta-llama/Llama-3.1-8B", 8_030_261_248),
        ("google/gemma-2-9b", 9_241_705_984),
        ("microsoft/phi-4", 14_659_507_200),
    ],
)
def test_counts_equal_the_published_ones(name: str, published: int) -> None:
    assert parameters.parameter_count(architecture(name)) == published


def test_one_layer_of_llama_3_1_8b_by_hand() -> None:
    attention = 4096 * 4096 * 2 + 4096 * 1024 * 2
    feed_forward = 3 * 4096 * 14_336
    layer = attention + feed_forward + 2 * 4096
    llama = architecture("meta-llama/Llama-3.1-8B")
    assert parameters.layer_parameter_count(llama) == layer
    assert parameters.parameter_count(llama) == 32 * layer + 2 * 128_256 * 4096 + 4096
    assert sum(weight.count for weight in parameters.weights(llama)) == 32 * 9 + 3


def test_a_critic_swaps_the_vocabulary_for_one_score() -> None:
    untied = architecture("Qwen/Qwen2.5-7B")
    assert parameters.parameter_count(untied) - parameters.value_model_parameter_count(untied) == (
        152_064 * 3584 - 3584 - 1
    )
    tied = architecture("Qwen/Qwen2.5-1.5B")
    assert parameters.value_model_parameter_count(tied) == 1_543_714_304 + 1536 + 1


def test_linear_weights_say_their_shape_and_biases_stand_apart() -> None:
    found = {weight.name: weight for weight in parameters.weights(architecture("Qwen/Qwen2.5-7B"))}
    key = found["model.layers.{layer}.self_attn.k_proj.weight"]
    assert (key.in_features, key.out_features, key.elements) == (3584, 512, 3584 * 512)
    assert (key.count, key.per_layer, key.module, key.kind) == (28, True, "k_proj", "linear")
    bias = found["model.layers.{layer}.self_attn.k_proj.bias"]
    assert (bias.kind, bias.elements) == ("bias", 512)
    head = found["lm_head.weight"]
    assert (head.kind, head.in_features, head.out_features) == ("lm_head", 3584, 152_064)
    assert not head.per_layer


def test_a_tied_head_is_not_counted_twice() -> None:
    names = [weight.name for weight in parameters.weights(architecture("Qwen/Qwen3-0.6B"))]
    assert "lm_head.weight" not in names
    assert len(names) == len(set(names))


def test_an_unknown_head_is_refused() -> None:
    with pytest.raises(ValueError, match="head"):
        parameters.weights(architecture("Qwen/Qwen3-0.6B"), "two heads")  # type: ignore[arg-type]
