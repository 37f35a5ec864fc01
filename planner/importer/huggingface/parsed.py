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
    told = [*told]
    flags = {one.name: one for one in told}
    declared = {each[1]: one for one in script if (each := DECLARED.fullmatch(one.name))}
    taken: set[str] = set()
    found: list[Given] = []
    for one in script:
        if DECLARED.fullmatch(one.name) or (not declared and _repeats(one, known)):
            continue
        # An expression of arguments is what it is listed as; they are no settings besides.
        taken |= {each[1] for word in one.opens for each in OF_PARSER.finditer(word.name)}
        name, falls_back = _parsed(one)
        if name not in declared:
            found.append(one)
            continue
        source = flags.get(name, declared[name])
        if source.value or source.opens or name in flags:
            found.append(replace(source, name=one.name))
        elif falls_back:
            found.append(one)  # nobody says it, so the setting has its own default otherwise
    # What a script takes for itself is no setting, whatever it is called.
    left = (one for one in told if one.name not in taken & {*declared})
    own = [replace(one, name=f"--{one.name}") if one.name in declared else one for one in left]
    return found, own


def _parsed(one: Given) -> tuple[str, bool]:
    """The argument that a value is, and whether the script has another for want of it."""
    parsed = [each for each in one.opens if OF_PARSER.fullmatch(each.name)]
    if len(parsed) != 1 or len(one.opens) != 1:
        return "", False
    whole, default = parsed[0].name, parsed[0].default
    known = default is not None or str(one.value) == whole
    return whole.rpartition(".")[2] if known else "", default is not None


def _repeats(one: Given, known: Collection[str]) -> bool:
    """Whether an open value is made of settings that stand there themselves."""
    asked = " ".join(each.name for each in one.opens if each.default is None)
    names = [found[1] for found in OF_DATACLASSES.finditer(asked)]
    return bool(names) and all(name is None or name in known for name in names)
