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
        DPOConfig,
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
        "dpo": (ScriptArguments, DPOConfig, ModelConfig, DatasetMixtureConfig),
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

    replies.write("{}\n")
    for line in sys.stdin:
        request = json.loads(line)
        try:
            reply = trl_programs.answer(request) if "kind" in request else read(request)
        except (Exception, SystemExit) as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply, default=str) + "\n")


if __name__ == "__main__":
    main()
