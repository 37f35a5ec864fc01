"""The NVIDIA cards of this machine, as its driver lists them. No torch."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

ASKING_SECONDS = 10.0
COMMAND = ("nvidia-smi", "--query-gpu=index,name", "--format=csv,noheader")


@dataclass(frozen=True, slots=True)
class Card:
    """One card: the device that a trial names (``cuda:0``), and the driver's name for it."""

    device: str
    name: str


def cards() -> tuple[Card, ...]:
    """Cards that a trial can run on, in PyTorch's numbering; none where no driver answers.

    ``CUDA_VISIBLE_DEVICES`` hides and renumbers cards as it does for PyTorch; where it names them
    in another way than by number, none is offered, and the command line can still use them.
    """
    try:
        done = subprocess.run(
            COMMAND,
            capture_output=True,
            text=True,
            timeout=ASKING_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return visible(done.stdout, os.environ.get("CUDA_VISIBLE_DEVICES"))


def visible(listed: str, chosen: str | None) -> tuple[Card, ...]:
    """The cards in nvidia-smi's lines that ``CUDA_VISIBLE_DEVICES`` leaves.

    Args:
        listed: a line per card, ``0, NVIDIA H100 80GB HBM3``.
        chosen: the variable's value; None when it is not set.
    """
    pairs = (line.partition(",")[::2] for line in listed.splitlines() if "," in line)
    names = {index.strip(): name.strip() for index, name in pairs}
    order = list(names) if chosen is None else [part.strip() for part in chosen.split(",")]
    found: list[Card] = []
    for index in order:
        if index not in names:  # CUDA too stops at the first that it does not know
            break
        found.append(Card(f"cuda:{len(found)}", names[index]))
    return tuple(found)
