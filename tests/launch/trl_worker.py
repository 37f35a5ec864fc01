"""Runs in a process of its own: TRL's and accelerate's parsers, one JSON line per request.

A request is ``{"arguments": [...], "folder": ..., "processes": n, "method": ...}`` with the
arguments that launch.sh gave to TRL's script; the reply is ``{"error"}`` or the values. One with
a ``kind`` is :mod:`trl_programs`'.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch


def main() -> None:
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # libraries print; only replies may reach the pipe

    from accelerate.commands import launch
    from trl import (
        DatasetMixtureConfig,
        GRPOConfig,
        ModelConfig,
        RLOOConfig,
        ScriptArguments,
        SFTConfig,
    )
    from trl.scripts.grpo import GRPOScriptArguments
    from trl.scripts.rloo import RLOOScriptArguments
    from trl.scripts.utils import TrlParser

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from launch import trl_programs

    shapes: dict[str, tuple[Any, ...]] = {
        "intuitor": (GRPOScriptArguments, GRPOConfig, ModelConfig),
        "grpo": (GRPOScriptArguments, GRPOConfig, ModelConfig, DatasetMixtureConfig),
        "rloo": (RLOOScriptArguments, RLOOConfig, ModelConfig, DatasetMixtureConfig),
        "sft": (ScriptArguments, SFTConfig, ModelConfig, DatasetMixtureConfig),
    }

    def parse(request: dict[str, Any], kinds: tuple[Any, ...]) -> tuple[Any, ...]:
        if request["program"]:
            return trl_programs.parsed(request)
        # There is no GPU here, and without one TRL refuses bf16 unless told so.
        arguments = [*request["arguments"], "--use_cpu", "True"]
        found = TrlParser(kinds).parse_args_and_config(arguments, fail_with_unknown_args=True)
        return tuple(found)

    def read(request: dict[str, Any]) -> dict[str, Any]:
        os.chdir(request["folder"])
        kinds = shapes[request["method"]]
        # The batch arithmetic is checked for as many processes as the script starts.
        processes = property(lambda self: request["processes"])
        with patch.object(kinds[1], "world_size", processes):
            parsed = parse(request, kinds)
        values: dict[str, Any] = {}
        for part in parsed:
            values |= {name: getattr(part, name) for name in part.__dataclass_fields__}
        return {"values": values, "accelerate": read_accelerate(request)}

    def read_accelerate(request: dict[str, Any]) -> dict[str, Any]:
        parser = launch.launch_command_parser()
        known = set(vars(parser.parse_args(["script"])))
        given = ["--config_file", "accelerate.yaml", *request["launcher"], "script"]
        arguments, defaults, _ = launch._validate_launch_command(parser.parse_args(given))
        for section in ("fsdp_config", "parallelism_config", "dynamo_config", "deepspeed_config"):
            for key in getattr(defaults, section) or {}:
                if key not in known:
                    raise ValueError(f"{section}.{key} is not an option of accelerate launch")
        return vars(arguments)

    def names() -> dict[str, Any]:
        """What each script's classes take and what they take for want of a word; accelerate's."""
        import dataclasses

        from accelerate.commands.config.config_args import ClusterConfig
        from transformers import TrainingArguments
        from trl import DPOConfig
        from trl.scripts.grpo import GRPOScriptArguments

        def fields(*kinds: Any) -> dict[str, Any]:
            found = {}
            for one in (one for kind in kinds for one in dataclasses.fields(kind)):
                made = one.default_factory
                found[one.name] = one.default if made is dataclasses.MISSING else made()
            return found

        parser = launch.launch_command_parser()
        scripts = {**shapes, "dpo": (ScriptArguments, DPOConfig, ModelConfig, DatasetMixtureConfig)}
        del scripts["intuitor"]
        assert shapes["grpo"][0] is GRPOScriptArguments
        return {
            "trainer": fields(TrainingArguments),
            "scripts": {name: fields(*kinds) for name, kinds in scripts.items()},
            "flags": {one.dest: one.default for one in parser._actions},
            "file": fields(ClusterConfig),
        }

    def filled_in(request: dict[str, Any]) -> dict[str, Any]:
        """What transformers makes of ``auto`` in a DeepSpeed file, without DeepSpeed."""
        from accelerate.utils.deepspeed import HfDeepSpeedConfig
        from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

        whole = type("Whole", (HfTrainerDeepSpeedConfig, HfDeepSpeedConfig), {})
        config = whole.__new__(whole)
        HfDeepSpeedConfig.__init__(config, request["config"])
        config._dtype, config.mismatches = None, []
        with patch.object(SFTConfig, "world_size", property(lambda self: request["processes"])):
            arguments = SFTConfig(use_cpu=True, **request["arguments"])
            config.trainer_config_process(arguments)
        return {"config": config.config, "mismatches": config.mismatches}

    def answered(request: dict[str, Any]) -> dict[str, Any]:
        if request.get("kind") == "names":
            return names()
        if request.get("kind") == "deepspeed":
            return filled_in(request)
        return trl_programs.answer(request) if "kind" in request else read(request)

    replies.write("{}\n")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = answered(request)
        except (Exception, SystemExit) as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply, default=str) + "\n")


if __name__ == "__main__":
    main()
