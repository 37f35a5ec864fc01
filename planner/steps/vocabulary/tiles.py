"""The fused head: tiles of tokens by vocabulary, folded into a running log-sum-exp.

The way of TRL's kernel (``trl/kernels/chunked_logprob.py`` of 1.16.0), in torch: no logits exist
but one tile in the dtype of the product, and a few of its rows in fp32. The backward makes each
tile again, turns it into the logits' gradient in place and adds its products up in fp32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from planner.formulas.logits import tiles as sizes
from planner.steps.stage import Stage
from planner.steps.vocabulary.head import pieces, squash_
from planner.steps.vocabulary.products import add_product


@dataclass(frozen=True, slots=True)
class Tiling:
    """How a head is walked through: where, and what happens to its product."""

    stage: Stage
    entropy: bool
    softcap: float
    temperature: float
    certainty: bool = False

    def tiles(
        self, hidden: torch.Tensor, weight: torch.Tensor, buffer: torch.Tensor
    ) -> Iterator[tuple[slice, slice, torch.Tensor]]:
        """Tokens, columns and their product in the one buffer; two of each show the peak."""
        width = buffer.shape[1]
        for tokens in pieces(self.stage, hidden.shape[0], sizes.TOKEN_TILE):
            some = hidden[tokens]
            for columns in pieces(self.stage, weight.shape[0], width):
                part = weight[columns]
                tile = buffer[: some.shape[0], : part.shape[0]]
                torch.mm(some, part.t(), out=tile)
                yield tokens, columns, tile

    def rows(self, tile: torch.Tensor) -> list[slice]:
        """The rows of a tile that are in fp32 at the same time."""
        return pieces(self.stage, tile.shape[0], sizes.FP32_ROWS)

    def logits_(self, into: torch.Tensor, product: torch.Tensor) -> torch.Tensor:
        """fp32 logits of a few rows, written into ``into``."""
        return squash_(into.copy_(product), self.softcap, self.temperature)


def score(
    stage: Stage,
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    *,
    entropy: bool,
    softcap: float,
    temperature: float,
    certainty: bool = False,
) -> tuple[torch.Tensor, ...]:
    """Log-probabilities [N] and, if asked, entropies [N], in fp32, of ``hidden`` [N, h].

    With ``certainty`` self-certainties [N] follow, without gradient.
    """
    tiling = Tiling(stage, entropy, softcap, temperature, certainty)
    found: tuple[torch.Tensor, ...] = TiledLogProbs.apply(  # type: ignore[no-untyped-call]
        hidden, weight, targets, tiling
    )
    return found


class TiledLogProbs(torch.autograd.Function):
    """Keeps hidden states, weight and targets, and two numbers per token at most."""

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, tiling: Tiling
    ) -> tuple[torch.Tensor | None, ...]:
        """Log-probabilities [N], entropies [N] and, if asked, self-certainties [N], in fp32."""
        ctx.set_materialize_grads(False)
        certainty: tuple[torch.Tensor, ...] = ()
        with tiling.stage.region(category="logits"):
            running = Running(hidden, tiling.entropy, tiling.certainty)
            fold(hidden, weight, targets, tiling, running)
            log_z = running.top + running.total.log()
            log_probs = running.taken - log_z
            entropy = None
            if running.weighted is not None:
                entropy = log_z - running.weighted / running.total
            if running.sums is not None:
                certainty = (running.sums.div_(-weight.shape[0]).add_(log_z),)
        ctx.save_for_backward(hidden, weight, targets, log_z, entropy)
        ctx.mark_non_differentiable(*certainty)
        ctx.tiling = tiling
        return log_probs, entropy, *certainty

    @staticmethod
    def backward(ctx: Any, *upstream: torch.Tensor | None) -> Any:
        """Gradients of ``hidden`` and, if it trains, ``weight``, in their dtype."""
        upstream = upstream[:2]
        hidden, weight, targets, log_z, entropy = ctx.saved_tensors
        tiling: Tiling = ctx.tiling
        stage = tiling.stage
        to_weight = None
        if ctx.needs_input_grad[1]:
            with stage.region(category="gradients"):
                to_weight = torch.zeros_like(weight, dtype=torch.float32)
        with stage.region(category="logits"):
            to_hidden = torch.zeros_like(hidden, dtype=torch.float32)
            buffer = empty_tile(hidden, weight)
            scratch = empty_rows(buffer, two=upstream[1] is not None or tiling.softcap != 0)
        for tokens, columns, tile in tiling.tiles(hidden, weight, buffer):
            for rows in tiling.rows(tile):
                of_rows = tuple(
                    None if each is None else each[tokens][rows]
                    for each in (*upstream, log_z, entropy, targets)
                )
                with stage.region(category="logits"):
                    turn(tile[rows], of_rows, columns.start, tiling, scratch)
            add_product(to_hidden[tokens], tile, weight[columns])
            if to_weight is not None:
                add_product(to_weight[columns], tile.t(), hidden[tokens])
        del scratch
        with stage.region(category="logits"):
            of_hidden = to_hidden.to(hidden.dtype)
        if to_weight is None:
            return of_hidden, None, None, None
        with stage.region(category="gradients"):
            return of_hidden, to_weight.to(weight.dtype), None, None


class Running:
    """What is known of each token's softmax after the tiles so far, all in fp32 [N]."""

    def __init__(self, hidden: torch.Tensor, entropy: bool, certainty: bool = False) -> None:
        size = hidden.shape[:1]
        self.top = torch.full(size, -torch.inf, device=hidden.device)
        self.total = torch.zeros(size, device=hidden.device)
        self.taken = torch.zeros(size, device=hidden.device)
        self.weighted = torch.zeros(size, device=hidden.device) if entropy else None
        self.sums = torch.zeros(size, device=hidden.device) if certainty else None

    def add(
        self, places: slice, logits: torch.Tensor, local: torch.Tensor, spare: torch.Tensor | None
    ) -> None:
        """Fold some columns of some tokens in; ``logits`` is used up.

        ``total`` is the sum of exp(z - top), ``weighted`` that of z * exp(z - top), ``sums`` that
        of z; ``local`` is the target's column in ``logits``, outside of it when the target is in
        another tile.
        """
        width = logits.shape[1]
        if self.sums is not None:
            self.sums[places].add_(logits.sum(1))
        here = (local >= 0) & (local < width)
        found = logits.gather(1, local.clamp(0, width - 1)[:, None]).squeeze(1)
        self.taken[places].add_(found * here)
        del here, found
        top = torch.maximum(self.top[places], logits.amax(1))
        shrink = torch.exp(self.top[places] - top)
        self.top[places] = top
        logits.sub_(top[:, None])
        if self.weighted is None or spare is None:
            self.total[places] = self.total[places] * shrink + logits.exp_().sum(1)
            return
        torch.exp(logits, out=spare)
        more = spare.sum(1)
        self.total[places] = self.total[places] * shrink + more
        own = logits.mul_(spare).sum(1) + top * more
        self.weighted[places] = self.weighted[places] * shrink + own


