"""The five documents: what each found, in a sentence, and its claims by group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from planner.examples import (
    doc_000,
    doc_000_scaling,
    doc_001,
    doc_002,
    doc_003,
    doc_003_answers,
    doc_004,
)
from planner.examples.claim import Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document as its card shows it.

    ``finding`` is for somebody who knows neither the document nor its method; ``words`` says
    what its terms mean. ``groups`` are its claims under the headings they stand under there.
    """

    number: str
    title: str
    finding: str
    words: str
    groups: Mapping[str, tuple[Claim, ...]]

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All of them, in its order."""
        return tuple(one for group in self.groups.values() for one in group)


DOCUMENTS: tuple[Document, ...] = (
    Document(
        number="000",
        title=doc_000.TITLE,
        finding="The document expects Intuitor to need 36 times the memory of PPO. Intuitor needs "
        "**less**: the numbers that the document counts never exist all at once, and Intuitor "
        "trains one model where PPO trains two.",
        words="**PPO** trains a language model by rewards, together with a second model, the "
        "critic, that learns to predict the rewards. **Intuitor** takes the model's own certainty "
        "as the reward and needs no critic.",
        groups={
            "Its breakdown": doc_000.BREAKDOWN,
            "Its scaling table": doc_000_scaling.SCALING,
            "Its advice": doc_000_scaling.ADVICE,
        },
    ),
    Document(
        number="001",
        title=doc_001.TITLE,
        finding="Of six changes meant to save memory, four save nothing measurable. **Two do save "
        "memory**: computing each generated token again instead of keeping its work, and "
        "generating fewer tokens.",
        words="**GRADE** trains through the generated text itself: every token is a mixture of "
        "the vocabulary, so the work of all tokens is kept until the end. **Top-k** keeps only "
        "the likeliest words of a mixture, **KL** is the distance to the model as it was before "
        "training (the reference), a **cache** spares reading the text anew for each token, and "
        "**checkpointing** computes work again instead of keeping it.",
        groups={
            "Its optimizations": doc_001.OPTIMIZATIONS,
            "Its table of expected memory": doc_001.PROFILE,
        },
    ),
    Document(
        number="002",
        title=doc_002.TITLE,
        finding="A step of the run needs **nearly twice the GPU's memory**. The document's changes "
        "cure that. In the first step the change that matters most, checkpointing, is not on yet, "
        "so that step has the highest peak.",
        words="**GRADE** trains through the generated text itself, so the work of all tokens is "
        "kept until the end. **Checkpointing** computes that work again instead of keeping it; "
        "the library does so only in training mode, which this code enters after its first step.",
        groups={"Its changes": doc_002.CHANGES},
    ),
    Document(
        number="003",
        title=doc_003.TITLE,
        finding="28,000 prompts fit the memory of a machine with 24 GiB; 280,000 do not, unless "
        "they are read from disk piece by piece. And the sampling weights are **inverted**: they "
        "draw common prompts more often, not rare ones.",
        words="**Density-aware sampling** trains more often on prompts that are unlike the others. "
        "Each prompt is described by a list of numbers, its **embedding**; prompts with near "
        "neighbours are common, prompts without near neighbours are rare. **Online** computes the "
        "embeddings as training starts, **offline** computes them once and loads them from a file, "
        "and **streaming** reads that file piece by piece.",
        groups={
            "Its breakdown": doc_003.BREAKDOWN,
            "Its timeline": doc_003.TIMELINE,
            "Its scaling table, online and offline": doc_003.SCALING,
            "Is the current code safe?": doc_003_answers.SAFE,
            "Its confidence": doc_003_answers.CONFIDENCE,
        },
    ),
    Document(
        number="004",
        title=doc_004.TITLE,
        finding="The document counts elements as bytes and uses another model's shapes. And the "
        "reference, whose results the document wants to cache, is **free** already: with LoRA the "
        "reference is the base model with its adapters off.",
        words="**Activations** are what a model computes on the way and keeps for learning. The "
        "**reference** is the model as it was before training; **adapters** are small additions "
        "that are trained instead of the model's own weights and can be switched off. "
        "**Log-probs** are how likely the model finds each word, and **hidden states** what it "
        "makes of a text before that; both can be stored and read again. **Dual output** is one "
        "pass for both models.",
        groups={"Its activation table": doc_004.TABLE},
    ),
)
"""In their order."""


def document(number: str) -> Document:
    """The document of this number."""
    return next(one for one in DOCUMENTS if one.number == number)
