"""What other ranks than the first have in host RAM under FSDP: the frameworks' own loading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
from accelerate import init_empty_weights
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from torch.testing._internal.distributed.fake_pg import FakeStore
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedModel, core_model_loading
from transformers.distributed.fsdp import is_fsdp_enabled

CONFIG = LlamaConfig(
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=64,
    tie_word_embeddings=False,
)


@pytest.fixture
def saved(tmp_path: Path) -> PreTrainedModel:
    """A bf16 model whose file is ``saved.name_or_path``."""
    model = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.bfloat16)
    model.save_pretrained(tmp_path)
    model.name_or_path = str(tmp_path)
    return model


@pytest.fixture
def second_of_two(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As accelerate launches it with fsdp_cpu_ram_efficient_loading."""
    for name, value in {
        "ACCELERATE_USE_FSDP": "true",
        "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
        "LOCAL_RANK": "1",
    }.items():
        monkeypatch.setenv(name, value)
    dist.init_process_group("fake", store=FakeStore(), rank=1, world_size=2)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("within", "ends_on"), [(nullcontext(), "cpu"), (init_empty_weights(), "meta")]
)
def test_every_rank_reads_and_converts_all_weights(
    saved: PreTrainedModel,
    second_of_two: None,
    within: AbstractContextManager[None],
    ends_on: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TRL's way, whose ranks keep what they read; and verl's, where all but the first drop it."""
    made: list[int] = []
    copy = core_model_loading._materialize_copy

    def counted(*arguments: object) -> torch.Tensor:
        found = copy(*arguments)
        made.append(found.nbytes)
        return found

    monkeypatch.setattr(core_model_loading, "_materialize_copy", counted)
    assert is_fsdp_enabled()
    with within:
        model = AutoModelForCausalLM.from_pretrained(saved.name_or_path, dtype=torch.float32)
    assert sum(made) == 4 * saved.num_parameters()
    assert {weight.device.type for weight in model.parameters()} == {ends_on}
    if ends_on == "cpu":
        for name, weight in model.named_parameters():
            assert torch.equal(weight, saved.get_parameter(name).float()), name


class _Reached(Exception):
    """accelerate is about to shard."""


@pytest.mark.parametrize("precision", ["bf16", "no"])
def test_every_rank_makes_what_trains_fp32_before_fsdp2_shards_it(precision: str) -> None:
    model = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.bfloat16)
    model.lm_head.weight.requires_grad_(False)

    def reached() -> None:
        raise _Reached

    plugin = SimpleNamespace(
        set_auto_wrap_policy=lambda _: None,
        reshard_after_forward=True,
        cpu_offload=None,
        mixed_precision_policy=None,
        ignored_modules=None,
    )
    second = SimpleNamespace(
        state=SimpleNamespace(fsdp_plugin=plugin), mixed_precision=precision, is_main_process=False
    )
    with patch.object(model, "state_dict", reached), pytest.raises(_Reached):
        fsdp2_prepare_model(second, model)
    wide = torch.float32 if precision == "bf16" else torch.bfloat16
    found = {weight.requires_grad: weight.dtype for weight in model.parameters()}
    assert found == {True: wide, False: torch.bfloat16}
    assert {weight.device.type for weight in model.parameters()} == {"cpu"}
