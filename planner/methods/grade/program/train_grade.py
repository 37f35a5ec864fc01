"""GRADE: a policy learns from a reward's own gradient, through soft tokens.

Each generated token is a Gumbel-softmax mixture of the vocabulary, fed back as a mixture of
embeddings. The graph of every generated token stays alive until the backward. The reward model
reads the response alone; it has to share the policy's vocabulary.

    python3 train_grade.py --data prompts.jsonl          the plan's options
    python3 train_grade.py --data … --method gumbel      those of a trainer of the method's authors
    python3 train_grade.py --data … --dry                check card and data, load no model
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from planner.launch.pieces.beginning import begun
from planner.launch.pieces.options import parser_of
from planner.launch.pieces.policy import frozen, loaded, on_device, without_adapters
from planner.launch.pieces.prompts import Prompt, padded, prompts_of
from planner.launch.pieces.ranks import apart, count, mean
from planner.launch.pieces.training import Run, run_of, trained

PLAN: dict[str, Any] = {}

LEGACY = {
    "top_k": 0,
    "dense_scatter": False,
    "kl": "batch",
    "reference_cache": False,
    "reward_input": "dense",
    "step_checkpointing": False,
}
LEAN = {
    "top_k": 256,
    "dense_scatter": True,
    "kl": "online-metric",
    "reference_cache": True,
    "reward_input": "sparse",
    "step_checkpointing": True,
}
ALIASES: dict[str, dict[str, Any]] = {
    "gumbel": {"estimator": "soft", **LEAN},
    "ste": {"estimator": "straight-through", **LEAN},
    "gumbel_legacy": {"estimator": "soft", **LEGACY},
    "ste_legacy": {"estimator": "straight-through", **LEGACY},
}
"""The options of the authors' trainers, by the names that their code has for them."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the step does; each has a flag of its name."""

    estimator: str
    top_k: int
    dense_scatter: bool
    kl: str
    reference_cache: bool
    reward_input: str
    step_checkpointing: bool
    tau: float = 1.0
    beta: float = 0.05
    mass: list[Tensor] | None = field(default=None, repr=False)
    """What the top k held of each token's probability, where that is asked for."""


@dataclass(frozen=True, slots=True)
class SoftToken:
    """A mixture of tokens for each row.

    ``weights`` [rows, entries] sum to 1. ``ids`` [rows, k] are the k best entries, None without
    top-k. The weights are theirs, unless they were ``scattered`` over the vocabulary.
    """

    weights: Tensor
    ids: Tensor | None
    scattered: bool = False

    @property
    def listed(self) -> Tensor | None:
        """Whose weights these are; None where there is one for every entry."""
        return None if self.scattered else self.ids

    def few(self) -> Tensor:
        """Weights [rows, k] of the k best entries."""
        if self.ids is None or not self.scattered:
            return self.weights
        return self.weights.gather(-1, self.ids)

    def hard_ids(self) -> Tensor:
        """Ids [rows, 1] of the heaviest entry of every mixture."""
        best = self.weights.argmax(-1, keepdim=True)
        return best if self.listed is None else self.listed.gather(-1, best)


def relaxed(scores: Tensor, options: Options) -> Tensor:
    """Gumbel-softmax weights [rows, entries]; straight-through makes their values one-hot."""
    noise = torch.empty_like(scores).exponential_().log_().neg_()
    weights = F.softmax((scores + noise) / options.tau, dim=-1)
    if options.estimator == "soft":
        return weights
    hard = torch.zeros_like(weights).scatter_(-1, weights.argmax(-1, keepdim=True), 1.0)
    return (hard - weights).detach() + weights


@torch.no_grad()
def captured(logits: Tensor, best: Tensor) -> Tensor:
    """Share [] of the probability that the ``best`` entries hold, a mean over rows."""
    return (best.logsumexp(-1) - logits.logsumexp(-1)).exp().mean()


