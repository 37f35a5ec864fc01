"""Runs in a process of its own: verl's composition and validation, one JSON line per request.

verl's validation needs neither ray nor a GPU, but its package imports both: what it
imports and never calls here is replaced by empty modules. ``validate_config`` and the
configuration classes are verl's own.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.metadata
import json
import os
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

UNUSED = ("ray", "tensordict", "orjson", "vllm", "torchdata", "zmq", "msgspec", "cloudpickle")


def _new(kind: type, *given: Any, **options: Any) -> Any:
    if len(given) == 1 and callable(given[0]):
        return given[0]  # used as a decorator, like ray.remote
    return (lambda decorated: decorated) if options else object.__new__(kind)


class Empty(types.ModuleType):
    """A module with any attribute, each an empty class that also serves as a decorator."""

    __path__: list[str] = []
    __version__ = "0.24.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__new__": _new})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for each name in ``UNUSED``, but none in vllm.config.

    verl has the list of adapter ranks for engines without vllm.config.lora.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] in UNUSED and not name.startswith("vllm.config"):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def tiny_model(folder: Path) -> str:
    """A local model folder; verl reads the critic's configuration and tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 8,
        "intermediate_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "num_key_value_heads": 1,
        "vocab_size": 4,
    }
    (folder / "config.json").write_text(json.dumps(config))
    vocabulary = {"<eos>": 0, "a": 1, "b": 2, "c": 3}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<eos>"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return str(folder)


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    os.environ["HF_HUB_OFFLINE"] = "1"
    model = tiny_model(Path(sys.argv[1]))
    sys.meta_path.insert(0, Finder())
    real_version = importlib.metadata.version
    importlib.metadata.version = lambda name: (  # type: ignore[assignment]
        Empty.__version__ if name == "vllm" else real_version(name)
    )

    import verl
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    package = Path(verl.__file__).parent
    # What the programs' own hydra.main names.
    configurations = {
        "verl.trainer.main_ppo": ("trainer/config", "ppo_trainer"),
        "verl.experimental.one_step_off_policy.main_ppo": (
            "experimental/one_step_off_policy/config", "one_step_off_ppo_trainer",
        ),
    }  # fmt: skip

    def read(request: dict[str, Any]) -> dict[str, Any]:
        folder, name = configurations[request["program"]]
        with initialize_config_dir(str(package / folder), version_base=None):
            config = compose(name, overrides=request["overrides"])
        if "one_step_off" in name:
            # As its main does before it starts.
            config.actor_rollout_ref.rollout.nnodes = config.rollout.nnodes
            config.actor_rollout_ref.rollout.n_gpus_per_node = config.rollout.n_gpus_per_node
            assert not config.actor_rollout_ref.hybrid_engine
        values = OmegaConf.to_container(config, resolve=False)
        get_adv_estimator_fn(config.algorithm.adv_estimator)
        critic, reference = need_critic(config), need_reference_policy(config)
        if critic:
            config.critic.model.path = model
        config.actor_rollout_ref.model.path = model
        validate_config(config, reference, critic)
        # verl makes these when its workers start, so a bad key would only show there.
        for part in (config.actor_rollout_ref.rollout, config.actor_rollout_ref.model):
            omega_conf_to_dataclass(part)
        return {"values": values, "critic": critic, "reference": reference}

    replies.write("{}\n")
    for line in sys.stdin:
        try:
            reply = read(json.loads(line))
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply, default=str) + "\n")


if __name__ == "__main__":
    main()
