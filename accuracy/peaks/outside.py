"""Models of measured rows that the catalog lacks: their configs, and what a dry run said of them.

Nobody derived what layers of Granite, Gemma and Phi keep; a plan of theirs is measured on the spot,
which needs torch. ``python -m accuracy.peaks.outside`` measures what the rows' plans ask and writes
``accuracy/measured/layers.json``, so that the report needs none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from planner import catalog
from planner.catalog import spot

FILE = Path(__file__).resolve().parents[1] / "measured" / "layers.json"

POWERLM_3B = {
    # Shen et al. 2024 (arXiv 2408.13359), table 4; its multipliers change no size.
    "model_type": "granite",
    "vocab_size": 49152,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 40,
    "num_attention_heads": 36,
    "num_key_value_heads": 36,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}
GEMMA_2B = {
    # litgpt trains the head as a weight of its own.
    "tie_word_embeddings": False,
    "model_type": "gemma",
    "vocab_size": 256000,
    "hidden_size": 2048,
    "intermediate_size": 16384,
    "num_hidden_layers": 18,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "max_position_embeddings": 8192,
}
PHI_2 = {
    "model_type": "phi",
    "vocab_size": 51200,
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "partial_rotary_factor": 0.4,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
STABLELM_ALPHA_3B = {
    "model_type": "gpt_neox",
    "vocab_size": 50688,
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "rotary_pct": 0.25,
    "max_position_embeddings": 4096,
    "use_parallel_residual": True,
    "tie_word_embeddings": False,
}


def fields_of(config: Mapping[str, Any]) -> dict[str, str]:
    """A plan's field for the config, whose layers the committed file has."""
    supply()
    return {"config": catalog.encode_config(config)}


@cache
def supply() -> None:
    """Hand the product what was measured, as if this machine had measured it."""
    for entry in json.loads(FILE.read_text("utf-8")).values() if FILE.exists() else ():
        spot.supply(spot.key_of(entry["config"]), entry)


def hand_over() -> None:
    """The same to the processes that run dry: on disk, where they look."""
    for entry in json.loads(FILE.read_text("utf-8")).values():
        spot.keep(spot.key_of(entry["config"]), entry)


def main() -> None:
    """Measure what every row's plan asks; nothing of the file is used."""
    FILE.unlink(missing_ok=True)  # before who reads rows supplies what it holds
    from accuracy.peaks.mapping import results
    from planner.dryrun.ask.port import Port

    port, found = Port(), {}

    def measure(key: str, config: Mapping[str, Any], names: tuple[str, ...]) -> None:
        print(config["model_type"], *names, flush=True)
        port.measure(key, config, names)
        found[key] = config["model_type"]

    with nothing_known(), spot.measuring(measure):
        results.__wrapped__()
        kept = {found[key]: spot.found(key) for key in sorted(found, key=found.__getitem__)}
    port.close()
    FILE.write_text(_text(kept), "utf-8")


@contextmanager
def nothing_known() -> Iterator[None]:
    """A cache folder of its own, so that everything is measured by the code of today."""
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        os.environ["HEADROOM_CACHE"] = folder
        yield


def _text(kept: Mapping[str, Any]) -> str:
    """A line for each setting, so that changes can be read."""
    lines = []
    for name, entry in kept.items():
        settings = ",\n".join(
            f"  {json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}"
            for key, value in entry["settings"].items()
        )
        rest = json.dumps({key: value for key, value in entry.items() if key != "settings"})
        lines.append(f'{json.dumps(name)}: {rest[:-1]}, "settings": {{\n{settings}\n }}}}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    main()
