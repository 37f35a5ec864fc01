"""``python -m planner lengths``: how long responses are, as the text that a link carries."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from math import isfinite
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from planner.cli.answer import may_be_json
from planner.imports import kept_for_good
from planner.lengths.counted import Tokenizer, counted
from planner.lengths.shape import MOST_TOKENS, Shape, grouped, lognormal, uniform
from planner.lengths.text import to_text
from planner.lengths.typical import SOURCE, logged, typical
from planner.plan.lengths import lengths_of

GIVEN = ("mean", "spread", "cut", "cap", "low", "high", "typical")


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument(
        "file",
        nargs="?",
        help="token counts: one a line, CSV (length, count) or JSON lines; - reads them from stdin",
    )
    parser.add_argument(
        "--tokenizer",
        metavar="FOLDER",
        help="counts the tokens of JSON lines that hold texts: a folder, or a tokenizer.json",
    )
    numbers = {
        "mean": "tokens of a response on average",
        "spread": "standard deviation in tokens: a lognormal with this mean before any cap",
        "cut": "share that the cap cuts (clip_ratio): a lognormal that has this and, cut, the mean",
        "cap": "tokens at which those were cut",
        "low": "shortest of lengths that are all as frequent",
        "high": "longest of them",
        "typical": "the offered shape, under this cap",
    }
    for name in GIVEN:
        kind = float if name in ("mean", "cut") else int
        parser.add_argument(f"--{name}", type=kind, help=numbers[name])
    may_be_json(parser, "text, mean, longest and bins as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Prints the text; what it says in words goes to stderr. 0."""
    shape, told = _shape(arguments)
    text = to_text(shape)
    uncut: Any = SimpleNamespace(length_distribution=text, response_tokens=MOST_TOKENS)
    whole = lengths_of(uncut)
    if arguments.json:
        bins = [{"tokens": int(one.tokens), "share": float(one.share)} for one in whole.bins]
        longest = None if shape.longest == MOST_TOKENS else shape.longest
        numbers = {"mean_tokens": float(whole.mean), "longest_tokens": longest}
        print(json.dumps({"text": text, "told": told, **numbers, "bins": bins}, indent=2))
        return 0
    print(f"{told}; {whole.mean:,.0f} tokens on average before any cap.", file=sys.stderr)
    print(text)
    return 0


def _shape(arguments: argparse.Namespace) -> tuple[Shape, str]:
    """The distribution that was asked for, and what it is."""
    asked = {name for name in GIVEN if getattr(arguments, name) is not None}
    if arguments.file is not None:
        if asked:
            raise ValueError("lengths: give a file, or numbers, not both.")
        return _of_file(arguments.file, arguments.tokenizer)
    try:
        match sorted(asked):
            case ["mean", "spread"]:
                if not isfinite(arguments.mean):
                    raise ValueError(f"has a mean of {arguments.mean:g} tokens")
                return lognormal(round(arguments.mean), arguments.spread), "Lognormal"
            case ["cap", "cut", "mean"]:
                shape = logged(arguments.mean, arguments.cut, arguments.cap)
                return shape, f"Lognormal of which {arguments.cap:,} tokens cut {arguments.cut:.1%}"
            case ["high", "low"]:
                return uniform(arguments.low, arguments.high), "All lengths as frequent"
            case ["typical"]:
                return typical(arguments.typical), f"Offered shape ({SOURCE})"
    except ValueError as error:
        raise ValueError(f"lengths: it {error}.") from None
    raise ValueError(
        "lengths: give a file of token counts, or --mean with --spread, or --mean with --cut and "
        "--cap, or --low with --high, or --typical."
    )


def _of_file(name: str, tokenizer: str | None) -> tuple[Shape, str]:
    counter = None if tokenizer is None else _tokenizer(tokenizer)
    if name == "-":
        found = counted(sys.stdin, counter)
    else:
        with Path(name).open(encoding="utf-8-sig", errors="replace") as lines:
            found = counted(lines, counter)
    return grouped(found), _counted(found)


def _counted(found: Counter[int]) -> str:
    whole = sum(found.values())
    return f"Counted: {whole:,} responses of {min(found):,} to {max(found):,} tokens"


def _tokenizer(folder: str) -> Tokenizer:
    if Path(folder).is_file():
        from planner.lengths.run.tokenizer_file import tokenizer_of_file

        return tokenizer_of_file(Path(folder).read_bytes())
    with kept_for_good():
        from planner.lengths.run.tokens import tokenizer_of
    return tokenizer_of(folder)
