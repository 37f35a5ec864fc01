"""Arguments of a Python script that its own parser hands on: ``GRPOConfig(beta=args.beta)``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from planner.importer.given import Given

DECLARED = re.compile(r"(?:\w+\.)*add_argument\.(\w+)")
"""How a script's reader calls ``parser.add_argument("--beta", default=0.1)``."""
OF_PARSER = re.compile(r"\w+\.(\w+)")
OF_DATACLASSES = re.compile(r"\b\w+_args\.(\w+)|\bget_(?:peft|quantization)_config\(")
"""What a parser of dataclasses gave, and what TRL makes of it."""


def handed_on(
    script: Sequence[Given], told: Iterable[Given], known: Collection[str]
) -> tuple[list[Given], list[Given]]:
    """A script's settings with what its command says of them, and what of the command is left.

    A script that declares its arguments takes their defaults for want of a word. Of one that
    declares none a parser of dataclasses reads the command: what has the name of a setting is
    that setting, and stands there already.

    Args:
        script: arguments by call; an open one may be an attribute of what was parsed.
        told: flags of the command.
        known: names of settings.
    """
    flags = {one.name: one for one in told}
    declared = {each[1]: one for one in script if (each := DECLARED.fullmatch(one.name))}
    taken: set[str] = set()
    found: list[Given] = []
    for one in script:
        if DECLARED.fullmatch(one.name) or (not declared and _repeats(one, known)):
            continue
        name = _parsed(one)
        if name in flags and name in declared:
            taken.add(name)
        elif name in declared and declared[name].value is None and not declared[name].opens:
            continue  # nobody says it: the setting's own default
        source = flags.get(name, declared[name]) if name in declared else one
        found.append(replace(source, name=one.name))
    # What a script takes for itself is no setting, whatever it is called.
    left = (one for one in told if one.name not in taken)
    own = [replace(one, name=f"--{one.name}") if one.name in declared else one for one in left]
    return found, own


def _parsed(one: Given) -> str:
    """The argument that an open value is; empty of anything else."""
    asked = [each.name for each in one.opens if each.default is None]
    found = OF_PARSER.fullmatch(asked[0]) if len(asked) == 1 else None
    return found[1] if found and str(one.value) == asked[0] else ""


def _repeats(one: Given, known: Collection[str]) -> bool:
    """Whether an open value is made of settings that stand there themselves."""
    asked = " ".join(each.name for each in one.opens if each.default is None)
    names = [found[1] for found in OF_DATACLASSES.finditer(asked)]
    return bool(names) and all(name is None or name in known for name in names)
