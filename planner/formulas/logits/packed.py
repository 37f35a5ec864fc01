"""Full logits in verl, scored outside the model: a Triton cross entropy beside an entropy.

Source: ``verl/workers/engine/fsdp/transformer_impl.py`` and ``verl/utils/torch_functional.py`` of
verl 0.9.1 and ``flash_attn/ops/triton/cross_entropy.py``, read 2026-10. The raw output stays named
until the micro-batch's loss exists, and a temperature makes a copy. Under verl's bf16 autocast
softmax and logsumexp run in fp32 and logsumexp casts the logits once more: say
``logits_dtype="fp32"`` for it. That is the entropy of padded rows, which runs as written. Packed
rows' is compiled by default: for a GPU Inductor makes reductions of it that read the logits and
write a few numbers per token, and in the backward one kernel that writes their gradient (on a CPU
it keeps the exponentials for their second reader, 4 bytes: ``should_realize_on_reuse`` of
``torch/_inductor/ir.py``, torch 2.13, seen 2026-11).
"""

from __future__ import annotations

from planner.formulas.activations.tape import Gradients, Tensor
from planner.formulas.formula import Formula
from planner.formulas.logits import over_vocabulary as op
from planner.formulas.logits.pieces import (
    ENTROPY_GRADIENT,
    LOGITS,
    LOGITS_GRADIENT,
    LOSS_GRADIENT,
    PER_TOKEN,
    PROBS,
    PROBS_BY_LOGS,
    WIDE_LOGITS,
)
from planner.formulas.logits.recording import Run, Scored

COMPILED_ENTROPY = Formula(
    "buffer of the compiled entropy",
    "4 * buffers * tokens * vocab",
    category="logits",
    source="torch 2.13 Inductor, read: on a GPU its reductions keep nothing over the vocabulary; "
    "on a CPU they kept 4 bytes an entry, which is the upper bound",
    why="What torch.compile makes of entropy_from_logits was not measured on a card.",
)


def scores(run: Run) -> Scored:
    """What one micro-batch's logits give: an entropy first, then the taken log-probabilities."""
    head, logits = run.head, op.capped(run)
    run.at("scoring kernel")
    run.named.append(logits.storage)
    if head.temperature_scaled:
        # The temperatures are cast to the logits' format, and saved.
        saved = run.numbers("half") if run.narrow == "half" else []
        label, at = "logits over the temperature", "division backward"
        logits = op.unary(
            run, logits, WIDE_LOGITS, LOGITS_GRADIENT, label=label, saved=saved, at=at
        )
        del saved
    run.named.append(logits.storage)
    entropy = None
    if head.entropy:
        entropy = (compiled_entropy if head.compiled_entropy else eager_entropy)(run, logits)
    elif head.copied_logits:
        # Of padded rows the tokens are joined; backward takes them apart beside the logits.
        label, back, at = "logits without padding", "gradient of the rows", "rows' backward"
        logits = op.unary(
            run, logits, LOGITS, LOGITS_GRADIENT, label=label, back=back, saves="input", at=at
        )
        run.named.append(logits.storage)
    return Scored(cross_entropy_kernel(run, logits, in_place=not head.entropy), entropy)


def cross_entropy_kernel(run: Run, logits: Tensor, *, in_place: bool) -> Tensor:
    """flash-attn's kernel: the gradient is written over the logits, unless others read them."""
    losses, log_z, squares = run.numbers("fp32", "fp32", "fp32")
    read, label = [logits.storage] if run.gradient else [], "gradient of the logits"

    def backward(_: Gradients) -> Gradients:
        logits = read.pop()
        if in_place:
            return [run.written_over(logits, LOSS_GRADIENT, f"{label}, written over them")]
        return [run.new(LOSS_GRADIENT, run.narrow, f"{label} from the log-probs")]

    (found,) = run.function([logits], [losses], backward, [log_z, logits.storage])
    return op.unary(run, found, PER_TOKEN, PER_TOKEN)


def eager_entropy(run: Run, logits: Tensor) -> Tensor:
    """``logsumexp(z) - (softmax(z) * z).sum()``, whose operators cast what autocast makes them."""
    wide, named = run.wide, "entropy gradient"
    back = f"{named} through softmax"
    probs = op.unary(run, logits, PROBS, ENTROPY_GRADIENT, width=wide, back=back, saves="output")
    read = logits
    if wide != logits.width:
        label = "logits cast for logsumexp"
        read = op.unary(run, logits, WIDE_LOGITS, LOGITS_GRADIENT, width=wide, label=label)
    run.at("inside the entropy's logsumexp")
    log_z = op.logsumexp(run, read)
    del read
    run.at("entropy")
    made = [run.new(PROBS_BY_LOGS, wide, "probabilities times logits")]
    gradients = [
        (ENTROPY_GRADIENT, wide, f"{named} towards the probabilities"),
        (LOSS_GRADIENT, logits.width, "gradient of the logits so far"),
    ]
    saved = [probs.storage, logits.storage]
    products = run.function([probs, logits], made, gradients, saved)
    del made
    summed = run.function(products, run.numbers(wide), [0])
    del products
    return run.function([log_z, *summed], run.numbers(wide), [0, 0])[0]


def compiled_entropy(run: Run, logits: Tensor) -> Tensor:
    """The same compiled: reductions that keep three numbers of each token."""
    run.at("entropy")
    back = [(ENTROPY_GRADIENT, logits.width, "gradient of the logits from the entropy")]
    perhaps = run.new(COMPILED_ENTROPY, "perhaps")
    saved = [logits.storage, perhaps, *run.numbers("fp32", "fp32", "fp32")]
    return run.function([logits], run.numbers("fp32"), back, saved, "entropy backward")[0]
