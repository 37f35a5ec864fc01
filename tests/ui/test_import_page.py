"""The Import page: paste, see what was understood, take the file back."""

from __future__ import annotations

import json

from importer.test_imported import OOM, VERL
from importer.test_own_trial import record
from ui.opened_pages import opened, words

BIG = VERL.replace("7B-Instruct", "32B-Instruct").replace("micro=32", "micro=64")


def test_a_pasted_script_becomes_the_page_s_plan_and_comes_back_changed() -> None:
    app = opened("import")
    assert "Nothing of it is run" in words(app)
    app.text_area(key="import paste").set_value(BIG).run()
    app.button(key="import-read").click().run()
    assert not app.exception
    assert "GRPO of Qwen2.5-32B-Instruct with verl" in words(app)
    assert app.session_state["draft"].plan.micro_batch_size == 64
    assert "Out of memory." in words(app)
    app.selectbox(key="import-ask:gpu").select("H200 141GB SXM5").run()
    assert app.session_state["draft"].plan.gpu == "h200-141gb"
    app.button(key="import-fit").click().run()
    assert not app.exception
    diff = next(code.value for code in app.code if code.value.startswith("--- "))
    # The variable stays, since log-probs keep its value.
    assert "micro=64\n" not in diff and "+    actor_rollout_ref.actor.ppo_micro_batch_size" in diff


def test_a_message_pasted_below_is_explained_beside_the_plan() -> None:
    app = opened("import")
    for text in (BIG, OOM):
        app.text_area(key="import paste").set_value(text).run()
        app.button(key="import-read").click().run()
        assert not app.exception
    assert any("CUDA out of memory" in code.value for code in app.code)
    assert "Torch asked for 2 GiB on GPU 3" in words(app).replace("\\", "")
    app.button(key="import-over").click().run()
    assert not app.code


def test_what_nobody_understands_is_said_calmly() -> None:
    app = opened("import")
    app.text_area(key="import paste").set_value("hello there").run()
    app.button(key="import-read").click().run()
    assert not app.exception
    assert "Nothing here was understood" in app.warning[0].value


def test_what_is_not_planned_follows_the_plan_to_other_pages() -> None:
    app = opened("import")
    script = VERL.replace("rollout.name=vllm", "rollout.name=sglang")
    app.text_area(key="import paste").set_value(script).run()
    app.button(key="import-read").click().run()
    assert "of this import could not be used" in words(app)
    app.switch_page("pages/plan.py").run()
    assert not app.exception
    assert "Incomplete" in words(app)
    app.button(key="dismiss-reading").click().run()
    assert "Incomplete" not in words(app)


def test_a_name_that_nobody_knows_is_said_once_and_the_file_still_comes_back() -> None:
    app = opened("import")
    unknown = " +max_turns=2 +a.b=1 +a.c=1 +a.d=1 +a.e=1 +a.f=1 +a.g=1 +a.h=1 +a.i=1 +a.j=1\n"
    app.text_area(key="import paste").set_value(BIG.rstrip() + unknown).run()
    app.button(key="import-read").click().run()
    page = words(app).replace("\\", "")
    assert "Incomplete. “max_turns” 2, “a.b” 1 and 8 more are left out." in page
    assert page.count("knows no such setting") == 1 and "“a.h” 1 and 2 more are left out:" in page
    app.button(key="import-fit").click().run()
    assert not app.exception
    assert "Judged without what is left out of the plan." in words(app)
    assert any(code.value.startswith("--- ") for code in app.code)


def test_a_trial_pasted_back_is_the_page_s_plan_with_what_was_measured() -> None:
    app = opened("import")
    app.text_area(key="import paste").set_value(json.dumps(record())).run()
    app.button(key="import-read").click().run()
    assert not app.exception
    assert "GRPO of Qwen2.5-7B" in words(app)
    assert any("a trial of this planner" in one.value for one in app.subheader)
    assert "It ran on NVIDIA H100 80GB HBM3" in words(app)
    assert app.session_state["draft"].plan.method == "grpo"
