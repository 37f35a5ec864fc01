"""The cards that the driver lists, as PyTorch numbers them."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.trial.ask.cards import Card, cards, visible

TWO = "0, NVIDIA H100 80GB HBM3\n1, NVIDIA L4\n"
H100, L4 = "NVIDIA H100 80GB HBM3", "NVIDIA L4"


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        (None, [H100, L4]),
        ("1", [L4]),
        ("1,0", [L4, H100]),
        ("", []),
        ("-1", []),
        ("0,7,1", [H100]),
        ("GPU-8f1c", []),
    ],
)
def test_hidden_cards_are_not_offered(chosen: str | None, names: list[str]) -> None:
    assert visible(TWO, chosen) == tuple(
        Card(f"cuda:{place}", name) for place, name in enumerate(names)
    )


@pytest.mark.parametrize(("script", "count"), [(f"printf '{TWO}'", 2), ("exit 9", 0)])
def test_the_driver_is_asked(
    script: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    command = tmp_path / "nvidia-smi"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)
    assert len(cards()) == count


def test_a_machine_without_a_driver_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cards() == ()
