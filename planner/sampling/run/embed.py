"""Prompts to vectors: the mean over a prompt's tokens of hidden states or of logits. Imports torch.

Padding is masked, so what a prompt is embedded as does not depend on its neighbours in a batch.
Logits are a linear map of the last hidden states, so their mean is the head of the mean: one row
of the vocabulary a prompt in place of one a token. Where a model does something else (a cap, a
scale), the first batch shows it, and whole logits are averaged.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from planner.sampling.ask.prompts import Prompt, Prompts
from planner.sampling.run.vectors import F32
from planner.values.dtypes import TORCH_NAMES

AT_ONCE = 256
"""Prompts of one call of a tokenizer, whose own result is many times the ids."""
Ids = npt.NDArray[np.int32]
"""Token ids of one prompt; a list of Python's numbers would be ten times their size."""
SAME = 1e-3
"""Relative difference within which the head of the mean is the mean of the logits."""


def load_libraries(folder: Path) -> None:
    """Load the code of the folder's kind of model, so that what it holds is not the model's."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer  # noqa: F401

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    AutoModelForCausalLM._model_mapping[type(config)]


class Embedder:
    """A model that embeds."""

    def __init__(
        self, folder: Path, *, embedding: str, dtype: str, device: str, prompt_tokens: int
    ) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=getattr(torch, TORCH_NAMES[dtype]),
        )
        self._model: Any = model.to(device).eval()
        self._embedding, self._device, self._longest = embedding, device, prompt_tokens
        self._by_head: bool | None = None

    def tokens(self, prompts: Sequence[Prompt]) -> list[Ids]:
        """Token ids of each prompt, at most ``prompt_tokens`` of them.

        Raises:
            ValueError: for a chat without the tokenizer's template, naming the fix.
        """
        if not all(isinstance(prompt, str) for prompt in prompts):
            if self._tokenizer.chat_template is None:
                raise ValueError(
                    "prompts: some are chats, and the model's tokenizer has no chat template; "
                    "give prompts as text."
                )
            prompts = [prompt if isinstance(prompt, str) else self._chat(prompt)
                       for prompt in prompts]
        found: list[Ids] = []
        for start in range(0, len(prompts), AT_ONCE):
            made = self._tokenizer(
                list(prompts[start : start + AT_ONCE]),
                truncation=True,
                max_length=self._longest,
                padding=False,
            )["input_ids"]
            found += [np.array(row, np.int32) for row in made]
        if not all(map(len, found)):
            raise ValueError("prompts: one has no token at all for the model's tokenizer.")
        return found

    def _chat(self, prompt: tuple[tuple[str, str], ...]) -> str:
        messages = [{"role": role, "content": content} for role, content in prompt]
        return str(
            self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
        )

    @torch.inference_mode()
    def embed(self, rows: Sequence[Ids]) -> F32:
        """Unit vectors of a batch of token ids, shape [rows, width]."""
        longest = max(map(len, rows))
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        mask = torch.zeros(len(rows), longest, dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.from_numpy(row)
            mask[number, : len(row)] = 1
        found = self._pooled(ids.to(self._device), mask.to(self._device)).float()
        unit = torch.nn.functional.normalize(found, dim=-1).cpu().numpy()
        if not np.isfinite(unit).all():
            raise ValueError("model: it makes embeddings that are not finite; try another dtype.")
        return unit

    def _pooled(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if self._embedding == "logits" and self._by_head is None:
            self._by_head = self._head_suffices(ids[:1], mask[:1])
        if self._embedding == "logits" and not self._by_head:
            return _mean(self._model(input_ids=ids, attention_mask=mask, use_cache=False).logits,
                         mask)
        body = self._model.base_model
        states = body(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        mean = _mean(states, mask)
        if self._embedding == "hidden":
            return mean
        head = self._model.get_output_embeddings()
        return head(mean.to(states.dtype))  # type: ignore[no-any-return]

    def _head_suffices(self, ids: torch.Tensor, mask: torch.Tensor) -> bool:
        """Whether this model's logits are its head of its last hidden states, on one prompt."""
        states = self._model.base_model(
            input_ids=ids, attention_mask=mask, use_cache=False
        ).last_hidden_state
        own = self._model(input_ids=ids, attention_mask=mask, use_cache=False).logits.float()
        made = self._model.get_output_embeddings()(states).float()
        return own.shape == made.shape and bool(
            (own - made).abs().max() <= SAME * own.abs().max()
        )

    def chunk(
        self, rows: Sequence[Ids], batch: int, done: Callable[[int], None], width: int
    ) -> F32:
        """Vectors of a chunk in its order; batches are of like lengths, longest first."""
        found = np.empty((len(rows), width), np.float32)
        for number, places in enumerate(batches(rows, batch)):
            vectors = self.embed([rows[place] for place in places])
            if vectors.shape[1] != width:
                raise ValueError(
                    f"model: its embeddings have {vectors.shape[1]} values, and its config.json "
                    f"says {width}."
                )
            found[places] = vectors
            done(min(len(rows), (number + 1) * batch))
        return found


def _mean(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean over the tokens that are there: [batch, tokens, width] to [batch, width], in float32.

    A product of matrices, so that no second tensor of all tokens is made.
    """
    shares = mask.float() / mask.sum(dim=1, keepdim=True)
    return torch.bmm(shares.to(values.dtype).unsqueeze(1), values).squeeze(1).float()


def batches(rows: Sequence[Ids], size: int) -> Iterator[list[int]]:
    """Places in batches of like lengths, the longest first: memory shows its peak at once."""
    order = sorted(range(len(rows)), key=lambda place: -len(rows[place]))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def padded_tokens(lengths: Sequence[int], size: int) -> int:
    """Tokens that the model sees of a chunk, padding included."""
    ordered = sorted(lengths, reverse=True)
    return sum(
        ordered[start] * len(ordered[start : start + size])
        for start in range(0, len(ordered), size)
    )


def seconds_a_prompt(
    embedder: Embedder, prompts: Prompts, batch: int, rows: int, seconds: float
) -> tuple[float, int]:
    """Seconds that one prompt takes, from real batches of a sample, and prompts that were timed.

    The sample is spread over the file and batched as the work will be; its batches are timed in
    an order that is not their length's, until the time is up.
    """
    began = time.perf_counter()
    count = min(len(prompts), max(batch, min(rows, 64 * batch)))
    spread = np.unique(np.linspace(0, len(prompts) - 1, count).astype(int)).tolist()
    texts = [next(iter(prompts.read(place, place + 1))) for place in spread]
    start = time.perf_counter()
    ids = embedder.tokens(texts)
    tokenizing = (time.perf_counter() - start) / len(ids)
    waiting = list(batches(ids, batch))
    np.random.default_rng(0).shuffle(waiting)
    embedder.embed([ids[place] for place in waiting[0]])  # kernels are chosen, memory is asked for
    tokens, spent, timed = 0, 0.0, 0
    while not timed or time.perf_counter() - began < seconds:
        for places in waiting:
            start = time.perf_counter()
            embedder.embed([ids[place] for place in places])
            spent += time.perf_counter() - start
            tokens += max(len(ids[place]) for place in places) * len(places)
            timed += len(places)
            if time.perf_counter() - began > seconds:
                break
    whole = padded_tokens([len(row) for row in ids], batch) / len(ids)
    return tokenizing + spent / tokens * whole, timed