def soft_token(logits: Tensor, options: Options) -> SoftToken:
    """The next token of every row, from fp32 logits [rows, vocabulary]."""
    if not options.top_k:
        return SoftToken(relaxed(logits, options), None)
    best, ids = logits.topk(options.top_k, dim=-1)
    if options.mass is not None:
        options.mass.append(captured(logits, best))
    weights = relaxed(best, options)
    if not options.dense_scatter:
        return SoftToken(weights, ids)
    # What the authors' code does: a dense row, which the top k should have avoided.
    row = torch.zeros_like(logits).scatter(-1, ids, weights)
    return SoftToken(row, ids, scattered=True)


def mixed(embedding: Any, token: SoftToken) -> Tensor:
    """Embedding [rows, 1, hidden] of one soft token."""
    table = embedding.weight
    weights = token.weights.to(table.dtype)
    if token.listed is None:
        return scaled(embedding, (weights @ table).unsqueeze(1))
    return scaled(embedding, weights.unsqueeze(1) @ F.embedding(token.listed, table))


def read_dense(embedding: Any, tokens: list[SoftToken]) -> Tensor:
    """Embeddings [rows, tokens, hidden], by a product with the whole table."""
    table = embedding.weight
    weights = torch.stack([token.weights for token in tokens], dim=1).to(table.dtype)
    if tokens[0].listed is not None:
        whole = weights.new_zeros((*weights.shape[:2], table.shape[0]))
        weights = whole.scatter_(-1, best_ids(tokens), weights)
        del whole
    return scaled(embedding, weights @ table)


def read_sparse(embedding: Any, tokens: list[SoftToken]) -> Tensor:
    """Embeddings [rows, tokens, hidden], by gathering the k entries' rows of the table."""
    table, ids = embedding.weight, best_ids(tokens)
    weights = torch.stack([token.few() for token in tokens], dim=1).to(table.dtype)
    return scaled(embedding, (weights.unsqueeze(-2) @ F.embedding(ids, table)).squeeze(-2))


def best_ids(tokens: list[SoftToken]) -> Tensor:
    """Ids [rows, tokens, k] of the k best entries."""
    return torch.stack([token.ids for token in tokens if token.ids is not None], dim=1)


def scaled(embedding: Any, mixture: Tensor) -> Tensor:
    """Gemma's embedding multiplies what it looks up."""
    scale = getattr(embedding, "embed_scale", None)
    return mixture if scale is None else mixture * scale.to(mixture.dtype)


