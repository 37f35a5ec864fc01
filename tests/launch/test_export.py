import io
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from launch.running import PATHS, run, unpack
from planner import frameworks
from planner.launch.export import (
    export,
    exporter_of,
    fitted,
    following,
    obstacles,
    scripted,
    why_not,
    writing,
)
from planner.launch.launch import CannotExpress, as_zip
from planner.plan import FIELDS, Plan
from planner.plan.frameworks import exported, framework_named
from planner.plan.frameworks import frameworks as known
from planner.plan.presets import DEFAULT, presets

DESCRIPTIVE = {
    "gpu": "the card the plan is for; a script runs on whatever card is there",
    "gpu_bytes": "the card the plan is for",
    "host_ram_per_node": "what the node has",
    "price_per_gpu_hour": "what the node costs",
    "disk_bytes_per_second": "what the node has",
    "length_distribution": "what the data is like",
    "mean_prompt_tokens": "what the data is like",
    "reward_seconds": "how quick the reward is",
    "reward_concurrency": "how quick the reward is",
    "validation_responses": "how large the validation set is",
}
"""Fields that describe the machine, the data or the bill: there is nothing to set for them."""

OTHER_METHODS = ("self_certainty", "grade_", "reinforce_")
"""Prefixes of fields of methods that have no exporter: there ``method`` is the obstacle."""

ENGINE = (
    *("rollout", "rollout_overlap", "resampling_factor", "rollout_tensor_parallel"),
    *("gpu_memory_utilization", "vllm_sleep_level"),
    *("max_num_seqs", "max_num_batched_tokens", "enforce_eager", "kv_cache_dtype"),
    *("rollout_quantization", "async_scheduling", "rollout_expert_parallel", "sync_bucket_bytes"),
)
SPREAD = ("gpus_per_node", "shard_size", "reshard_after_forward", "reduce_dtype", "gradient_dtype")

NO_EFFECT: dict[str, dict[str, str]] = {
    "trl": {
        "logits_dtype": "TRL's fused head keeps no logits to have one",
        "critic": "no method that is exported to TRL has one",
        **dict.fromkeys(("rollout_overlap", "resampling_factor"), "TRL's rules leave one value"),
        "autocast": "accelerate's mixed precision is on wherever adapters are fp32",
        **dict.fromkeys(("chunk_tokens", "chunk_compile"), "TRL's fused head has no chunks"),
    },
    "verl": {
        "rollout_overlap": "an engine that is exported to verl is colocated",
        "autocast": "FSDP hands adapters over in the compute dtype",
        "base_dtype": "verl keeps frozen weights like the adapters",
        **dict.fromkeys(("chunk_tokens", "chunk_compile"), "verl's rules leave one value"),
    },
    "plain": {
        **dict.fromkeys(ENGINE, "neither GRADE nor DPO has an engine"),
        **dict.fromkeys(("kl", "entropy", "reward", "critic"), "their rules leave one value"),
        **dict.fromkeys(SPREAD, "there is one GPU"),
        **dict.fromkeys(
            ("validation_response_tokens", "eval_steps"), "the programs do not validate"
        ),
        "temperature": "neither GRADE nor DPO samples with an engine's temperature",
    },
    "hf_trainer": {
        **dict.fromkeys((*ENGINE, "temperature"), "SFT samples nothing"),
        **dict.fromkeys(("kl", "entropy", "reference", "reward", "critic"), "SFT has none"),
        **dict.fromkeys(("critic_model", "reward_model"), "SFT has none"),
        **dict.fromkeys(("logprob_micro_batch_size", "validation_response_tokens"), "SFT has none"),
        **dict.fromkeys(("chunk_tokens", "chunk_compile"), "whole logits have no chunks"),
        "logits_dtype": "transformers' loss is in fp32",
        "autocast": "accelerate's mixed precision is on wherever adapters are fp32",
    },
}
"""Fields that change nothing in what a framework runs."""

