"""A Python script's calls as settings of a trainer's table, and which call takes a further one.

Scripts take options (dataclasses of a parser's, argparse) and hand them on to calls: an option is
the setting that it is handed on as.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from planner.importer.given import Given, Open
from planner.importer.huggingface.sharing import of_trainer
from planner.importer.kinds import TRUE, flat
from planner.importer.python_text import CONSTANT, OPTIONS, OWNERS
from planner.values.setting import Setting

MODEL = "model_name_or_path"
RENAMED = {
    "torch_dtype": "dtype",
    "evaluation_strategy": "eval_strategy",
    "model_init_kwargs.dtype": "dtype",
    "model_init_kwargs.torch_dtype": "dtype",
    "model_init_kwargs.attn_implementation": "attn_implementation",
    "fsdp_transformer_layer_cls_to_wrap": "fsdp_config.transformer_layer_cls_to_wrap",
}
"""Of other releases, or of what a trainer hands on to ``from_pretrained``."""
CALL = re.compile(r"\w*(Config|Arguments|Trainer)|from_pretrained")
"""Calls of a Python script whose arguments are settings."""
ARGUMENTS = ("TrainingArguments", "Seq2SeqTrainingArguments", "ModelConfig", "ScriptArguments")
LOADED = {"0": MODEL, "pretrained_model_name_or_path": MODEL, "dtype": "dtype"} | {
    name: name for name in ("torch_dtype", "attn_implementation")
}
"""Arguments of a model's ``from_pretrained``."""
LANGUAGE = re.compile(r"Model|ForCausalLM")
"""Classes of a model in front of ``from_pretrained``."""
PARSERS = ("HfArgumentParser", "TrlParser")
"""What reads a command into configurations."""
BESIDE = (*PARSERS, "get_peft_model", "load_dataset", "tokenizer")
"""Calls that hand on what others made, or that make no setting but one."""
OF_PARSER = re.compile(r"\b\w+_args\.(\w+)|\bget_(?:peft|quantization)_config\(")
"""What a parser of configurations gave, and what TRL makes of it."""
REFERENCE = re.compile(r"(not )?\w+\.(\w+)")
"""An option by the name of what holds it; a branch may ask for its contrary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """How a trainer's settings are called in a script."""

    arguments: str
    """The class of the trainer's own arguments."""
    adapters: str
    """The setting that says that adapters train."""
    peft: Callable[[str, str], str]
    """The setting of an argument (the second) of ``LoraConfig`` or ``BitsAndBytesConfig``; empty
    where the table has none."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Settings of other releases, besides :data:`RENAMED`."""
    models: Mapping[str, str] = field(default_factory=lambda: {"0": MODEL, "model": MODEL})
    """Arguments of a trainer that name a model where they are a text."""
    loader: frozenset[str] = frozenset()
    """Further arguments of a model's ``from_pretrained`` that are settings by their own names."""
    tokenizer: str = ""
    """The setting that the longest row which a tokenizer leaves is; empty: another one says it."""

    def settings(self, givens: Iterable[Given]) -> Iterator[Given]:
        """Names as the table has them."""
        names = {**RENAMED, **self.renamed}
        for one in flat(givens):
            yield of_trainer(replace(one, name=names[one.name]) if one.name in names else one)


@lru_cache(4096)
def owner_of(name: str) -> tuple[str, str]:
    """The call and the argument of ``trl.GRPOConfig.beta``; of a loader the class as well."""
    parts = name.split(".")
    if "from_pretrained" in parts:
        at = parts.index("from_pretrained")
        return ".".join(parts[max(0, at - 1) : at + 1]), ".".join(parts[at + 1 :])
    calls = (at for at, part in enumerate(parts) if CALL.fullmatch(part) or part in BESIDE)
    at = next(calls, 0)
    return parts[at], ".".join(parts[at + 1 :])


def owners(givens: Iterable[Given]) -> list[str]:
    """Calls that a script's settings are arguments of."""
    return [*dict.fromkeys(owner_of(one.name)[0] for one in givens)]


def of_script(givens: Iterable[Given], spoken: Spoken) -> Iterator[Given]:
    """A Python script's arguments by call, as settings; what is none of a run keeps its name.

    Args:
        givens: named by call and argument, an argument without a name by its position.
        spoken: how the settings are called.
    """
    yield from spoken.settings(_settings([*flat(givens)], spoken))


def _settings(told: Sequence[Given], spoken: Spoken) -> Iterator[Given]:
    exported = any(one.name.startswith(f"{CONSTANT}.") for one in told)
    named = map(owner_of, (one.name for one in told))
    typed = {owner for owner, name in named if name in ("dtype", "torch_dtype")}
    adapters = False
    for one in told:
        owner, name = owner_of(one.name)
        if exported and owner != CONSTANT and one.opens:
            continue  # made of the constants
        if owner == "LoraConfig" and not adapters and not exported:
            adapters, opens = True, _all_rest_on(told, owner)
            if not any(each.name.endswith(f".{spoken.adapters}") for each in opens):
                yield Given(spoken.adapters, True, opens=opens)  # else a flag says it
        if owner == CONSTANT and name.startswith(f"{spoken.adapters}."):
            yield Given(spoken.adapters, True)
        found = _setting(one, spoken)
        if found == MODEL and owner.endswith("from_pretrained") and owner not in typed:
            yield Given("dtype", "auto")  # transformers' own: the checkpoint's
        yield one if found == one.name else replace(one, name=found)


