"""Paths in scripts, and the models that they are called after."""

import pytest

from planner.importer.models import catalog_id


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-7B"),
        ("qwen/qwen2.5-7b", "Qwen/Qwen2.5-7B"),
        ("$HOME/models/Qwen/Qwen2.5-7B/", "Qwen/Qwen2.5-7B"),
        ("/data/ckpt/Qwen3-4B", "Qwen/Qwen3-4B"),
        ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-4B/snapshots/1cfa9a", "Qwen/Qwen3-4B"),
        ("somebody/Qwen2.5-7B", "Qwen/Qwen2.5-7B"),
        ("/data/Qwen2.5-7B/actor", None),
        ("$MODEL", None),
        ("", None),
        ("/" * 100_000, None),
    ],
)
def test_a_path_means_the_model_that_it_ends_in(text: str, found: str | None) -> None:
    assert catalog_id(text) == found


def test_a_name_that_two_owners_have_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.importer import models

    monkeypatch.setattr(models, "ids", lambda: ("a/Twin", "b/Twin", "a/Only"))
    models._known.cache_clear()
    try:
        assert [catalog_id(name) for name in ("Twin", "b/Twin", "x/Only")] == [
            None, "b/Twin", "a/Only",
        ]  # fmt: skip
    finally:
        models._known.cache_clear()
