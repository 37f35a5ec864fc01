"""The Launch page: scripts, programs, or the fields in the way."""

from __future__ import annotations

from ui.opened_pages import opened, words

INTUITOR = "intuitor-1.5b@1"


def test_launch_shows_a_script_or_the_fields_in_the_way() -> None:
    app = opened("launch")
    assert any(code.value.startswith("#!") for code in app.code)
    app.segmented_control(key="export to").set_value("verl").run()
    assert not app.exception
    assert "density weights" not in app.session_state
    app = opened("launch", v="1", preset=INTUITOR)
    assert app.segmented_control(key="export to").value == "trl"
    assert "cannot run this plan" in app.warning[0].value  # the preset reads chunks of tokens
    before = words(app).replace("\\", "")
    assert "TRL can run it with " in before and "Framework Plain PyTorch → TRL" in before
    assert "GPU peak " in before and "run $" in before  # what it costs, before it is pressed
    app.button(key="fit-framework").click().run()
    assert "with TRL 1.16.0" in words(app)
    assert any("class IntuitorTrainer(GRPOTrainer)" in code.value for code in app.code)
    app = opened("launch", v="1", preset=INTUITOR)
    app.segmented_control(key="export to").set_value("verl").run()
    assert "cannot run this plan" in app.warning[0].value
    assert "Export it to Plain PyTorch or TRL" in str(app.dataframe[0].value.to_dict())


def test_launch_writes_a_job_for_what_launches_it_and_offers_nothing_that_cannot() -> None:
    app = opened("launch", v="9", preset="sft-8b@1", gpus="16")
    by = app.segmented_control(key="launched by")
    assert by.options == ["2 machines", "Slurm"] and "a process of its own on each of 2" in by.help
    assert not any("#SBATCH" in code.value for code in app.code)
    by.set_value("slurm").run()
    assert not app.exception
    assert any("#SBATCH --nodes=2" in code.value for code in app.code)
    assert any("sbatch job.sbatch" in code.value for code in app.code)
    app.switch_page("pages/scaling.py").run()
    app.switch_page("pages/launch.py").run()
    assert app.segmented_control(key="launched by").value == "slurm"
    app = opened("launch", v="9", preset="sft-8b@1")
    by = app.segmented_control(key="launched by")
    assert by.options == ["One machine", "Slurm", "Ray cluster"]
    by.set_value("ray").run()
    assert not app.exception and any("ray job submit" in code.value for code in app.code)


def test_a_plan_says_beforehand_what_launch_will_refuse() -> None:
    told = words(opened("plan", v="9", preset="grpo-7b@1", framework="verl", reward="model"))
    assert "Launch writes no verl script for this plan as it is: Reward" in told
    assert "Launch writes no" not in words(opened("plan", v="9", preset="grpo-lora-1gpu@1"))


def test_launch_offers_density_weights_where_a_program_can_draw_by_them() -> None:
    app = opened("launch")
    app.segmented_control(key="export to").set_value("trl").run()
    assert not any("DensitySampler" in code.value for code in app.code)
    app.segmented_control(key="density weights").set_value("online").run()
    assert not app.exception
    assert any("class DensitySampler(RepeatSampler)" in code.value for code in app.code)
    app.segmented_control(key="export to").set_value("verl").run()
    assert not app.exception and "density weights" not in {c.key for c in app.segmented_control}


def test_launch_offers_the_program_of_a_method_that_no_framework_has() -> None:
    app = opened("launch", v="1", preset="doc-001-optimised@1")
    assert not app.exception and not app.warning
    assert app.segmented_control(key="export to").value == "plain"
    assert any("PLAN: dict[str, Any] = {" in code.value for code in app.code)
    # A plan of this project's own step that a framework trains opens there.
    assert opened("launch").segmented_control(key="export to").value == "trl"


def test_launch_keeps_its_framework_while_another_page_is_open() -> None:
    app = opened("launch")
    app.segmented_control(key="export to").set_value("verl").run()
    app.switch_page("pages/scaling.py").run()
    app.switch_page("pages/launch.py").run()
    assert not app.exception
    assert app.segmented_control(key="export to").value == "verl"
    assert any("verl" in code.value for code in app.code)


BLOCKED = {"v": "8", "preset": "grpo-7b@1", "model": "Qwen/Qwen2.5-14B", "gpu": "a100-40gb"}


def test_no_button_leads_to_a_plan_that_does_not_fit_and_one_press_makes_it_fit() -> None:
    app = opened("launch", **BLOCKED, response_tokens="8192")
    app.segmented_control(key="export to").set_value("trl").run()
    assert "1 setting is in the way" in app.warning[0].value
    assert "fit-framework" not in [button.key for button in app.button]
    assert any("But then it does not fit here" in box.value for box in app.info)
    qlora = {"finetuning": "qlora", "sharding": "none", "reference": "adapter-disabled"}
    small = {"model": "Qwen/Qwen3-4B", "gpu": "rtx-4090", "gpus": "1", "response_tokens": "1024"}
    app = opened("launch", **{**BLOCKED, **qlora, **small})
    app.segmented_control(key="export to").set_value("trl").run()
    button = app.button(key="fit-framework")
    assert button.label == "Change the plan so that TRL can run it and make it fit"
    button.click().run()
    assert not app.exception and "Fits. Peak " in app.success[0].value
    assert any(code.value.startswith("#!") for code in app.code)


def test_launch_names_what_it_writes_nothing_for_and_what_to_do_meanwhile() -> None:
    said = words(opened("launch"))
    (lines,) = [text for text in said.split("\n\n") if "Kubernetes and other schedulers" in text]
    assert lines.count("Meanwhile") == 5
    assert all(f"**{name}.**" in lines for name in ("OpenRLHF", "Unsloth", "Other frameworks"))
