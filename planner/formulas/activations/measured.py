"""The same terms for architectures without a derived sum, from dry-run coefficients.

What a layer keeps and needs is a polynomial in rows and tokens, measured setting by setting
(:mod:`planner.catalog.measured`). Where several instants can be the highest, each has its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from planner.catalog import measured
from planner.catalog.architecture import Architecture
from planner.formulas import polynomial
from planner.formulas.activations.kinds import Kind
from planner.formulas.activations.measured_lookup import setting_of, without_autocast
from planner.formulas.activations.terms import terms_of
from planner.formulas.activations.workload import Workload
from planner.formulas.formula import Formula
from planner.formulas.length_law import CHUNK, STEP, WINDOW, law_of
from planner.formulas.polynomial import Polynomial, value
from planner.numeric import Num, some
from planner.term import Term

MEASURED = Formula(
    "measured activations",
    "copies * (per_token * sequences * tokens + per_pair * sequences * tokens * tokens"
    " + per_square * tokens * tokens + per_row * sequences + per_length * tokens + constant)",
    category="activations",
    source="dry-run coefficients; versions in planner/catalog/coefficients.json",
    why="Nobody derived this architecture's formulas, so its bytes are solved from dry runs at six "
    "sizes.",
    ignores="kernels of other cards than the measured one",
)
SECOND = {CHUNK: "of whole chunks", STEP: "of whole chunks", WINDOW: "within the window"}
"""Of which tokens a term is whose layers have another length beside those of a row."""
FACTORS = ("per_token", "per_pair", "per_square", "per_row", "per_length", "constant")

KINDS = "0123456789abcdefghijklmnopqrstuvwxyz"
"""How kinds of layers are written, a character each."""
SAVED = "layers' saved activations"


def kinds_of(arch: Architecture) -> str:
    """The kind of each layer, as digits."""
    return str(measured.entry(arch.measured)["layers"])


def layer_saved(
    arch: Architecture,
    workload: Workload,
    *,
    role: str,
    layers: Num,
    sparse: int | None,
    recomputed: bool,
) -> tuple[Term, ...]:
    """What ``layers`` layers of a kind keep; ``sparse`` is the second of two kinds."""
    kind = _kind(arch, workload, sparse)
    if not kind["input_kept"]:
        return _terms(kind["kept"], arch, workload, role, SAVED, layers)
    per_token, *others = kind["kept"]
    apart = per_token - arch.hidden * _hidden_bytes(workload)
    terms = [*_terms((apart, *others), arch, workload, role, SAVED, layers)]
    if not recomputed:
        terms.append(_hidden(arch, workload, role, "layer input", layers))
    return tuple(terms)


def layer_forward_transient(
    arch: Architecture, workload: Workload, *, role: str, sparse: int | None
) -> tuple[Term, ...]:
    """The peak of one layer's forward beyond what it keeps."""
    found = setting_of(arch, workload)["kinds"]
    if sparse is None and workload.trains == "none":
        instants = [instant for kind in found for instant in kind["forward"]]
    else:
        instants = _kind(arch, workload, sparse)["forward"]
    terms = [*_highest(instants, arch, workload, role, "passing in a layer's forward")]
    if workload.trains != "none":
        terms += _named(arch, workload, role)
    return tuple(terms)


def layer_backward_transient(
    arch: Architecture, workload: Workload, *, role: str, sparse: int | None, recomputed: bool
) -> tuple[Term, ...]:
    """The peak of one layer's backward beyond what it had kept.

    A layer that is ``recomputed`` first runs forward once more, while the gradient of its output
    waits; what a forward held by name is gone by then. Each instant has the gradients of the
    layer's weights that are made by then; where they are added to earlier ones, only the one that
    is not added yet.
    """
    kind = _kind(arch, workload, sparse)
    again = []
    if recomputed:
        waits = 0 if setting_of(arch, workload)["held"] else arch.hidden * _hidden_bytes(workload)
        again = [(per_token + waits, *others) for per_token, *others in kind["again"]]
    added = 1 if workload.accumulates is None else workload.accumulates
    return tuple(
        term
        for gradients, share in (("made", 1 - added), ("backward", added))
        if some(share)
        for term in _highest(
            [*kind[gradients], *again],
            arch,
            workload,
            role,
            "passing in a layer's backward",
            share,
        )
    )


def model_saved(arch: Architecture, workload: Workload, *, role: str) -> tuple[Term, ...]:
    """What stands outside the layers, by the names that hand-derived terms have."""
    found = setting_of(arch, workload)
    if workload.trains == "none":
        return (
            *_terms(found["before"], arch, workload, role, "beside the layers"),
            _hidden(arch, workload, role, "hidden states"),
            *_named(arch, workload, role),
        )
    standing = (
        *_terms(found["standing"], arch, workload, role, "beside the layers"),
        *_terms(found["after"], arch, workload, role, "final norm"),
    )
    if workload.trains == "lora":  # nothing is multiplied for a gradient of embeddings or head
        return standing
    ids: Polynomial = (8, 0, 0, 0, 0, 0)
    casts = workload.precision == "autocast-bf16"
    return (
        *_terms(ids, arch, workload, role, "token ids"),
        *standing,
        _hidden(arch, workload, role, "input of the language-model head", narrow=True)
        if casts
        else _hidden(arch, workload, role, "final norm output"),
    )


