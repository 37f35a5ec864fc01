"""A model that nobody derived: a link to it offers to measure its layers, and shows the verdict."""

from __future__ import annotations

from urllib.parse import urlencode

from playwright.sync_api import Page, expect
from running_app import settle

from planner import catalog

SLOW = 600_000
"""Milliseconds that a loaded machine may take."""
CONFIG = {
    "model_type": "granite",
    "vocab_size": 4096,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
}


def test_a_press_measures_and_the_page_goes_on_by_itself(page: Page, server: str) -> None:
    given = {"v": "3", "model": "someone/granite", "method": "sft", "gpus": "1"}
    page.goto(f"{server}/?{urlencode({**given, 'config': catalog.encode_config(CONFIG)})}")
    settle(page)
    unknown = "Nobody has derived which activations the layers of granite keep."
    expect(page.get_by_text(unknown)).to_be_visible()
    page.get_by_role("button", name="Measure its layers").click()
    # Nothing else is pressed: the fragment has to begin and to end the looking by itself.
    expect(page.get_by_text("1 × H100 80GB SXM5: SFT of granite").first).to_be_visible(
        timeout=SLOW
    )
    expect(page.get_by_text("are measured in dry runs on this machine").first).to_be_visible()


def test_a_catalog_model_is_measured_with_the_adapters_of_a_link(page: Page, server: str) -> None:
    """Its file has no adapters: the link keeps its fields, and a press answers it."""
    given = {"v": "8", "model": "karpathy/nanochat-d20", "method": "sft", "gpus": "1"}
    chosen = {"finetuning": "lora", "lora_targets": "q_proj,v_proj", "lora_rank": "24"}
    page.goto(f"{server}/?{urlencode({**given, **chosen})}")
    settle(page)
    unknown = "Nobody has derived which activations the layers of nanochat keep."
    expect(page.get_by_text(unknown)).to_be_visible()
    assert "lora_rank=24" in page.url
    page.get_by_role("button", name="Measure its layers").click()
    verdict = page.get_by_text("1 × H100 80GB SXM5: SFT of nanochat").first
    expect(verdict).to_be_visible(timeout=SLOW)
    assert "finetuning=lora" in page.url and "lora_rank=24" in page.url
