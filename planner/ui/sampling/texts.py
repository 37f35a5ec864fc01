"""Each field of a sampling plan as a person meets it. Imports no Streamlit."""

from __future__ import annotations

import re
from collections.abc import Mapping

from planner.sampling.plan import FIELDS, SamplingPlan

LABELS: Mapping[str, str] = {
    "prompts": "Prompts",
    "model": "Embedding model",
    "embedding": "Embedding",
    "dimensions": "Dimensions",
    "dtype": "Stored in",
    "model_dtype": "Model dtype",
    "assembly": "Assembly",
    "neighbours": "Neighbours (k)",
    "index": "Index",
    "lists": "Lists (nlist)",
    "probes": "Probes (nprobe)",
    "training_prompts": "Training prompts",
    "mode": "Mode",
    "prompt_tokens": "Longest prompt (tokens)",
    "batch_size": "Batch size",
    "chunk_prompts": "Prompts per chunk",
    "favour": "Draw more often",
    "host_ram": "Host RAM (GiB)",
    "disk": "Free disk (GiB)",
    "cores": "CPU cores",
    "device": "Model runs on",
}
"""What stands above each input."""

NAMES: Mapping[str, str] = {
    "logits": "Mean logits",
    "hidden": "Mean hidden states",
    "in-place": "In place",
    "concatenate": "As in the document's code",
    "exact": "Exact (scikit-learn)",
    "faiss-flat": "FAISS flat",
    "faiss-ivf": "FAISS IVF",
    "online": "Online",
    "offline": "Offline",
    "streaming": "Streaming",
    "rare": "Rare prompts",
    "common": "Common prompts",
    "cpu": "CPU",
    "": "None, only dimensions",
}
"""A choice as a person reads it."""

SPOKEN: Mapping[str, str] = {
    **{field: re.sub(r" \(.*\)", "", LABELS[field]) for field in FIELDS if "_" in field},
    "faiss-ivf": "FAISS IVF",
    "faiss-flat": "FAISS flat",
    "in-place": "in place",
}
"""Words of sentences that are a program's, and what is said for them."""
_PROGRAM = re.compile(r"(?<![\w/-])(" + "|".join(map(re.escape, SPOKEN)) + r")(?![\w/-])")


def spoken(text: object) -> str:
    """A sentence with labels in the place of fields' names."""
    return _PROGRAM.sub(lambda found: SPOKEN[found[0]], str(text))


def name_of(value: str) -> str:
    """A choice as a person reads it."""
    return NAMES.get(value, value)


def help_of(field: str) -> str:
    """What the field means."""
    return spoken(SamplingPlan.model_fields[field].description)
