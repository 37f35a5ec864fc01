"""Each of the small seams around verl's own engines, taken away: what breaks, or what is counted.

The large ones are taken away in ``test_verl_step.py``.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch

from accuracy.verl_cases import CASES, Case
from accuracy.verl_runs import dry_peaks
from planner.frameworks.verl.run import kernels, seams

torch.set_num_threads(1)

SIZES = {"prompt_tokens": 8, "response_tokens": 8}
SMALL = Case("small", "grpo", SIZES, CASES[0].config)
REFERENCE = Case("KL", "grpo", {**SIZES, "kl": "loss"}, SMALL.config)


def _without(seam: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What verl has of this name stays its own."""
    found = []

    def replaced(target: Any, name: str, *given: Any, **named: Any) -> Any:
        found.append(name)
        return nullcontext() if name == seam else patch.object(target, name, *given, **named)

    monkeypatch.setattr(seams, "patch", SimpleNamespace(object=replaced))
    with seams.seams(SMALL.plan, _stage(), "cpu", "gpu"):
        assert seam in found


def _stage() -> Any:
    return SimpleNamespace(tracker=None)


@pytest.mark.parametrize(("seam", "case", "said"), [
    # Ranks would load what rank 0 broadcasts, tensor by tensor, into what was made already.
    ("fsdp2_load_full_state_dict", SMALL, "must match the size of tensor"),
    # A frozen reference waits in host RAM, which nothing without a driver pins.
    ("CPUOffloadPolicy", REFERENCE, "_pin_memory"),
    ("is_trl_available", SMALL, "AutoModelForCausalLMWithValueHead"),
    ("cross_entropy_loss", SMALL, "cross_entropy_loss"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_verl_does_not_run_without_a_seam(
    seam: str, case: Case, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without(seam, monkeypatch)
    with pytest.raises((RuntimeError, AssertionError, ImportError, NameError), match=said):
        dry_peaks(case)


def test_the_ids_of_ranks_are_no_memory_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mesh is made of real numbers; of numbers without data it would be counted."""
    case = Case("mesh", "grpo", {**SIZES, "gpus": 8, "prompts_per_step": 8}, SMALL.config)
    known = dry_peaks(case)
    _without("create_device_mesh", monkeypatch)
    assert dry_peaks(case) == {phase: peak + 8 * 4 for phase, peak in known.items()}


def test_flash_attns_cross_entropy_meets_the_logits_of_a_gpus_head(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With it verl writes over the logits in the backward, and its loop over rows never runs."""
    seen: set[tuple[int, ...]] = set()

    def watched(logits: torch.Tensor, *given: Any, **named: Any) -> Any:
        seen.add(tuple(logits.shape))
        return kernels.cross_entropy_loss(logits, *given, **named)

    monkeypatch.setattr(seams, "CROSS_ENTROPY", watched)
    dry_peaks(SMALL, "gpu")
    vocabulary = SMALL.config["vocab_size"]
    assert {shape[-1] for shape in seen} == {vocabulary} and len({len(one) for one in seen}) == 1
    seen.clear()
    dry_peaks(SMALL, "cpu")
    assert not seen