def _setting(one: Given, spoken: Spoken) -> str:
    """The setting that an argument of a call is; its own name where it is none."""
    owner, name = owner_of(one.name)
    if owner in ("LoraConfig", "BitsAndBytesConfig"):
        return spoken.peft(owner, name) or one.name
    if owner.endswith("Trainer"):
        says = isinstance(one.value, str) and _known(one)
        return (spoken.models.get(name) if says else None) or f"trainer.{name}"
    if owner in BESIDE:
        longest = spoken.tokenizer if (owner, name) == ("tokenizer", "max_length") else ""
        return longest or f"trainer.{name}"
    if owner.endswith("from_pretrained"):
        if spoken.tokenizer and name == "model_max_length":
            return name
        model = LANGUAGE.search(owner) and "Sequence" not in owner
        built = any("BitsAndBytesConfig" in each.name for each in one.opens)
        known = LOADED | {each: each for each in spoken.loader}
        return known.get(name, one.name) if model and not built else f"trainer.{name}"
    if owner in (spoken.arguments, *ARGUMENTS):
        return "output_dir" if name == "0" else name
    return name if owner == CONSTANT or OWNERS.fullmatch(owner) else one.name


def _known(one: Given) -> bool:
    return all(each.default is not None for each in one.opens)


def _all_rest_on(givens: Iterable[Given], owner: str) -> tuple[Open, ...]:
    """What a call as a whole rests on: the branch that it stands in."""
    first, *others = [one.opens for one in givens if owner_of(one.name)[0] == owner]
    return tuple(
        one
        for one in first
        if not one.name.startswith("--") and all(one in opens for opens in others)
    )


def by_command(script: Iterable[Given], own: Sequence[Given]) -> Iterator[Given]:
    """A script's values with the options that its command gives, in place of their defaults."""
    said = {one.name: one for one in own}
    for one in script:
        if not one.opens:
            yield one
            continue
        switches = {each: said[name] for each in one.opens if (name := _switch(each)) in said}
        if any(_turns_off(each, word) for each, word in switches.items()):
            continue  # of a branch that does not run
        one = replace(one, opens=tuple(each for each in one.opens if each not in switches))
        asked = [each for each in one.opens if _option(each) in said]
        handed = _handed(one)
        if handed in said:
            yield replace(said[handed], name=one.name)
        elif not asked:
            yield one
        elif len(asked) == 1 and str(one.value) == asked[0].default:
            word = said[_option(asked[0])]
            left = tuple(each for each in one.opens if each is not asked[0])
            yield replace(one, value=word.value, place=word.place, opens=(*left, *word.opens))
        else:
            opens = (replace(each, default=None) if each in asked else each for each in one.opens)
            yield replace(one, opens=tuple(opens))


def said_anew(one: Given, known: Collection[str]) -> bool:
    """Whether an open value is made of settings that the command says by their own names.

    Args:
        one: of a script whose parser fills configurations.
        known: names of settings.
    """
    asked = " ".join(each.name for each in one.opens if each.default is None)
    names = [found[1] for found in OF_PARSER.finditer(asked)]
    return bool(names) and all(name is None or name in known for name in names)


def declared_in(script: Iterable[Given]) -> tuple[list[Given], set[str]]:
    """What a script says, and the options that it declares by itself.

    Of a program that was exported here none: the table has what that takes.
    """
    told = [*script]
    names = {one.name for one in told if one.name.startswith(f"{OPTIONS}.")}
    exported = any(one.name.startswith(f"{CONSTANT}.") for one in told)
    declared = {name.removeprefix(f"{OPTIONS}.") for name in names if not exported}
    return [one for one in told if one.name not in names], declared


def options_of(script: Iterable[Given]) -> set[str]:
    """Names of options that a script takes from its command."""
    told = [*script]
    opens = [each for one in told for each in one.opens]
    return {*map(_option, opens), *map(_switch, opens), *map(_handed, told)} - {""}


def _switch(one: Open) -> str:
    """The option that a branch asks alone: of ``if args.use_lora``; a value's own has a place."""
    found = REFERENCE.fullmatch(one.name) if one.place is None else None
    return found[2] if found else ""


def _turns_off(one: Open, word: Given) -> bool:
    return (str(word.value).lower() in TRUE) is one.name.startswith("not ")


def _option(one: Open) -> str:
    name = one.name.removeprefix("--")
    return "" if name == one.name else name.replace("-", "_")


def _handed(one: Given) -> str:
    """The option that a value alone is, where another file declares it: ``args.rank``."""
    asked = [each.name for each in one.opens if each.default is None and each.place is not None]
    found = REFERENCE.fullmatch(asked[0]) if asked == [one.value] else None
    return found[2] if found and not found[1] else ""


def argument(row: Setting, call: str, spoken: Spoken) -> str:
    """A setting's name as an argument of a call of a script; empty where it does not take it."""
    last = call.rpartition(".")[2]
    if last == CONSTANT:
        return row.name
    if last == "from_pretrained":
        own = "from_pretrained" in row.source and row.name != MODEL
        return row.name if own and LANGUAGE.search(call) else ""
    if last == "LoraConfig":
        short = row.name.removeprefix("lora").lstrip("._")
        names = (name for name in (short, row.name) if spoken.peft(last, name) == row.name)
        return next(names, "")
    own = last in (spoken.arguments, "TrainingArguments") and "." not in row.name
    file = row.source.split(", ")[1:2]
    taken = own and file and file[0].endswith(IN_ARGUMENTS) and "model_config" not in file[0]
    return row.name if taken else ""


IN_ARGUMENTS = ("_args.py", "_config.py", "integrations/liger.py")
"""Ends of source files whose settings a trainer's arguments have."""
