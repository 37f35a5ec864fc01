"""Operations between hidden states and a loss, as autograd runs them over a whole vocabulary.

What each saves and makes was read in torch 2.13 (tools/autograd/derivatives.yaml,
FunctionsManual.cpp) and counted in real runs. As in :mod:`planner.formulas.activations.operations`
closures hold names, never tensors.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.formulas.activations.tape import Storage, Tensor
from planner.formulas.formula import Formula
from planner.formulas.logits.pieces import (
    ENTROPY_GRADIENT,
    HEAD_GRADIENT,
    HIDDEN_GRADIENT,
    INSIDE_LOGSUMEXP,
    LOG_PROBS,
    LOGITS,
    LOGITS_GRADIENT,
    LOSS_GRADIENT,
    PER_TOKEN,
    PICK_GRADIENT,
    PROBS,
    PROBS_BY_LOGS,
    SQUASHED,
    WIDE_LOGITS,
)
from planner.formulas.logits.recording import Run


def product(run: Run, label: str = "", *, head: str = "head") -> Tensor:
    """The head's product; all three gradients exist before its backward hands any on."""
    inputs, width, own = run.inputs(), run.narrow, f"new gradient of the {head}'s weight"
    back = [(HIDDEN_GRADIENT, width), (HEAD_GRADIENT, width, own)][: len(inputs)]
    run.at("logits")
    return run.function(inputs, [run.new(LOGITS, width, label)], back, at=f"{head} backward")[0]


def unary(
    run: Run,
    x: Tensor,
    makes: Formula | Storage,
    gradient: Formula,
    *,
    width: str = "",
    label: str = "",
    back: str = "",
    part: str = "",
    saves: str = "",
    saved: Sequence[Storage] = (),
    at: str = "",
) -> Tensor:
    """One tensor in, one out; its backward makes a ``gradient`` in the format of ``x``.

    Args:
        run: where it runs.
        x: the operand.
        makes: what the result is; a storage that is there already if it is a view.
        gradient: what the gradient of ``x`` is.
        width: number format of the result, if not that of ``x``.
        label: the result's name, if not its formula's.
        back: the gradient's name, likewise.
        part: of which piece both are.
        saves: ``input`` or ``output`` for the backward.
        saved: what else it saves.
        at: what the backward's moment is called.
    """
    if isinstance(makes, Formula):
        makes = run.new(makes, width or x.width, label, part)
    kept = {"": [], "input": [x.storage], "output": [makes]}[saves]
    return run.function([x], [makes], [(gradient, x.width, back, part)], [*kept, *saved], at)[0]


def capped(run: Run, label: str = "") -> Tensor:
    """The head's product, squashed by ``cap * tanh(logits / cap)`` where the model does that."""
    label = "logits still named" if run.head.logits_held else label
    logits, at = product(run, "" if run.head.softcap else label), "soft cap backward"
    if run.head.softcap:
        logits = unary(run, logits, LOGITS, LOGITS_GRADIENT)
        logits = unary(run, logits, SQUASHED, LOGITS_GRADIENT, saves="output", at=at)
        back = "gradient after cap"
        logits = unary(run, logits, LOGITS, LOSS_GRADIENT, label=label, back=back, at=at)
    run.named.extend([logits.storage] * run.head.logits_held)
    return logits


def divided(run: Run) -> Tensor:
    """Logits as the plain step's losses read them: upcast, and over the temperature.

    Without gradient it puts a soft cap on in place. Autocast's own cast comes later, inside of the
    operator that asks for it, while the logits have their name.
    """
    label = "logits, named" * run.head.autocast_casts
    logits = capped(run, label) if run.gradient else product(run, label)
    if not run.head.autocast_casts:
        logits = upcast(run, logits, run.wide)
    if run.head.temperature_scaled:
        logits = unary(run, logits, WIDE_LOGITS, LOGITS_GRADIENT)
    return logits


def upcast(run: Run, logits: Tensor, width: str) -> Tensor:
    """``logits.to(dtype)``: the same tensor where it is as wide already."""
    if logits.width == width:
        return logits
    return unary(run, logits, WIDE_LOGITS, LOGITS_GRADIENT, width=width)


def log_softmax(run: Run, logits: Tensor) -> Tensor:
    """It saves what it makes."""
    at = "log-softmax backward"
    return unary(run, logits, LOG_PROBS, LOGITS_GRADIENT, saves="output", at=at)


def gather(run: Run, logs: Tensor) -> Tensor:
    """``logs.gather(-1, targets)``; backward is dense, and zero but at the taken tokens."""
    return unary(run, logs, PER_TOKEN, PICK_GRADIENT, saves="input")


def entropy_of(run: Run, logs: Tensor) -> Tensor:
    """``-(logs.exp() * logs).sum(-1)``."""
    width, named, at = logs.width, "entropy gradient", "entropy backward"
    run.at("entropy")
    through = f"{named} through exp"
    probs = unary(run, logs, PROBS, ENTROPY_GRADIENT, back=through, saves="output", at=at)
    towards = [f"{named} towards the {each}" for each in ("probabilities", "logs")]
    back = [(ENTROPY_GRADIENT, width, each) for each in towards]
    made, saved = [run.new(PROBS_BY_LOGS, width)], [probs.storage, logs.storage]
    products = run.function([probs, logs], made, back, saved)
    del probs, made, saved
    summed = run.function(products, run.numbers(width), [0])
    del products
    return unary(run, summed.pop(), PER_TOKEN, PER_TOKEN)


def logsumexp(run: Run, logits: Tensor) -> Tensor:
    """It writes the exponentials out; backward shifts the logits, exponentiates, multiplies."""
    parts, width = ("of logsumexp, shifted", "exp of it", "product"), logits.width
    back = [(ENTROPY_GRADIENT, width, f"entropy gradient {part}") for part in parts]
    inside = run.new(INSIDE_LOGSUMEXP, width)
    del inside
    found = run.numbers(width)
    return run.function([logits], found, back, [logits.storage, *found], "entropy backward")[0]
