"""What TRL's own script of a method is asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One module of ``trl.scripts``, or a program of our own."""

    module: str = ""
    """Of ``trl.scripts``; empty where a program runs."""
    samples: bool
    """Whether it generates the responses that it learns from."""
    packs: bool = True
    """Whether it can pack the rows of a data set."""
    kl: tuple[str, ...] = ("none",)
    """Where its KL term can enter."""
    entropy: bool = False
    """Whether its loss can have an entropy bonus."""
    program: str = ""
    """The template in ``program/`` that runs in place of TRL's script; empty where that does."""
    rewarded: bool = True
    """Whether a reward function or model scores responses."""
    weighted: str = ""
    """The template that draws prompts by density weights; empty where there is none."""
