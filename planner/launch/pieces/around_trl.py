"""What every program around TRL's trainer does before and after it."""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
import torch
import trl
from transformers import HfArgumentParser
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.model_config import ModelConfig
from trl.trainer.utils import get_peft_config, get_quantization_config


def started(
    parser: argparse.ArgumentParser, plan: Mapping[str, Any]
) -> tuple[argparse.Namespace, torch.device]:
    """Options that every program has, and this process's device; stops with a sentence if not."""
    parser.add_argument("--dataset", required=True, help="a JSONL file, or a data set of the Hub")
    parser.add_argument("--split", default="train", help="which part of the data set")
    parser.add_argument("--output", default="output", metavar="DIR", help="where the result goes")
    parser.add_argument("--model", default=plan["model_name_or_path"], help="a Hub id or a folder")
    parser.add_argument("--revision", default=None, help="a commit, branch or tag of the model")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    if plan.get("vllm_mode") == "server":
        parser.add_argument("--engine-host", required=True, help="where engine.sh serves")
    parser.add_argument("--anyway", action="store_true", help="go on where the card is too small")
    parser.add_argument("--dry", action="store_true", help="check card and packages, then stop")
    options = parser.parse_args()
    if trl.__version__ != plan["trl_version"]:
        raise SystemExit(
            f"trl: {trl.__version__} is installed; this program reaches into "
            f"{plan['trl_version']}, with which it was tested. pip install -r requirements.txt"
        )
    if options.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("device: there is no CUDA device here; pass --device cpu to run anyway.")
    place = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    return options, torch.device(place if options.device == "cuda" else "cpu")


def rows(options: argparse.Namespace) -> datasets.Dataset:
    """The data set's rows; each has a ``prompt``."""
    if Path(options.dataset).is_file():
        found = datasets.load_dataset("json", data_files=options.dataset, split="train")
    else:
        found = datasets.load_dataset(options.dataset, split=options.split)
    if "prompt" not in found.column_names:
        raise SystemExit(f"dataset: {options.dataset} has no column prompt.")
    return found


def arguments(
    plan: Mapping[str, Any], options: argparse.Namespace
) -> tuple[GRPOConfig, dict[str, Any]]:
    """TRL's settings of the plan, and model, data and adapters for its trainer."""
    names = {field.name for kind in (GRPOConfig, ModelConfig) for field in dataclasses.fields(kind)}
    settings = {name: value for name, value in plan.items() if name in names}
    settings |= {"output_dir": options.output, "model_name_or_path": options.model}
    if plan.get("vllm_mode") == "server":
        settings["vllm_server_host"] = options.engine_host
    if options.device == "cpu":
        settings["use_cpu"] = True
    kinds: Any = (GRPOConfig, ModelConfig)
    training, model = HfArgumentParser(kinds).parse_dict(settings)
    training.model_init_kwargs = {
        "revision": options.revision,
        "attn_implementation": model.attn_implementation,
        "dtype": model.dtype,
        # Weights that are data, and no code that comes with them.
        "use_safetensors": True,
        "trust_remote_code": False,
    }
    return training, {
        "model": options.model,
        "train_dataset": rows(options),
        "quantization_config": get_quantization_config(model),
        "peft_config": get_peft_config(model),
    }


def trained(trainer: Any, options: argparse.Namespace) -> None:
    """Train, and leave the weights in the output folder."""
    trainer.train()
    trainer.save_model(options.output)
    trainer.accelerator.print(f"Done: {options.output}")