# What both frameworks do alike: no KL term, a fused head, accelerate's dtype for reductions,
# TRL's engine setting.
BOTH: dict[str, Any] = {
    "model": "Qwen/Qwen2.5-1.5B",  # verl's fused kernels need a head that is the embedding
    "kl": "none",
    "logits": "fused",
    "reduce_dtype": "bf16",
    "max_num_batched_tokens": 4096,
}


ENGINES = ("trl", "verl")
"""Frameworks that run such a plan, whose engine is vLLM; a program of ours generates by itself."""


def test_frameworks_are_the_modules_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exported() == ("plain", "trl", "verl", "hf_trainer")
    folder = tmp_path / "another"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from planner.frameworks.plain import FRAMEWORK as PLAIN\n"
        "from planner.values.framework import Framework\n"
        "FRAMEWORK = Framework(\n"
        "    name='another', label='Another', order=9, versions=('3',), loop_read='',\n"
        "    loss={'3': PLAIN.loss_code('1')},\n"
        ")\n"
    )
    (folder / "exporter.py").write_text(
        "from planner.launch.launch import Launch\n"
        "def obstacles(plan): return ()\n"
        "def write(plan, link):\n"
        "    return Launch(framework='another', version='3', files=(), install='', notes=())\n"
    )
    monkeypatch.setattr(frameworks, "__path__", [*frameworks.__path__, str(tmp_path)])
    asked = (known, framework_named, exported)
    try:
        for each in asked:
            each.cache_clear()
        assert exported() == ("plain", "trl", "verl", "hf_trainer", "another")
        assert export(Plan(), "another").version == "3"
        [told] = export(Plan(), "another").notes
        assert "nobody has read Another's training loop" in told
    finally:
        monkeypatch.undo()
        for each in asked:
            each.cache_clear()
    assert exported() == ("plain", "trl", "verl", "hf_trainer")


def test_one_plan_exports_to_every_framework() -> None:
    plan = Plan(**BOTH)
    assert writing(plan) == ENGINES
    for framework in ENGINES:
        assert why_not(plan, framework) == ()
        assert export(plan, framework).framework == framework


def test_the_default_preset_exports_to_every_framework() -> None:
    """Without an edit: what nobody chose follows, on the page as on the command line."""
    plan = presets()[DEFAULT].plan
    plans = {each: following(plan, each, ()) for each in writing(plan)}
    assert {each: why_not(plans[each], each) for each in plans} == {"trl": (), "verl": ()}


@pytest.mark.parametrize(
    ("preset", "chosen", "framework"),
    [
        ("grpo-7b@1", (), "trl"),  # the first that has a script for GRPO
        ("grpo-7b@1", ("framework",), "plain"),
        ("grpo-7b@1", ("sharding", "batch_shape"), "trl"),
        ("doc-000-ppo@1", (), "verl"),  # TRL has no PPO
        ("ppo-7b@1", (), "verl"),
        ("sft-8b@1", (), "trl"),
        ("doc-002-after@2", (), "plain"),  # GRADE's program is plain PyTorch's
    ],
)
def test_a_script_is_found_where_nobody_chose_the_framework(
    preset: str, chosen: tuple[str, ...], framework: str
) -> None:
    plan = presets()[preset].plan
    found = scripted(plan, chosen)
    assert found == framework
    if "framework" not in chosen:
        assert not obstacles(following(plan, found, chosen), found)


def test_an_unknown_framework_is_refused() -> None:
    with pytest.raises(ValueError, match="Choose plain or trl or verl or hf_trainer"):
        export(Plan(), "../trl")


def test_obstacles_name_field_reason_and_fix() -> None:
    with pytest.raises(CannotExpress) as refused:
        export(Plan(**BOTH, enforce_eager=True, offload="all-between-phases"), "trl")
    assert refused.value.fields == ("offload", "enforce_eager")
    assert refused.value.changes == {"offload": "none", "enforce_eager": False}
    assert "always uses CUDA graphs. Set enforce_eager to false." in str(refused.value)


