"""Response lengths in the sidebar: at the cap, the offered shape, one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from own_tokenizer import lines, words_file
from planner.lengths.text import to_text
from planner.lengths.typical import typical
from ui.opened_pages import field, link_of, opened, words

KEY = "response lengths"


def lengths(app: Any) -> Any:
    return app.selectbox(key=KEY)


def step_time(app: Any) -> str:
    [found] = [str(one.value) for one in app.metric if one.label == "Step time"]
    return found


def shown(app: Any) -> bool:
    return any(box.key == KEY for box in app.selectbox)


def own(way: str) -> Any:
    app = opened()
    lengths(app).set_value("own").run()
    app.segmented_control(key="own lengths way").set_value(way).run()
    return app


def test_the_offered_shape_is_a_choice_with_its_source() -> None:
    app = opened()
    cap = field(app, "response_tokens").value
    assert lengths(app).value == "cap" and not link_of(app)["length_distribution"]
    assert "pull request 5759" in lengths(app).help
    lengths(app).set_value("typical").run()
    assert link_of(app)["length_distribution"] == to_text(typical(cap))
    assert f"14% cut at {cap:,}" in words(app)
    assert "Times assume responses of" in words(app)
    lengths(app).set_value("cap").run()
    assert not link_of(app)["length_distribution"]


def test_pasted_counts_enter_the_link_and_the_memory() -> None:
    app = own("Counts")
    before = step_time(app)
    app.text_area(key="pasted lengths").set_value("100\n300\n300\n").run()
    assert link_of(app)["length_distribution"] == "1~hist_100~1_300~2"
    assert "Responses of 233 tokens on average (counted, at most 300)." in words(app)
    assert "No response of the distribution is longer than 300 tokens" in words(app)
    assert step_time(app) != before and lengths(app).value == "own"


def test_bad_counts_are_refused_and_nothing_is_lost() -> None:
    app = own("Counts")
    app.text_area(key="pasted lengths").set_value("100\nmany\n").run()
    assert any("'many' is no whole number" in error.value for error in app.error)
    assert not app.success and "Still showing the last plan" in words(app)
    assert not link_of(app)["length_distribution"]
    app.text_area(key="pasted lengths").set_value("100\n").run()
    assert not app.error and link_of(app)["length_distribution"] == "1~hist_100~1"


def test_a_file_of_counts_is_taken() -> None:
    app = own("File")
    app.file_uploader(key="uploaded lengths").upload("a.csv", b"tokens,count\n5,1\n9,1\n").run()
    assert link_of(app)["length_distribution"] == "1~hist_5~1_9~1"
    app.file_uploader(key="uploaded lengths").upload("a.csv", b"\xff\xfe\x00").run()
    assert any("not UTF-8" in error.value for error in app.error)


def with_texts(content: bytes = lines("a a a", "a", "a a")) -> Any:
    app = own("File")
    app.file_uploader(key="uploaded lengths").upload("answers.jsonl", content).run()
    return app


def counted(app: Any) -> Any:
    """The page once what was begun is over."""
    app.button(key="count-tokens").click().run()
    assert app.session_state["counting"].wait(60)
    return app.run()


def test_texts_wait_for_a_tokenizer_and_are_counted_by_it() -> None:
    app = with_texts()
    assert not app.error and "answers.jsonl holds texts" in words(app)
    assert "nothing is downloaded" in words(app) and app.button(key="count-tokens").disabled
    uploaded = app.file_uploader(key="uploaded tokenizer")
    uploaded.upload("tokenizer.json", words_file()).run()
    assert "Tokens are counted by the uploaded tokenizer.json." in words(app)
    app = counted(app)
    assert not app.exception and not app.error
    assert link_of(app)["length_distribution"] == "1~hist_2~1_3~1_4~1"
    assert "Counted 3 texts of answers.jsonl, from 2 to 4 tokens long." in words(app)
    assert not any(one.key == "count-tokens" for one in app.button)


def test_a_line_that_is_no_text_is_named_and_the_texts_stay() -> None:
    bad = b'\n{"completion": 3}'
    app = with_texts(lines("a", "a") + bad)
    assert any("line 3" in error.value for error in app.error)
    # One that a first look does not reach is named by who counts.
    app = with_texts(lines(*["a"] * 300) + bad)
    app.file_uploader(key="uploaded tokenizer").upload("t.json", words_file()).run()
    app = counted(app)
    assert any("Line 301" in error.value for error in app.error)
    assert not link_of(app)["length_distribution"] and "holds texts" in words(app)
    app.file_uploader(key="uploaded tokenizer").upload("t.json", b"{}").run()
    app = counted(app)
    assert any("No model of a tokenizer is in it" in error.value for error in app.error)
    app.button(key="count-drop").click().run()
    assert "holds texts" not in words(app) and not app.error


def test_a_tokenizer_on_this_machine_is_used_and_none_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_file = tmp_path / "tokenizer.json"
    own_file.write_bytes(words_file())
    monkeypatch.setattr("planner.ui.inputs.texts.tokenizer_on_this_machine", lambda _: own_file)
    app = with_texts()
    assert "own tokenizer, which is on this machine" in words(app)
    app = counted(app)
    assert link_of(app)["length_distribution"] == "1~hist_2~1_3~1_4~1"


def test_pasted_texts_wait_for_a_tokenizer_too() -> None:
    app = own("Counts")
    # What str.splitlines takes for the end of a line stands in many texts.
    app.text_area(key="pasted lengths").set_value('{"completion": "a\u2028a"}').run()
    assert "What was pasted holds texts" in words(app) and not app.error


def test_a_mean_and_a_spread_are_a_lognormal() -> None:
    app = own("Mean")
    app.number_input(key="lengths mean").set_value(800).run()
    app.number_input(key="lengths spread").set_value(700).run()
    app.button(key="use lengths").click().run()
    assert link_of(app)["length_distribution"] == "1~lognormal_800~700"


def test_a_log_that_no_lognormal_has_is_refused() -> None:
    app = own("Log")
    app.number_input(key="lengths cut").set_value(60.0).run()
    app.number_input(key="lengths mean").set_value(10).run()
    app.button(key="use lengths").click().run()
    assert any("cannot have" in error.value for error in app.error)
    app.number_input(key="lengths cut").set_value(5.0).run()
    app.number_input(key="lengths mean").set_value(700).run()
    app.button(key="use lengths").click().run()
    assert link_of(app)["length_distribution"].startswith("1~lognormal_")
    assert "Responses of 700 tokens" in words(app) or "Responses of 701 tokens" in words(app)


def test_a_link_with_lengths_opens_as_ones_own() -> None:
    app = opened(v="4", length_distribution="1~hist_100~1_300~1")
    assert lengths(app).value == "own"
    app.selectbox(key="preset").set_value("sft-8b@1").run()
    assert lengths(app).value == "cap"


def test_lengths_are_not_asked_for_where_rows_have_one() -> None:
    assert not shown(opened(v="4", batch_shape="full"))
    assert not shown(opened(v="4", method="grade"))


def test_a_run_that_ends_late_is_told_from_which_length_on() -> None:
    late = opened(
        v="4", response_tokens="16384", micro_batch_size="4", prompts_per_step="64",
        prompts_per_update="64", length_distribution="1~hist_500~900_1500~90_3000~9_16000~1",
    )
    assert "Longest response.** Responses of up to" in words(late)
    assert "ends out of memory after about" in words(late)
    assert "Longest response" not in words(opened())
