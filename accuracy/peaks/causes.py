"""Why the worst rows are off: by group and level, or by row where it ended out of memory."""

from __future__ import annotations

from collections.abc import Mapping

HELD = "memory that the allocator holds and no tensor uses, and the driver's share of libraries"

CAUSES: Mapping[tuple[str, str], str] = {
    ("", "device"): HELD,
    ("fms full, 2 GPUs, mean lengths only", "allocated"): (
        "the longest batch decides, and only the mean is known"
    ),
    ("litgpt qlora", "allocated"): "as LoRA of the same model: its rows are a few per cent off too",
    ("litgpt full", "allocated"): (
        "weights and gradients alone are 14.2 GiB: the figure has no room for the two moments of "
        "the AdamW that the config names today"
    ),
    ("ms-swift SFT, full", "stated"): (
        "weights, gradients and AdamW in bf16 are 23 GiB of 27; with fp32 masters it would be 55: "
        "what makes 35 is not found in what the row states"
    ),
    ("ms-swift dpo, full", "stated"): (
        "ms-swift scores labelled tokens only, whose share of a packed row is not recorded"
    ),
    ("ms-swift SFT, lora", "stated"): "rounded reading; " + HELD,
}
