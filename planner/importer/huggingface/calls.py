"""A Python script's calls as settings of a trainer's table, and where a further one can stand.

Scripts take options (``HfArgumentParser``'s dataclasses, argparse) and hand them on to calls: an
option is the setting that it is handed on as.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from planner.importer.given import Given, Open
from planner.importer.huggingface.sharing import of_trainer
from planner.importer.kinds import FALSE, TRUE, flat
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
BESIDE = frozenset(("load_dataset", "get_peft_model", "HfArgumentParser", "TrlParser", "Fire"))
"""Calls that hand on what others made."""
PROGRAM = "PLAN"
"""The constant by which a program that was exported here takes its settings."""
OPTIONS = "options"
"""Before the name of an option of the script, and its default."""
REFERENCE = re.compile(r"(?:\w+\.)+(\w+)")
BRANCHES = ("True", "False")
"""What a condition is where a call stands under it."""
MOST_BASES = 8


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
    renamed: Mapping[str, str]
    """Settings of other releases, besides :data:`RENAMED`."""
    loader: frozenset[str] = frozenset()
    """Further arguments of a model's ``from_pretrained`` that are settings by their own names."""
    tokenizer: str = ""
    """The setting that the longest row which a tokenizer leaves is; empty: another one says it."""

    def settings(self, givens: Iterable[Given]) -> Iterator[Given]:
        """Names as the table has them."""
        names = {**RENAMED, **self.renamed}
        for one in flat(givens):
            yield of_trainer(replace(one, name=names.get(one.name, one.name)))


def owner_of(name: str) -> tuple[str, str]:
    """The call and the argument of ``trl.GRPOConfig.beta``; of a loader the class as well."""
    parts = name.split(".")
    if "from_pretrained" in parts:
        at = parts.index("from_pretrained")
        return ".".join(parts[max(0, at - 1) : at + 1]), ".".join(parts[at + 1 :])
    calls = (at for at, part in enumerate(parts) if CALL.fullmatch(part) or part in BESIDE)
    at = next(calls, 0)
    return parts[at], ".".join(parts[at + 1 :])


def methods_of(givens: Iterable[Given]) -> dict[str, tuple[str, list[str]]]:
    """Classes of the script itself: what each is made of, and the methods that it has."""
    found = {}
    for one in givens:
        if one.name.startswith("class "):
            name, _, base = one.name.removeprefix("class ").rpartition(".")
            found[name] = (base, [*one.value])
    return found


def owners(givens: Iterable[Given]) -> list[str]:
    """Calls that a script makes, each by the class of a library where it is one made of it."""
    told = [*givens]
    classes = methods_of(told)
    names = (one.name for one in told if not one.name.startswith("class "))
    return [*dict.fromkeys(_base(owner_of(name)[0], classes) for name in names)]


def _base(owner: str, classes: Mapping[str, tuple[str, list[str]]]) -> str:
    for _ in range(MOST_BASES):
        if owner not in classes:
            break
        owner = classes[owner][0]
    return owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a Python script says of a trainer's settings."""

    said: tuple[Given, ...]
    """By its calls; what is none of a run keeps its name."""
    options: tuple[Given, ...]
    """What its command line takes, by the script's own names, with its defaults."""
    handed: Mapping[str, str]
    """Settings that options become, by the option's name."""
    parameters: bool
    """Whether its command line is a function's parameters."""

    def defaults(self, spoken: Spoken, known: Collection[str]) -> Iterator[Given]:
        """Settings for want of a flag; one that the script does not declare is asked for."""
        declared = {one.name for one in self.options}
        for option, name in self.handed.items():
            if option not in declared and option != name:
                yield Given(name, option, opens=(Open(option),))
        told = [one for one in self.options if one.value is not None]
        renamed = [replace(one, name=self.handed.get(one.name, one.name)) for one in told]
        yield from (one for one in spoken.settings(renamed) if one.name in known)

    @property
    def used(self) -> frozenset[str]:
        """Options that are a function's parameters and go into its calls."""
        opens = (each for one in self.said for each in one.opens)
        return frozenset(each.name for each in opens if self.parameters)

    def under(self, flags: Mapping[str, Given]) -> Iterator[Given]:
        """What its calls say where these flags are given.

        A condition on an option holds or not, and a parameter has its flag's value; what is
        calculated of one is asked for.
        """
        truths = {one.name: str(one.value) for one in self.options}
        truths |= {name: str(one.value) for name, one in flags.items()}
        for one in self.said:
            found = [(each, _held(each, truths)) for each in one.opens]
            if any(holds is False for _, holds in found):
                continue
            opens = tuple(each for each, holds in found if holds is None)
            changed = [each for each in opens if self.parameters and each.name in flags]
            if len(opens) == 1 and changed and str(one.value) == opens[0].default:
                flag = flags[opens[0].name]
                yield replace(flag, name=one.name)
            else:
                asked = (replace(each, default=None) if each in changed else each for each in opens)
                yield replace(one, opens=tuple(asked))


