"""Runs an exported program around transformers' Trainer on a CPU: ``trainer_program.py PATH …``.

In a process of its own, for accelerate keeps its state in one place. The last line of what it
prints is JSON: most live bytes of each phase of the last step, as :mod:`live_bytes` counts them.
"""

from __future__ import annotations

import json
import runpy
import sys
from typing import Any
from unittest.mock import patch

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from transformers import Trainer

from live_bytes import LiveBytes


def main() -> None:
    program, *argv = sys.argv[1:]
    torch.set_num_threads(1)
    live, peaks = LiveBytes(), dict[str, int]()

    def phase(name: str, inner: Any) -> Any:
        def run(*given: Any, **options: Any) -> Any:
            live.reset_peak()
            result = inner(*given, **options)
            known = 0 if name == "policy forward" and "optimizer step" in peaks else peaks.get(name)
            peaks[name] = max(known or 0, live.peak)
            if name == "policy forward":
                peaks.pop("optimizer step", None)
            return result

        return run

    def trained(trainer: Any, *given: Any, **options: Any) -> Any:
        # Weights come out of their file without an operator.
        for tensor in (*trainer.model.parameters(), *trainer.model.buffers()):
            live.meet(tensor.untyped_storage(), "loaded")
        return train(trainer, *given, **options)

    train, step = Trainer.train, AcceleratedOptimizer.step
    with (
        patch.object(sys, "argv", [program, *argv]),
        patch.object(Trainer, "train", trained),
        patch.object(Trainer, "compute_loss", phase("policy forward", Trainer.compute_loss)),
        patch.object(Accelerator, "backward", phase("policy backward", Accelerator.backward)),
        patch.object(AcceleratedOptimizer, "step", phase("optimizer step", step)),
        torch.backends.mkldnn.flags(enabled=False),
        live,
    ):
        runpy.run_path(program, run_name="__main__")
    print(json.dumps(peaks))


if __name__ == "__main__":
    main()
