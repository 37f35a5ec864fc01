"""A made-up method and a made-up framework in a real server: every page, and what runs beside it.

The product is copied and both folders are added to the copy; nothing else of it changes.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect
from running_app import app, settle

from recipes import ROOT, product
from trial.running import TOLERANCE, tiny

MENU = (
    *("Import", "Scaling", "Recommend", "Compare", "Trial", "Sampling"),
    *("Launch", "Examples", "Formulas", "Plan"),
)
METHOD = {
    "method": "made-up",
    "model": "Qwen/Qwen2.5-0.5B",
    "gpus": "1",
    "prompts_per_step": "8",
    "response_tokens": "320",
    "made_up_weight": "9",
}
WISH = "1~cheapest~16~0~0~0_free~enforce.eager~micro.batch.size"
TRIED = {
    "framework": "made_up",
    "config": tiny("grpo").config,
    "gpus": "1",
    "prompts_per_step": "2",
    "responses_per_prompt": "2",
    "prompt_tokens": "24",
    "response_tokens": "24",
    "kl": "loss",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def added(tmp_path_factory: pytest.TempPathFactory, data: Path) -> Iterator[str]:
    """The address of an app whose copy has both folders."""
    copy = product(tmp_path_factory.mktemp("product"), "A method", "A framework")
    shutil.copytree(ROOT / ".streamlit", copy / ".streamlit")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HEADROOM_TRIALS", "HEADROOM_HISTORY_URL", "PYTHONPATH"):
            patch.delenv(name, raising=False)
        with app(data=str(data), of=copy) as address:
            yield address


def on_every_page(page: Page) -> None:
    for name in MENU:
        page.get_by_role("link", name=name, exact=True).first.click()
        path = "(plan|front)?" if name == "Plan" else name.lower()
        page.wait_for_url(re.compile(rf":\d+/{path}(\?|$)"))
        settle(page)
        expect(page.get_by_test_id("stException")).to_have_count(0)


def test_a_made_up_method_is_run_dry_searched_and_on_every_page(page: Page, added: str) -> None:
    page.goto(f"{added}/?{urlencode(METHOD)}")
    settle(page)
    expect(page.get_by_text("Made Up of Qwen2.5-0.5B with plain PyTorch").first).to_be_visible()
    page.get_by_role("button", name="Check with a dry run").click()
    expect(page.get_by_text("Alive at the peak")).to_be_visible()
    expect(page.get_by_text("Requested memory agrees with the estimate within")).to_be_visible()
    on_every_page(page)
    assert "made_up_weight=9" in page.url and "method=made-up" in page.url
    page.goto(f"{added}/recommend?{urlencode({**METHOD, 'wish': WISH})}")
    expect(page.get_by_text(re.compile("Cheapest: the .*balanced.* plan"))).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_a_made_up_framework_is_tried_and_on_every_page(
    page: Page, added: str, data: Path
) -> None:
    page.goto(f"{added}/trial?{urlencode(TRIED)}")
    settle(page)
    expect(page.get_by_text("Trials do not run Made Up's own code.")).to_be_visible()
    page.get_by_role("button", name="Run the trial").click()
    expect(page.get_by_text("memory is as predicted")).to_be_visible()
    settle(page)
    on_every_page(page)
    assert "framework=made_up" in page.url
    # Read as it stands: the product here knows no such framework.
    (file,) = data.glob("trials/*/result.json")
    result = json.loads(file.read_text("utf-8"))
    assert "framework=made_up" in result["ran"][0]["plan"]
    measured, predicted = (
        {phase["name"]: phase["requested_bytes"] for phase in result[side]["phases"]}
        for side in ("measured", "predicted")
    )
    assert {"reference log-probs", "policy backward"} <= measured.keys()
    for name, found in measured.items():
        assert predicted[name] == pytest.approx(found, rel=TOLERANCE), name