def fold(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    tiling: Tiling,
    running: Running,
) -> None:
    """Walk through all tiles once."""
    buffer = empty_tile(hidden, weight)
    scratch = empty_rows(buffer, two=tiling.entropy)
    for tokens, columns, tile in tiling.tiles(hidden, weight, buffer):
        for rows in tiling.rows(tile):
            product = tile[rows]
            logits, *spare = (each[: product.shape[0], : product.shape[1]] for each in scratch)
            tiling.logits_(logits, product)
            places = slice(tokens.start + rows.start, tokens.start + rows.start + len(product))
            local = targets[places] - columns.start
            running.add(places, logits, local, spare[0] if spare else None)


def turn(
    product: torch.Tensor,
    of_rows: tuple[torch.Tensor | None, ...],
    start: int,
    tiling: Tiling,
    scratch: torch.Tensor,
) -> None:
    """Replace a few rows of the head's product by the gradient of the loss with respect to it.

    With p = exp(z - log Z): d log p(taken) / dz = one-hot - p, and dH / dz = -p (log p + H).
    """
    of_log_probs, of_entropy, log_z, entropy, targets = of_rows
    assert log_z is not None and targets is not None
    width = product.shape[1]
    gradient, *spare = (each[: product.shape[0], :width] for each in scratch)
    tiling.logits_(gradient, product).sub_(log_z[:, None])
    if of_entropy is not None and entropy is not None:
        logs = spare[0]
        logs.copy_(gradient)
        logs.add_(entropy[:, None]).mul_(of_entropy[:, None])
        if of_log_probs is not None:
            logs.add_(of_log_probs[:, None])
        gradient.exp_().mul_(logs).neg_()
    elif of_log_probs is not None:
        gradient.exp_().mul_(of_log_probs[:, None]).neg_()
    if of_log_probs is not None:
        local = targets - start
        here = (local >= 0) & (local < width)
        column = local.clamp(0, width - 1)
        gradient.scatter_add_(1, column[:, None], (of_log_probs * here)[:, None])
    if tiling.softcap:
        slope = spare[0]
        slope.copy_(product)
        slope.div_(tiling.softcap).tanh_().square_().neg_().add_(1.0)
        gradient.mul_(slope)
    if tiling.temperature != 1.0:
        gradient.div_(tiling.temperature)
    product.copy_(gradient)


def empty_tile(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The one buffer over the vocabulary, in the dtype of the product."""
    return hidden.new_empty(min(hidden.shape[0], sizes.TOKEN_TILE), sizes.VOCABULARY_TILE)


def empty_rows(buffer: torch.Tensor, *, two: bool) -> torch.Tensor:
    """A few rows of a tile in fp32, once or twice."""
    rows = min(buffer.shape[0], sizes.FP32_ROWS)
    return buffer.new_empty(1 + two, rows, buffer.shape[1], dtype=torch.float32)