def test_every_field_is_written_judged_or_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that no exporter looks at would be dropped silently."""
    # The estimate that a program's preflight knows looks at every field.
    for module in ("plain.settings", "hf_trainer.exporter"):
        monkeypatch.setattr(f"planner.frameworks.{module}.PREDICTED", ())

    class Watched:
        def __init__(self, plan: Plan) -> None:
            self.plan = plan
            self.read: set[str] = set()

        def __getattr__(self, name: str) -> Any:
            self.read.add(name)
            return getattr(self.plan, name)

    plans = {
        "trl": (
            Plan(**BOTH, framework="trl"),
            Plan(**BOTH, finetuning="lora", reward="model", liger=False),
            Plan(
                **BOTH | {"kl": "loss"},
                rollout="vllm-separate",
                rollout_gpus=4,
                rollout_tensor_parallel=4,
            ),
        ),
        "verl": (
            Plan(**BOTH | {"logits": "full"}, framework="verl"),
            Plan(**BOTH, method="ppo"),
            Plan(**BOTH, finetuning="lora"),
        ),
        "plain": (
            Plan(method="grade", gpus=1, finetuning="lora"),
            Plan(method="dpo", gpus=1, reference="cached-logprobs"),
        ),
        "hf_trainer": (
            Plan(method="sft", framework="hf_trainer", gpus=8),
            Plan(method="sft", framework="hf_trainer", gpus=8, finetuning="lora", liger=True),
        ),
    }
    for framework in exported():
        exporter = exporter_of(framework)
        read: set[str] = set()
        for plan in plans[framework]:
            plan = fitted(plan, framework)
            watched = Watched(plan)
            obstacles(watched, framework)  # type: ignore[arg-type]
            exporter.write(watched, "")
            read |= watched.read
        unseen = set(FIELDS) - read - set(DESCRIPTIVE) - set(NO_EFFECT[framework])
        assert not {name for name in unseen if not name.startswith(OTHER_METHODS)}


@pytest.mark.parametrize("framework", ENGINES)
@pytest.mark.parametrize("field", ["model", "critic_model", "reward_model"])
@pytest.mark.parametrize(
    "name",
    [
        "$(touch pwned)/x",
        "`touch pwned`/x",
        "a/b; touch pwned",
        "a/b' 'c",
        'a/b"c',
        "a/b\n--trust_remote_code",
        "a/b c",
        "a/b,c=d",
        "a/${oc.env:HOME}",
        "../secret",
        "a/..",
        "a/b/../../c",
        "/etc/passwd",
        "a/b/c",
        "a",
        "-m/evil",
        "a/-b",
    ],
)
def test_names_that_are_no_hub_id_are_refused(framework: str, field: str, name: str) -> None:
    hostile = Plan(**BOTH).model_copy(update={field: name})  # no validation, on purpose
    with pytest.raises(CannotExpress) as refused:
        export(hostile, framework)
    assert field in refused.value.fields


@pytest.mark.parametrize("targets", ["q_proj,,v_proj", "q_proj]", "a b", "$(touch x)", "", ","])
def test_targets_that_are_no_projections_are_refused(targets: str) -> None:
    plan = fitted(Plan(**BOTH, finetuning="lora"), "verl")
    with pytest.raises(CannotExpress) as refused:
        export(plan.model_copy(update={"lora_targets": targets}), "verl")
    assert refused.value.fields == ("lora_targets",)


@pytest.mark.parametrize("link", ["https://x/?a\ntouch pwned", "https://x/\u202e", "a\rb"])
def test_a_link_cannot_end_its_comment(link: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        export(Plan(**BOTH), "trl", link=link)


@pytest.mark.parametrize("framework", ENGINES)
def test_files_state_link_version_and_install(framework: str) -> None:
    link = "https://headroom.example/?v=1&preset=grpo-7b@1&gpus=16&note=" + "x" * 200
    launch = export(Plan(**BOTH), framework, link=link)
    script = launch.text("launch.sh")
    assert f"# {link}\n" in script
    assert f"=={launch.version}" in script
    assert launch.install in " ".join(script.replace("\n# ", " ").split())
    for note in launch.notes:
        assert note in " ".join(script.replace("\n# ", " ").split())
    with pytest.raises(KeyError, match=r"launch\.sh"):
        launch.text("other.sh")


@pytest.mark.parametrize("framework", ["trl", "verl"])
def test_kernels_of_linear_attention_are_installed_where_the_estimate_supposes_them(
    framework: str,
) -> None:
    packages = "flash-linear-attention==0.6.0 causal-conv1d==1.7.0"
    plan = Plan(**{**BOTH, "model": "Qwen/Qwen3.5-0.8B"})
    assert packages in export(plan, framework).install
    assert packages not in export(Plan(**BOTH), framework).install


@pytest.mark.parametrize("framework", ENGINES)
def test_the_zip_is_the_same_each_time_and_unpacks_to_the_files(
    framework: str, tmp_path: Path
) -> None:
    launch = export(Plan(**BOTH), framework)
    assert as_zip(launch) == as_zip(export(Plan(**BOTH), framework))
    with zipfile.ZipFile(io.BytesIO(as_zip(launch))) as archive:
        found = {name: archive.read(name).decode() for name in archive.namelist()}
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
    assert found == {file.name: file.text for file in launch.files}
    assert modes["launch.sh"] == 0o755 and modes["reward.py"] == 0o644


@pytest.mark.parametrize("framework", ["trl", "verl"])
def test_scripts_stop_when_a_variable_is_missing(framework: str, tmp_path: Path) -> None:
    folder = unpack(export(Plan(**BOTH), framework), tmp_path)
    for missing in {"trl": ["DATASET"], "verl": ["TRAIN_FILES", "VAL_FILES"]}[framework]:
        given = {name: value for name, value in PATHS.items() if name != missing}
        with pytest.raises(subprocess.CalledProcessError) as stopped:
            run(folder, **given)
        assert f"set {missing} to".encode() in stopped.value.stderr


def test_a_fitted_plan_differs_only_in_what_the_obstacles_name() -> None:
    plan = Plan(logits="full", enforce_eager=True, steps=77)
    nearest = fitted(plan, "trl")
    changed = {name for name in FIELDS if getattr(plan, name) != getattr(nearest, name)}
    with pytest.raises(CannotExpress) as refused:
        export(plan, "trl")
    assert changed == set(refused.value.changes)
    assert nearest.steps == 77
    assert why_not(nearest, "trl") == ()


@pytest.mark.parametrize("framework", ["trl", "verl"])
@pytest.mark.parametrize("reference", ["cached-activations", "dual-output"])
def test_references_that_the_loss_makes_are_refused_by_name(framework: str, reference: str) -> None:
    plan = Plan(finetuning="lora", framework="plain", kl="loss", reference=reference)
    found = [obstacle for obstacle in obstacles(plan, framework) if obstacle.field == "reference"]
    assert len(found) == 1 and "adapter-disabled" in found[0].fix
    with pytest.raises(CannotExpress, match="reference"):
        export(plan, framework)


def test_what_no_change_mends_is_refused_with_the_way_out() -> None:
    ppo = Plan(method="ppo")
    assert "Export it to Plain PyTorch or verl." in why_not(ppo, "trl")[0]
    assert "1.13.0" in why_not(ppo, "trl")[0]
    said = why_not(Plan(method="sft"), "verl")[0]
    assert "Export it to Plain PyTorch or TRL or Transformers Trainer." in said
    intuitor = Plan(method="intuitor")
    for framework in set(exported()) - {"trl"}:
        assert obstacles(intuitor, framework)[0].field == "method"
        assert "TRL" in obstacles(intuitor, framework)[0].fix
        with pytest.raises(CannotExpress):
            fitted(intuitor, framework)
    assert fitted(intuitor, "trl").self_certainty == "fused"


def test_another_version_of_the_framework_is_refused() -> None:
    plan = fitted(Plan(framework="trl"), "trl").model_copy(update={"framework_version": "1.14.0"})
    with pytest.raises(CannotExpress) as refused:
        export(plan, "trl")
    assert refused.value.changes == {"framework_version": "1.16.0"}
