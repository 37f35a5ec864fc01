from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from planner import catalog
from planner.catalog.model_catalog import supported
from planner.catalog.schema import ModelFile
from planner.formulas.parameters import active_parameter_count, weights

FILE = ModelFile.model_validate_json((files("planner.catalog") / "models.json").read_bytes())


RELEASED = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "models-released.json").read_text("utf-8")
)
"""Models that links may name for ever, by where their sums come from."""


def test_no_released_model_is_lost_and_none_loses_its_formulas() -> None:
    """Rows are added freely; one whose layers were measured may get a derived sum."""
    assert len(RELEASED["derived"]) == 84 and len(RELEASED["measured"]) == 17
    known = {model.id: model.architecture for model in catalog.models()}
    assert not {*RELEASED["derived"], *RELEASED["measured"]} - known.keys()
    derived = {name for name, arch in known.items() if arch is not None and not arch.measured}
    assert not {*RELEASED["derived"]} - derived
    assert all(known[name] is not None for name in RELEASED["measured"])
    assert catalog.model("karpathy/nanochat-d20").params == 560_988_160


def test_models_without_formulas_say_why() -> None:
    for model in catalog.models():
        assert (model.architecture is None) == bool(model.unsupported_reason)
    row = next(row for row in FILE.models if row.id == "zai-org/GLM-4.5-Air")
    assert supported({**row.config, "hidden_size": 2048}) == (
        None,
        "no derived activation sum for glm4_moe, and the dry run's coefficients are those of the "
        "catalog's models; choose one of these",
    )


def test_active_parameters_are_all_but_the_experts_a_token_does_not_use() -> None:
    rows = {row.id: row for row in FILE.models}
    for model in catalog.models():
        if model.architecture is not None:
            found = active_parameter_count(model.architecture)
            assert found == rows[model.id].params_active, model.id
            routed = [w for w in weights(model.architecture) if w.kind == "experts"]
            total = sum(weight.total_elements for weight in routed)
            assert total == rows[model.id].params_routed_experts


@pytest.mark.parametrize("row", FILE.models, ids=lambda row: row.id)
def test_every_row_has_sources_a_licence_and_a_date(row: object) -> None:
    entry = next(each for each in FILE.models if each is row)
    assert entry.sources and entry.params_source and entry.params_published_source
    assert entry.licence and entry.licence_source
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", entry.date)
    assert entry.params_active <= entry.params
    if entry.match == "exact":
        assert entry.params_published == entry.params
    for alias in entry.aliases:
        assert bool(alias.config) == bool(alias.source)


def test_a_variant_is_its_rows_model_under_the_name_asked_for() -> None:
    base = catalog.model("Qwen/Qwen2.5-7B")
    variant = catalog.model("Qwen/Qwen2.5-7B-Instruct")
    assert variant.architecture == base.architecture
    assert variant.params == base.params
    assert (variant.id, variant.name) == ("Qwen/Qwen2.5-7B-Instruct", "Qwen2.5-7B-Instruct")
    assert variant.alias_of == "Qwen/Qwen2.5-7B"
    assert base.alias_of == ""


def test_a_variant_keeps_what_is_known_to_differ() -> None:
    short = catalog.model("microsoft/Phi-3-mini-4k-instruct").architecture
    long = catalog.model("microsoft/Phi-3.5-mini-instruct").architecture
    assert short is not None and long is not None
    assert (short.sliding_window, short.max_positions) == (2047, 4096)
    assert (long.sliding_window, long.max_positions) == (262_144, 131_072)


def test_every_id_and_alias_is_found() -> None:
    for row in FILE.models:
        assert catalog.model(row.id).id == row.id
        for alias in row.aliases:
            assert catalog.model(alias.id).id == alias.id


def test_the_shape_without_weights_is_marked() -> None:
    shape = catalog.model("karpathy/nanoGPT-gpt2-50304")
    assert not shape.on_hub
    assert shape.architecture is not None and shape.architecture.vocab == 50_304


def test_an_unknown_id_names_the_closest_and_the_field() -> None:
    with pytest.raises(ValueError, match=r"^model: 'Qwen/Qwen2.5-7b'.*Qwen/Qwen2.5-7B"):
        catalog.model("Qwen/Qwen2.5-7b")
    with pytest.raises(ValueError, match=r"^critic_model: "):
        catalog.model("no/such", field="critic_model")
    with pytest.raises(ValueError, match=r"^model: ") as caught:
        catalog.model("x" * 100_000)
    assert len(str(caught.value)) < 200


def test_models_are_values() -> None:
    assert catalog.model("openai-community/gpt2") is catalog.model("openai-community/gpt2")
    assert len({hash(model) for model in catalog.models()}) == len(catalog.models())
    with pytest.raises(TypeError):
        catalog.model("openai-community/gpt2").config["n_embd"] = 1  # type: ignore[index]


def test_the_catalog_is_read_on_first_use_and_loads_nothing_heavy() -> None:
    code = (
        "import sys, planner.catalog as c\n"
        "from planner.catalog import model_catalog, gpu_catalog\n"
        "assert model_catalog._rows.cache_info().currsize == 0\n"
        "assert gpu_catalog._by_key.cache_info().currsize == 0\n"
        "c.models(), c.gpus(), c.model('Qwen/Qwen2.5-7B')\n"
        "heavy = {'torch', 'transformers', 'huggingface_hub', 'streamlit', 'pandas', 'altair'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.strip() == "[]"


def test_popular_models_come_first_and_the_count_has_a_source() -> None:
    ranked = catalog.by_popularity()
    counts = [model.example_files for model in ranked]
    assert counts == sorted(counts, reverse=True) and len(ranked) == len(catalog.models())
    assert ranked[0].id == "Qwen/Qwen3-8B" and counts[0] == 27 and counts[-1] == 0
    for name in ("verl at ", "TRL at ", "OpenRLHF at "):
        assert name in FILE.example_files