class Reference:
    """Next-token logits under the frozen reference; one object for each rollout.

    It reads hard tokens. Without a cache every call runs the whole row; with one, only what no
    earlier call has seen. Without a model of its own it is the policy, adapters switched off.
    """

    def __init__(self, policy: Any, model: Any, cached: bool) -> None:
        self.model = policy if model is None else model
        self.base = model is None
        self.cached = cached
        self.past: Any = None
        self.seen = 0

    def __call__(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """Logits [rows, vocabulary] of the token after ``ids`` [rows, tokens]."""
        training = self.model.training
        self.model.eval()  # a layer that recomputes refuses a cache, and only trained ones do
        try:
            with torch.no_grad(), without_adapters(self.model) if self.base else nullcontext():
                found = self.model(
                    input_ids=ids[:, self.seen :],
                    attention_mask=mask,
                    past_key_values=self.past,
                    use_cache=self.cached,
                    logits_to_keep=1,
                )
        finally:
            self.model.train(training)
        if self.cached:
            self.past, self.seen = found.past_key_values, ids.shape[1]
        return found.logits[:, -1]


def next_logits(model: Any, embeds: Tensor, mask: Tensor | None) -> Tensor:
    """fp32 logits [rows, vocabulary] after the row so far."""
    casts = PLAN["autocast_adapters"]
    with torch.autocast(embeds.device.type, embeds.dtype) if casts else nullcontext():
        found = model(inputs_embeds=embeds, attention_mask=mask, use_cache=False, logits_to_keep=1)
    return found.logits[:, -1].float()


def kl_divergence(logits: Tensor, reference: Tensor) -> Tensor:
    """KL(policy, reference) [...] in nats, both of the token that is sampled next."""
    with torch.no_grad():
        target = F.log_softmax(reference.float(), dim=-1)
    log_probs = F.log_softmax(logits.float(), dim=-1)
    return (log_probs.exp() * (log_probs - target)).sum(-1)


def soft_generate(
    policy: Any, ids: Tensor, mask: Tensor | None, options: Options, reference: Reference | None
) -> tuple[list[SoftToken], Tensor | None]:
    """Unroll ``response_tokens`` soft tokens after prompts [rows, prompt].

    Returns the tokens, and the mean KL [] if there is one: with gradient, unless a metric.
    """
    embedding = policy.get_input_embeddings()
    embeds, hard = embedding(ids), ids
    found: list[SoftToken] = []
    kept: list[Tensor] = []
    kl: Tensor | None = None
    for _ in range(PLAN["response_tokens"]):
        if found:
            embeds = torch.cat([embeds, mixed(embedding, found[-1])], dim=1)
            if reference is not None:
                hard = torch.cat([hard, found[-1].hard_ids()], dim=1)
            if mask is not None:
                mask = torch.cat([mask, mask.new_ones(mask.shape[0], 1)], dim=1)
        if options.step_checkpointing:
            # Of this token's forward only its input is kept; the backward runs it again.
            logits = checkpoint(next_logits, policy, embeds, mask, use_reentrant=False)
        else:
            logits = next_logits(policy, embeds, mask)
        if options.kl in ("online", "online-metric") and reference is not None:
            with torch.set_grad_enabled(options.kl == "online"):
                here = kl_divergence(logits, reference(hard, mask))
            kl = here if kl is None else kl + here
            del here
        elif options.kl == "batch":
            kept.append(logits)
        found.append(soft_token(logits, options))
        del logits
    del embeds
    if kl is not None:
        return found, kl.mean() / len(found)
    if kept and reference is not None:
        return found, batch_kl(kept, reference, hard, mask)
    return found, None


def batch_kl(kept: list[Tensor], reference: Reference, ids: Tensor, mask: Tensor | None) -> Tensor:
    """Mean KL [] over all positions at once; the reference's logits are kept together."""
    prompt = ids.shape[1] - len(kept) + 1
    found = []
    for end in range(prompt, ids.shape[1] + 1):
        found.append(reference(ids[:, :end], None if mask is None else mask[:, :end]))
    theirs = torch.stack(found, dim=1)
    del found
    return kl_divergence(torch.stack(kept, dim=1), theirs).mean()


def grade_loss(
    policy: Any,
    reference: Any,
    judge: Any,
    ids: Tensor,
    mask: Tensor | None,
    options: Options,
) -> tuple[Tensor, dict[str, float]]:
    """Loss [] = -mean reward, + beta * mean KL where that has a gradient; and what to report."""
    policy.train()
    scored = None if options.kl == "none" else Reference(policy, reference, options.reference_cache)
    tokens, kl = soft_generate(policy, ids, mask, options, scored)
    del scored
    read = read_sparse if options.reward_input == "sparse" else read_dense
    embeds = read(judge.get_input_embeddings(), tokens)
    hidden = judge.base_model(inputs_embeds=embeds, use_cache=False).last_hidden_state
    reward = judge.score(hidden).squeeze(-1)[:, -1].float().mean()
    seen = {"train/reward": float(reward.detach())}
    if options.mass:
        seen["top-k mass"] = float(torch.stack(options.mass).mean())
        options.mass.clear()
    if kl is None:
        return -reward, seen
    seen["train/kl"] = float(kl.detach())
    return (-reward if options.kl == "online-metric" else -reward + options.beta * kl), seen


def update(run: Run, lossy: Any, rows: list[list[int]]) -> dict[str, float]:
    """Forward and backward of every micro-batch, then the optimizer; means of what was seen.

    ``lossy`` is :func:`grade_loss` of ids and mask.
    """
    size = PLAN["micro_batch_size"]
    seen: dict[str, float] = {}
    for first in range(0, len(rows), size):
        part = rows[first : first + size]
        ids, mask = padded(PLAN, part, run.tokenizer.pad_token_id, run.device)
        with apart(lossy, first + size >= len(rows)):
            # A reference that waits in host RAM is on the device only while the loss is made.
            with on_device(run.reference, run.device, PLAN["reference"] == "offloaded"):
                loss, found = lossy(ids, mask)
            (loss * (len(part) / len(rows))).backward()
        for name, value in {"train/loss": float(loss.detach()), **found}.items():
            seen[name] = seen.get(name, 0.0) + value * len(part) / len(rows)
        del loss, ids, mask
    run.optimizer.step()
    run.optimizer.zero_grad(set_to_none=True)
    return mean(seen, run.device)


def step(run: Run, lossy: Any, prompts: list[Prompt]) -> dict[str, float]:
    """The updates of a step; what the last one saw."""
    together = PLAN["prompts_per_update"] * PLAN["responses_per_prompt"] // count()
    rows, seen = [one.ids for one in prompts], {}
    for first in range(0, len(rows), together):
        seen = update(run, lossy, rows[first : first + together])
    return seen


def chosen_options() -> tuple[argparse.Namespace, Options]:
    """The arguments and the step's options: the plan's, an alias's, then each flag's own."""
    parser = parser_of(PLAN, __doc__)
    judge = PLAN["reward_model"]
    parser.add_argument("--reward-model", default=judge, required=not judge, help="a classifier")
    parser.add_argument("--method", choices=ALIASES, help="all options of an authors' trainer")
    parser.add_argument("--estimator", choices=("soft", "straight-through"))
    parser.add_argument("--top-k", type=int, help="0: the whole vocabulary")
    parser.add_argument("--dense-scatter", action=argparse.BooleanOptionalAction)
    parser.add_argument("--kl", choices=("none", "batch", "online", "online-metric"))
    parser.add_argument("--reference-cache", action=argparse.BooleanOptionalAction)
    parser.add_argument("--reward-input", choices=("dense", "sparse"))
    parser.add_argument("--step-checkpointing", action=argparse.BooleanOptionalAction)
    parser.add_argument("--tau", type=float, default=1.0, help="temperature of the Gumbel-softmax")
    parser.add_argument("--beta", type=float, default=0.05, help="weight of the KL term")
    parser.add_argument(
        "--report-mass", action="store_true", help="report the probability that the top k hold"
    )
    given = parser.parse_args()
    planned = {name: PLAN[name] for name in LEGACY} | {"estimator": PLAN["estimator"]}
    flags = {name: getattr(given, name) for name in planned if getattr(given, name) is not None}
    values = planned | ALIASES.get(given.method or "", {}) | flags
    changed = [name for name, value in planned.items() if values[name] != value]
    if changed:
        print(f"Options not as planned, so the prediction does not apply: {', '.join(changed)}.")
    if values["top_k"] == 0 and (values["dense_scatter"] or values["reward_input"] == "sparse"):
        parser.error("--dense-scatter and --reward-input sparse need a --top-k")
    if values["kl"] != "none" and PLAN["reference"] == "none":
        parser.error("--kl: the plan has no reference; plan one")
    mass: list[Tensor] | None = [] if given.report_mass and values["top_k"] else None
    return given, Options(**values, tau=given.tau, beta=given.beta, mass=mass)


def main() -> None:
    """Check, load, train, save."""
    given, options = chosen_options()
    device, tokenizer = begun(PLAN, given)
    prompts = prompts_of(PLAN, given.data, tokenizer)
    print(options)
    if given.dry:
        return
    run = run_of(PLAN, given, device, tokenizer, options.kl != "none")
    scorer = transformers.AutoModelForSequenceClassification
    judge = loaded(scorer, given.reward_model, None, PLAN["dtype"], PLAN, num_labels=1)
    frozen(judge.to(device))
    if judge.config.vocab_size != run.policy.config.vocab_size:
        raise SystemExit("reward-model: its vocabulary is not the policy's, whose tokens it reads.")
    if not isinstance(getattr(judge, "score", None), nn.Linear):
        raise SystemExit("reward-model: this family has no linear layer `score` after its body.")

    def lossy(ids: Tensor, mask: Tensor | None) -> tuple[Tensor, dict[str, float]]:
        return grade_loss(run.policy, run.reference, judge, ids, mask, options)

    trained(PLAN, run, prompts, partial(step, run), (run.policy, lossy))


if __name__ == "__main__":
    main()
