"""TRL up to 1.14: policies score responses on materialised logits.

The model computes one position more than it scores, ``outputs`` keeps that tensor named through
the whole function, and the scored slice is divided by the temperature even when it is 1. Until
1.13 a Python loop takes one sequence at a time, and an entropy is computed for logging in chunks
of 128 tokens; 1.14 does all of it in one Triton kernel. Source: ``trl/trainer/grpo_trainer.py``,
``utils.py`` and ``kernels/logprob_entropy.py`` of 1.9.0, 1.13.0 and 1.14.0, read 2026-10.
Under its default bf16 mixed precision accelerate hands the logits out in fp32, so these paths
usually run with ``logits_dtype="fp32"``.
"""

from __future__ import annotations

from planner.formulas.activations.tape import Gradients, Storage, Tensor
from planner.formulas.formula import Formula
from planner.formulas.logits import over_vocabulary as op
from planner.formulas.logits.head import Head
from planner.formulas.logits.pieces import INSIDE_LOGSUMEXP, LOGITS_GRADIENT
from planner.formulas.logits.recording import Run, Scored
from planner.numeric import Num

ENTROPY_CHUNK = 128
SOURCE = "trl 1.9.0 to 1.14.0 trl/trainer/grpo_trainer.py and utils.py; read 2026-10"

SCORED = Formula(
    "scored positions over the vocabulary",
    "item_bytes * (tokens - rows) * vocab",
    category="logits",
    source=SOURCE,
    why="The last position of each sequence is left out, because it predicts no scored token.",
)
SEQUENCES = Formula(
    "one sequence over the vocabulary",
    "item_bytes * sequences * ((tokens - rows) // rows) * vocab",
    category="logits",
    source=SOURCE,
    why="TRL's loop scores one sequence at a time.",
)
SEQUENCE_NUMBERS = Formula(
    "per-token numbers of one sequence",
    "copies * item_bytes * sequences * ((tokens - rows) // rows)",
    category="logits",
    source=SOURCE,
    why="The sampled tokens' log-probabilities or log-sum-exps, one sequence at a time.",
)
LOGGED_ENTROPY = Formula(
    "entropy for the log, one chunk",
    "item_bytes * minimum(tokens - rows, entropy_chunk) * vocab",
    category="logits",
    source=SOURCE,
    why="Log-probabilities, probabilities and the product of both, for 128 tokens.",
)
LOGGED = Formula(
    "entropies of earlier chunks",
    "item_bytes * entropy_chunk * maximum((tokens - rows) // entropy_chunk - 1, 0)",
    category="logits",
    source=SOURCE,
    why="One number a token for every chunk of the entropy before the last full one.",
)
SCORED_NUMBERS = Formula(
    "per-token numbers of the scored positions",
    "copies * item_bytes * (tokens - rows)",
    category="logits",
    source=SOURCE,
    why="The sampled tokens' log-probabilities, their log-sum-exps, and what autograd saves for "
    "both.",
)


def sizes(head: Head) -> dict[str, Num]:
    """One sequence, and all others if there are any."""
    others = head.rows - 1
    return {"entropy_chunk": ENTROPY_CHUNK, "one": 1, "others": others, "again": others > 0}


def cut(run: Run) -> Tensor:
    """Logits of the scored positions, a slice of those that the model has made."""
    logits = op.capped(run, "logits before the upcast" * run.head.upcasts)
    run.at("upcast")
    logits = op.upcast(run, logits, run.wide)
    run.named.append(logits.storage)
    return op.unary(run, logits, logits.storage, LOGITS_GRADIENT, at="slices backward")


def loop_scores(run: Run) -> Scored:
    """Log-probabilities, one sequence at a time; an entropy to log."""
    if run.head.entropy:
        raise ValueError(
            "an entropy bonus in trl before 1.14.0 is not modelled; use framework_version 1.14.0 "
            "or later, or set entropy to false"
        )
    label, back = "logits over the temperature", "gradient of the scored slice"
    divided = op.unary(run, cut(run), SCORED, SCORED, label=label, back=back)
    taken = (row_by_row if run.wide == "fp32" else in_log_softmaxes)(run, divided)
    if run.gradient:
        run.at("logged entropy")
        entropies = run.new(LOGGED, run.wide)
        labels = ("log-probabilities", "probabilities", "probabilities times their logs")
        chunk = [run.new(LOGGED_ENTROPY, run.wide, f"a chunk's {label}") for label in labels]
    return Scored(taken)


