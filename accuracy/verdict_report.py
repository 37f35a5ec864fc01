"""The section of docs/accuracy.md about runs of which only the outcome is published."""

from __future__ import annotations

from accuracy.verdicts import ENDED, Judged, judged

INTRODUCTION = """
{count} runs for which sources state only how they ended (`accuracy/verdicts.json`); {planned} of
them can be planned. **Wrongly said to fit: {fits}** of {ended} that ended out of memory. Wrongly
said to be out of memory: {out} of {ran} that ran, or that their authors recommend.
"""

SHORT_ROWS = (
    "rows are planned at the limit of 1,536 tokens; GSM8K's have a few hundred, which the source "
    "does not state"
)
EAGER = (
    "eager entropy (12 bytes a token and vocabulary entry beside the logits; compiled, as verl "
    "runs it, 4), and rows at the limit"
)
WHY = {
    "verl-tuning-qwen2-3b_grpo-lora_1_h100_fsdp_vllm": (
        "a gpu_memory_utilization of 0.1 is compared with the most that CUDA graphs and a profile "
        "run were ever seen to take"
    ),
    "verl-tuning-qwen2-14b_grpo-lora_2_h100_fsdp_vllm": SHORT_ROWS,
    "verl-tuning-qwen2-72b_grpo-lora_8_h100_fsdp_vllm": SHORT_ROWS,
    "verl-tuning-14b-4xH800": EAGER,
    "verl-tuning-72b-32xH20": EAGER,
    "intuitor-verl-olmo7b": (
        "vLLM of that time subtracted the trainer's memory from what it reserves; the plan counts "
        "both"
    ),
}
"""Causes of verdicts that are too severe, by row."""


def text() -> str:
    """The section."""
    rows = judged()
    planned = [row for row in rows if row.verdict is not None]
    introduction = INTRODUCTION.format(
        count=len(rows),
        planned=len(planned),
        fits=sum(row.false_fits for row in planned),
        ended=sum(row.outcome == "out of memory" for row in planned),
        out=sum(row.false_out_of_memory for row in planned),
        ran=sum(row.outcome in ("ran", "recommended") for row in planned),
    )
    lines = ["| run | what happened | verdict, or why there is none | |", "|---|---|---|---|"]
    lines += [f"| {row.id} | {ENDED[row.outcome]} | {_said(row)} | {_cause(row)} |" for row in rows]
    return introduction.strip("\n") + "\n\n" + "\n".join(lines)


def _said(row: Judged) -> str:
    return row.reason if row.verdict is None else row.verdict.sentence


def _cause(row: Judged) -> str:
    if row.false_fits:
        return "**false fits**"
    if row.false_out_of_memory:
        return "false out of memory: " + WHY.get(row.id, "cause not found")
    return ""
