"""Chunks of tokens (512, unless told), recomputed in the backward: verl's fused kernels in torch.

Source: ``verl/utils/experimental/torch_functional.py`` of verl 0.9.1, read 2026-10; the plain
step's ``chunked`` path follows it. One chunk's logits exist at a time, but Python names keep the
previous chunk's results until the next ones replace them, so the second chunk is the dearest.
The weight's gradient is a product of every chunk, which verl makes even for a frozen head.
"""

from __future__ import annotations

from planner.formulas.activations.tape import Gradients, Storage
from planner.formulas.formula import Formula
from planner.formulas.logits.head import Head
from planner.formulas.logits.pieces import HEAD_GRADIENT, HIDDEN_GRADIENT
from planner.formulas.logits.recording import Run, Scored
from planner.numeric import Num, maximum, minimum

TOKEN_CHUNK = 512
CHUNKS = ("first chunk", "second chunk")
"""Rounds of a loop over all tokens; the second stands for all later ones."""

CHUNK = Formula(
    "one chunk over the vocabulary",
    "item_bytes * chunk_tokens * vocab",
    category="logits",
    source="verl 0.9.1 verl/utils/experimental/torch_functional.py; read 2026-10",
    why="One tensor of a chunk's tokens by the whole vocabulary, in fp32 except the logits' "
    "gradient.",
)
CHUNK_HIDDEN = Formula(
    "one chunk's hidden gradient",
    "item_bytes * chunk_tokens * hidden",
    category="logits",
    source="verl 0.9.1 verl/utils/experimental/torch_functional.py; read 2026-10",
    why="A chunk's hidden-state gradient is added to the whole gradient once the chunk is done.",
)
CHUNK_NUMBERS = Formula(
    "one chunk's per-token numbers",
    "copies * item_bytes * chunk_tokens",
    category="logits",
    source="verl 0.9.1 verl/utils/experimental/torch_functional.py; read 2026-10",
    why="Log-probabilities and entropies of a chunk before they are copied out.",
)
COMPILED = Formula(
    "one chunk over the vocabulary, compiled",
    "item_bytes * chunk_tokens * vocab",
    category="logits",
    source="buffers of Inductor (torch 2.13, its CPU backend) for this project's chunk, counted "
    "2026-11: 6 bytes an element forward (10 with a soft cap), 4 backward (8; 2 more with an "
    "entropy)",
    why="The forward has the head's output in half precision and one fp32 tensor for several "
    "reductions; the backward has the head's output and its gradient, both in half precision.",
    ignores="that a GPU's backend may fuse more",
)


def sizes(head: Head) -> dict[str, Num]:
    """Tokens of the first and of the second chunk, which stands for all later ones."""
    rows = TOKEN_CHUNK if head.chunk_tokens is None else head.chunk_tokens
    second = minimum(maximum(head.tokens - rows, 0), rows)
    return {
        "first chunk": minimum(head.tokens, rows), "second chunk": second, "again": second > 0
    }


def scores(run: Run, *, every: bool = False) -> Scored:
    """Log-probabilities and entropies, chunk by chunk; entropies come whether asked for or not.

    ``every`` says that the backward makes the weight's gradient of a frozen head, too.
    """
    results = run.numbers("fp32", run.narrow)
    for chunk in CHUNKS[: 1 + run.again]:
        scored = score_chunk(run, chunk)
    taken, entropy = run.function(run.inputs(), results, lambda _: backward(run, every))
    run.named.append(entropy.storage)
    return Scored(taken, entropy if run.head.entropy else None)


def score_chunk(run: Run, chunk: str) -> list[Storage]:
    """Log-probabilities and entropies of one chunk, which are cast."""
    run.at(chunk)
    if run.head.chunk_compile:
        logits = compiled(run, chunk, "half", "fp32", softcap="fp32")
    else:
        logits = over_vocabulary(run, chunk, "logits", "probabilities", "log-probabilities")
    taken, entropy = numbers(run, chunk, "fp32", "fp32")
    return [taken, entropy if run.narrow == "fp32" else numbers(run, chunk, run.narrow)[0]]


def backward(run: Run, every: bool) -> Gradients:
    """Gradients of hidden states and weight, to which each chunk adds its own."""
    whole = run.new(HIDDEN_GRADIENT, run.narrow)
    weight = run.new(HEAD_GRADIENT, run.narrow) if run.head.weight_trains else None
    for chunk in CHUNKS[: 1 + run.again]:
        own = chunk_backward(run, chunk, every)
    return [whole, weight]


def chunk_backward(run: Run, chunk: str, every: bool) -> list[Storage]:
    """One chunk's gradients: its logits made again, their gradient, and two products of that."""
    run.at(f"{chunk} over the vocabulary")
    if run.head.chunk_compile:
        kept = compiled(run, chunk, "half", "half", softcap="fp32", entropy="half")
        kept.clear()
    else:
        kept = over_vocabulary(run, chunk, "logits", "probabilities", "one-hot rows")
        less, so_far = over_vocabulary(run, chunk, "one-hot less probabilities", "gradient so far")
        del less
        if run.head.entropy:
            kept += over_vocabulary(run, chunk, "log-probabilities")
            kept += numbers(run, chunk, "fp32")
            added, share = over_vocabulary(run, chunk, "logs plus entropy", "entropy's share")
            del added
            incoming = numbers(run, chunk, run.narrow)
            weighted = over_vocabulary(run, chunk, "entropy's share, weighted")
            del share, incoming, weighted
        del so_far
    run.at(f"{chunk}'s products")
    kept += over_vocabulary(run, chunk, "logits gradient", width=run.narrow)
    own = [run.new(CHUNK_HIDDEN, run.narrow, f"{chunk}'s hidden gradient", chunk)]
    if run.head.weight_trains or every:
        own.append(run.new(HEAD_GRADIENT, run.narrow, f"{chunk}'s weight gradient"))
    return own


def over_vocabulary(run: Run, chunk: str, *labels: str, width: str = "fp32") -> list[Storage]:
    """Tensors of a chunk's tokens by the vocabulary."""
    return [run.new(CHUNK, width, f"chunk's {label}", chunk) for label in labels]


def numbers(run: Run, chunk: str, *widths: str) -> list[Storage]:
    """Numbers for each token of a chunk."""
    return [run.new(CHUNK_NUMBERS, width, f"{chunk}'s numbers", chunk) for width in widths]


def compiled(run: Run, chunk: str, *widths: str, **switched: str) -> list[Storage]:
    """Buffers of a compiled chunk, and those that the head's switches add."""
    more = [width for switch, width in switched.items() if getattr(run.head, switch)]
    return [run.new(COMPILED, width, part=chunk) for width in (*widths, *more)]