def kernel_scores(run: Run) -> Scored:
    """One kernel reads the logits once; backward writes the slice's gradient beside them."""
    logits = cut(run)
    run.at("scoring")
    back = [(SCORED, run.wide, "gradient of the scored slice")]
    numbers = run.numbers("fp32", "fp32", "fp32", "fp32", of=SCORED_NUMBERS)
    run.named.extend(numbers)
    saved, at = [logits.storage, *numbers[2:]], "scoring kernel backward"
    taken, entropy = run.function([logits], numbers[:2], back, saved, at)
    return Scored(taken, entropy if run.head.entropy else None)


def row_by_row(run: Run, logits: Tensor) -> Tensor:
    """fp32: the taken logits less a log-sum-exp for each sequence, which saves its logits."""
    back, at = "gradient of picking the taken tokens", "picking's backward"
    selected = op.unary(run, logits, SCORED_NUMBERS, SCORED, back=back, saves="input", at=at)
    sums = [logsumexp(run, row, part) for row, part in unbound(run, logits, "log-sum-exps")]
    run.at("log-sum-exps")
    log_z = stacked(run, sums)
    del sums
    result = run.numbers("fp32", of=SCORED_NUMBERS)
    return run.function([selected, log_z], result, [0, (SCORED_NUMBERS, "fp32")])[0]


def logsumexp(run: Run, logits: Tensor, part: str) -> Tensor:
    """One sequence's; in the backward of the last each of three tensors is a sequence long."""
    names = [f"a sequence's {each}" for each in ("logits, shifted", "exponentials", "gradient")]
    if part == "others":
        names = ["gradients of the other sequences"]
    run.at("inside logsumexp")
    inside = run.new(SEQUENCES, "fp32", INSIDE_LOGSUMEXP.name, "one")
    del inside
    found, at = run.new(SEQUENCE_NUMBERS, "fp32", part=part), "last sequence's backward"
    back = [(SEQUENCES, "fp32", name, part) for name in names]
    return run.function([logits], [found], back, [logits.storage, found], at)[0]


def in_log_softmaxes(run: Run, logits: Tensor) -> Tensor:
    """bf16: each sequence's log-softmax, which saves what it makes; its name outlives a round."""
    taken = []
    for row, part in reversed(unbound(run, logits, "sequences")):
        run.at("a sequence's log-softmax")
        logs = run.new(SEQUENCES, run.wide, "log-probabilities", part if run.gradient else "one")
        taken.append((picked if part == "one" else others_picked)(run, row, logs))
    run.at("stack of the log-probabilities")
    return stacked(run, taken)


def picked(run: Run, row: Tensor, logs: Storage) -> Tensor:
    """The log-softmax of the last sequence and the pick of its tokens, which both save ``logs``."""
    back, part, at = "gradient of a sequence's", "one", "a sequence's backward"
    made = op.unary(
        run, row, logs, SEQUENCES, back=f"{back} logits", part=part, saves="output", at=at
    )
    return op.unary(
        run, made, SEQUENCE_NUMBERS, SEQUENCES, back=f"{back} picks", part=part, saves="input"
    )


def others_picked(run: Run, row: Tensor, logs: Storage) -> Tensor:
    """The same of all others in turn: a gradient comes as its log-probabilities go."""
    saved = [logs] if run.gradient else []

    def backward(_: Gradients) -> Gradients:
        return [run.written_over(saved.pop(), SEQUENCES, "gradients of the other sequences")]

    found = run.new(SEQUENCE_NUMBERS, run.wide, part="others")
    return run.function([row], [found], backward, saved)[0]


def unbound(run: Run, logits: Tensor, of: str) -> list[tuple[Tensor, str]]:
    """One sequence and all others as views, whose gradients are stacked in the end."""
    parts, back = ("one", "others")[: 1 + run.again], [(SCORED, run.wide, f"gradient of the {of}")]
    views = run.function([logits], [logits.storage] * len(parts), back)
    return list(zip(views, parts, strict=True))


def stacked(run: Run, parts: list[Tensor]) -> Tensor:
    """Numbers of all sequences; their gradients are views of one."""
    return run.function(parts, run.numbers(run.wide, of=SCORED_NUMBERS), [0] * len(parts))[0]