def _held(one: Open, truths: Mapping[str, str]) -> bool | None:
    """Whether a condition on an option is as a call needs it; None: nobody knows."""
    name = one.name.removeprefix("not ")
    option = REFERENCE.fullmatch(name)
    said = truths.get(option[1], "").lower() if option and one.place is None else ""
    if one.default not in BRANCHES or said not in (*TRUE, *FALSE, "none"):
        return None
    holds = (said in TRUE) == (name == one.name)  # the other way round behind a ``not``
    return holds == (one.default == "True")


def of_script(givens: Iterable[Given], spoken: Spoken, known: Collection[str]) -> Script:
    """A Python script's arguments by call, as settings.

    Args:
        givens: named by call and argument, an argument without a name by its position.
        spoken: how settings are called.
        known: names of settings.
    """
    told = [*flat(givens)]
    classes, names = methods_of(told), {one.name for one in told}
    exported = any(name.startswith(f"{PROGRAM}.") for name in names)
    said: list[Given] = []
    options: list[Given] = []
    handed: dict[str, str] = {}
    for one in told:
        if one.name.startswith(f"{OPTIONS}."):
            options.append(replace(one, name=one.name.removeprefix(f"{OPTIONS}.")))
        elif not one.name.startswith("class "):
            for each in spoken.settings(_settings(one, names, classes, spoken, exported)):
                asked = any(open_.default is None for open_ in each.opens)
                option = REFERENCE.fullmatch(str(each.value)) if asked else None
                if option and each.name in known:
                    handed[option[1]] = each.name
                elif not (asked and exported):
                    said.append(each)
    parameters = any(owner_of(name)[0] == "Fire" for name in names)
    return Script(
        said=tuple(said), options=tuple(options), handed=handed, parameters=parameters
    )


def _settings(
    one: Given,
    names: set[str],
    classes: Mapping[str, tuple[str, list[str]]],
    spoken: Spoken,
    exported: bool,
) -> Iterator[Given]:
    """An argument of a call as a setting, with what the call alone says."""
    call, name = owner_of(one.name)
    owner, found = _base(call, classes), one.name
    if owner in ("LoraConfig", "BitsAndBytesConfig"):
        if owner == "LoraConfig" and not exported:
            yield Given(spoken.adapters, True, opens=_rests(one))
        found = spoken.peft(owner, name) or found
    elif owner == PROGRAM:
        if name.startswith(f"{spoken.adapters}."):
            yield Given(spoken.adapters, True)
        found = name
    elif owner.endswith("Trainer"):
        found = MODEL if name in ("0", "model") and not one.opens else f"trainer.{name}"
    elif owner == "tokenizer" and name == "max_length" and spoken.tokenizer:
        found = spoken.tokenizer
    elif owner in BESIDE or owner == "tokenizer":
        found = f"trainer.{name}"
    elif owner.endswith("from_pretrained"):
        model = LANGUAGE.search(owner) and "Sequence" not in owner
        found = LOADED.get(name, name if name in spoken.loader else found)
        found = found if model and name != "config" else f"trainer.{name}"
        if spoken.tokenizer and not model and name == "model_max_length":
            found = name
        beginning = one.name.removesuffix(name)
        said = {f"{beginning}dtype", f"{beginning}torch_dtype"} & names
        if found == MODEL and not said:
            yield Given("dtype", "auto")  # transformers' own: the checkpoint's
    elif owner in (spoken.arguments, *ARGUMENTS):
        found = "output_dir" if name == "0" else name
    yield replace(one, name=found)


def _rests(one: Given) -> tuple[Open, ...]:
    """The conditions that a call stands under, not what its argument is put together of."""
    return tuple(each for each in one.opens if each.place is None and each.default in BRANCHES)


def argument(row: Setting, call: str, spoken: Spoken) -> str:
    """A setting's name as an argument of a call of a script; empty where it does not take it."""
    last = call.rpartition(".")[2]
    if last == PROGRAM:
        return "" if "." in row.name else row.name
    if last == "from_pretrained":
        own = "from_pretrained" in row.source and row.name != MODEL
        return row.name if own and LANGUAGE.search(call) else ""
    if last == "LoraConfig":
        short = row.name.removeprefix("lora").lstrip("._")
        names = (name for name in (short, row.name) if spoken.peft(last, name) == row.name)
        return next(names, "")
    own = last in (spoken.arguments, "TrainingArguments") and "." not in row.name
    elsewhere = ("from_pretrained", "model_config.py", "peft")
    return row.name if own and not any(one in row.source for one in elsewhere) else ""