def checkpointed_saved(
    arch: Architecture, workload: Workload, *, role: str, layers: Num
) -> tuple[Term, ...]:
    """Layer inputs, and what every checkpoint refers to."""
    found = setting_of(arch, workload)
    shared = tuple(a - b for a, b in zip(found["before"], found["standing"], strict=True))
    terms = [
        _hidden(arch, workload, role, "checkpointed layer inputs", layers),
        *_terms(shared, arch, workload, role, "beside the layers, held by checkpoints"),
    ]
    return (*terms, *_named(arch, workload, role))


def final_norm_backward(arch: Architecture, workload: Workload, *, role: str) -> tuple[Term, ...]:
    """All that stands after the layers at the peak of its backward."""
    if workload.trains == "none":
        return ()
    instants = setting_of(arch, workload)["norm"]
    return _highest(instants, arch, workload, role, "final norm's backward")


def _named(arch: Architecture, workload: Workload, role: str) -> tuple[Term, ...]:
    """Less the embeddings that a forward holds by name, which callers count themselves."""
    if not setting_of(arch, workload)["held"]:
        return ()
    return (_hidden(arch, workload, role, "embeddings, counted apart", -1),)


def embeddings_leaf(arch: Architecture, workload: Workload, *, role: str, name: str) -> Term:
    """The embeddings that adapters' gradients end at."""
    return _hidden(arch, workload, role, name)


def autocast_copies_elements(arch: Architecture) -> int:
    """Elements that autocast copies in all layers.

    Raises:
        ValueError: naming ``master_dtype`` where no dry run measured autocast.
    """
    settings = measured.entry(arch.measured)["settings"]
    names = [name for name in settings if name.endswith("/autocast-bf16/none")]
    if not names:
        raise without_autocast(arch)
    found = settings[names[0]]
    kinds = kinds_of(arch)
    total = sum(kinds.count(KINDS[at]) * kind["kept"][-1] for at, kind in enumerate(found["kinds"]))
    return int(total) // 2


def _kind(arch: Architecture, workload: Workload, sparse: int | None) -> Mapping[str, Any]:
    """One kind's coefficients; without a word the kind that keeps more of a long row."""
    found = setting_of(arch, workload)
    kinds: Sequence[Mapping[str, Any]] = found["kinds"]
    if sparse is not None and len(kinds) > 1:
        return kinds[int(sparse)]
    long = 4096, law_of(found).second(4096)
    return max(kinds, key=lambda kind: value(kind["kept"], 1, *long))


def _highest(
    instants: Sequence[Polynomial],
    arch: Architecture,
    workload: Workload,
    role: str,
    name: str,
    copies: Num = 1,
) -> tuple[Term, ...]:
    """The highest instant's bytes; for a sweep, each point has its own highest instant."""
    law = law_of(setting_of(arch, workload))
    sizes = workload.sequences, workload.tokens, law.second(workload.tokens)
    heights = [value(instant, *sizes) for instant in instants]
    if not any(isinstance(height, np.ndarray) for height in heights):
        best = max(range(len(instants)), key=lambda at: heights[at])
        return _terms(instants[best], arch, workload, role, name, copies)
    winner = np.argmax(np.stack(np.broadcast_arrays(*heights)), axis=0)
    factors = tuple(np.asarray(column)[winner] for column in zip(*instants, strict=True))
    return _terms(factors, arch, workload, role, name, copies)


def _terms(
    factors: Sequence[Num],
    arch: Architecture,
    workload: Workload,
    role: str,
    name: str,
    copies: Num = 1,
) -> tuple[Term, ...]:
    """Its bytes by the tokens and, where layers have another length, by that."""
    tokens = workload.tokens
    found = [_term(factors[: polynomial.FACTORS], workload, tokens, role, name, copies)]
    if len(factors) > polynomial.FACTORS:
        law, rest = law_of(setting_of(arch, workload)), factors[polynomial.FACTORS :]
        label, second = f"{name}, {SECOND[law.form]}", law.second(tokens)
        found.append(_term(rest, workload, second, role, label, copies))
    return tuple(term._replace(source=measured.source(arch.measured)) for term in found)


def _term(
    factors: Sequence[Num],
    workload: Workload,
    tokens: Num,
    role: str,
    name: str,
    copies: Num,
) -> Term:
    return MEASURED(
        role,
        label=name,
        tensors=copies,
        copies=copies,
        sequences=workload.sequences,
        tokens=tokens,
        **dict(zip(FACTORS, factors, strict=True)),
    )


def _wide(workload: Workload) -> bool:
    """Whether hidden states between layers are in fp32."""
    return workload.precision in ("fp32", "autocast-bf16")


def _hidden_bytes(workload: Workload) -> int:
    """Of one value of the hidden states between layers."""
    return 4 if _wide(workload) else workload.value_bytes


def _hidden(
    arch: Architecture,
    workload: Workload,
    role: str,
    name: str,
    copies: Num = 1,
    *,
    narrow: bool = False,
) -> Term:
    width = "fp32" if _wide(workload) and not narrow else "value"
    return terms_of({(Kind("hidden", width), name): copies}, arch, workload, role)[0]
