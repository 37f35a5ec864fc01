"""Every sentence of docs/adding.md holds: each is known here word for word, with what holds it.

Lines above a block and what blocks show are followed by ``test_recipes.py``. A sentence that is
changed, added or left out fails here until somebody says again what holds it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from planner.plan.migrations import VERSION
from recipes import ROOT, product, recipes, run

Check = Callable[[Path], None]
ABOUT = "says what the example is"
FOLDERS = "tests/{}/test_a_folder_is_enough.py"
PHASE = "tests/methods/test_a_phase_of_its_own.py"
METHOD, FRAMEWORK = FOLDERS.format("methods"), FOLDERS.format("frameworks")


def edited(copy: Path, title: str, **changes: object) -> None:
    """The recipe's row with other values; None leaves a key out."""
    for file, name, row in recipes()[title].rows:
        rows = json.loads((copy / file).read_text("utf-8"))
        kept = {**row, **changes}  # type: ignore[dict-item]
        rows[name][-1] = {key: value for key, value in kept.items() if value != "left out"}
        (copy / file).write_text(json.dumps(rows), "utf-8")


def a_figure_without_its_source_is_refused(copy: Path) -> None:
    edited(copy, "A model", params_source="left out")
    said = run(copy, "-c", "from planner import catalog; catalog.models()", status=1)
    assert "CatalogError: models.json" in said and "params_source" in said


def a_card_nobody_has_seen_is_listed_as_unsupported(copy: Path) -> None:
    edited(copy, "A GPU", memory_torch_bytes=None)
    why = "nobody has reported its usable bytes"
    (line,) = [one for one in run(copy, "-m", "planner", "gpus").splitlines() if "made-up" in one]
    assert "Made-up card" in line and why in line
    said = run(copy, "-m", "planner", "estimate", "gpu=made-up-60gb", status=2)
    assert said.startswith("gpu: made-up-60gb is unsupported") and why in said


def liger_asks_for_multiprocessors(copy: Path) -> None:
    edited(copy, "A GPU", multiprocessors="left out")
    query = "gpu=made-up-60gb&model=Qwen/Qwen3-0.6B"
    assert "Made-up card" in run(copy, "-m", "planner", "estimate", query)
    said = run(copy, "-m", "planner", "estimate", f"{query}&liger=true", status=2)
    assert said.startswith("gpu: ") and "multiprocessors" in said


TRAINER = "from planner.values.framework import Trainer\nTRAINER = Trainer()\n"
ON_VERL = "method=made-up&framework=verl&model=Qwen/Qwen2.5-0.5B&gpus=2"


def a_framework_trains_it_once_the_pair_has_a_room(copy: Path) -> None:
    said = run(copy, "-m", "planner", "estimate", ON_VERL, status=2)
    assert "verl has no trainer for Made Up." in said
    for room in ("methods/made_up/on_verl.py", "frameworks/verl/trainers/made_up.py"):
        (copy / "planner" / room).write_text(TRAINER, "utf-8")
        said = run(copy, "-m", "planner", "estimate", ON_VERL)
        assert "Made Up of Qwen2.5-0.5B with verl" in said
        (copy / "planner" / room).unlink()


OLD = f"""
from planner.plan.link import from_query
from planner.plan.query import to_query
from planner.plan import Plan

query = {{**to_query(Plan()), "v": "{VERSION}"}}
del query["made_up_weight"]
reading = from_query(query)
print([problem.message for problem in reading.problems], reading.plan.made_up_weight)
"""


def a_new_word_of_links_says_from_which_version_on(copy: Path) -> None:
    """A complete link from before it is whole; without the entry it would have been cut off."""
    assert "The link was cut off" in run(copy, "-c", OLD)
    file = copy / "planner/methods/made_up/fields.py"
    written, said = file.read_text("utf-8"), '"How much the teacher counts."\n'
    assert written.count(said) == 1
    file.write_text(written.replace(said, f"{said[:-1]}, since={VERSION + 1}\n"), "utf-8")
    assert run(copy, "-c", OLD) == "[] 7\n"


FIELD = """
from planner import Plan, sweep
from planner.cli.sweep import parse_axis
from planner.dryrun.ask.stand_in import stand_in
from planner.launch.export import obstacles
from planner.plan import try_plan
from planner.plan.link import from_query
from planner.plan.migrations import VERSION
from planner.plan.query import to_query
from planner.plan.relevance import without_effect
from planner.search.options import space_of
from planner.search.wish import Wish
from planner.ui.inputs.groups import GROUPS
from planner.wording import fields, subjects

NAME = "made_up_minutes"
plan = Plan(model="Qwen/Qwen2.5-0.5B", gpus=1, made_up_minutes=30)
assert from_query(to_query(plan)).plan == plan
old = {**to_query(Plan()), "v": str(VERSION - 1)}
del old[NAME]
reading = from_query(old)
assert reading.plan == Plan() and not reading.problems, reading
[money] = [group.fields for group in GROUPS if group.key == "money"]
assert money.index("save_steps") < money.index(NAME) < money.index("eval_steps"), money
assert fields.label(NAME) == "Backup every, minutes"
help = fields.help_text(NAME)
assert help.startswith("Minutes between two backups; empty: no backups. Training goes on"), help
assert subjects.find("snapshot")[0].key == NAME
[problem] = try_plan({NAME: 90})[1]
assert problem.sentence == "Backups are at most an hour apart. Set made_up_minutes to 60 or less."
assert fields.labelled(problem.fix) == "Set “Backup every” to 60 or less."
assert without_effect(plan.changed(steps=1))[NAME] == "the run has one step"
assert len(sweep(plan, dict([parse_axis(f"{NAME}=0,30,60")]))) == 3
[tried] = [block for block in space_of(plan, Wish()).trainer if NAME in block[0]]
assert tried == ({NAME: 30}, {NAME: 0}), tried
assert [one.why for one in obstacles(plan, "trl") if one.field == NAME] == [
    "No script makes backups."
]
executed = stand_in(plan)
assert executed.otherwise == ("No backup was made.",) and executed.plan.made_up_minutes == 0
print("read")
"""


def one_row_is_all_of_a_field(copy: Path) -> None:
    assert run(copy, "-c", FIELD) == "read\n"


def a_row_says_no_more_than_its_type_lists(copy: Path) -> None:
    rows = copy / "planner/plan/fields/rollout.py"
    written = rows.read_text("utf-8")
    rows.write_text(written.replace("not_run=\"No backup", "not_ran=\"No backup"), "utf-8")
    assert "not_ran" in run(copy, "-c", "import planner.plan", status=1)


def without_exporter_or_trainer_it_is_refused_with_a_sentence(copy: Path) -> None:
    (copy / "planner/frameworks/made_up/exporter.py").unlink()
    query = "framework=made_up&model=Qwen/Qwen2.5-0.5B&gpus=1"
    assert "with Made Up 7" in run(copy, "-m", "planner", "estimate", query)
    said = run(copy, "-m", "planner", "launch", query, "--framework", "made_up", status=2)
    assert "has no exporter" in said
    said = run(copy, "-m", "planner", "estimate", f"{query}&method=sft", status=2)
    assert "Made Up has no trainer for SFT. Set framework to plain or trl or hf_trainer." in said


MADE_UP = "framework=made_up&model=Qwen/Qwen2.5-0.5B&gpus=1"
PLAIN = MADE_UP.replace("made_up", "plain")
OWN_TRIALS = """
import json
from dataclasses import replace
from pathlib import Path

from planner.estimate import estimate
from planner.plan import Plan
from planner.trial.evidence.kind import error_kind
from planner.trial.evidence.stated_error import Compared, stated

plan = Plan(framework="made_up", model="Qwen/Qwen2.5-0.5B", gpus=1)
found = estimate(plan)
kind, size = error_kind(plan), found.worst.device_bytes
measured = dict(gpu=plan.gpu, kind=kind, predicted_bytes=size, measured_bytes=size)
own = Compared(rung="estimate", method="grpo", phase=found.worst.name, **measured)
print(stated(found, [own], ()).error)
"""


def a_framework_whose_loop_nobody_read_is_incomplete(copy: Path) -> None:
    """On every way out, with no error, whatever trials of our step said in its name."""
    answer = json.loads(run(copy, "-m", "planner", "estimate", MADE_UP, "--json"))
    assert answer["verdict"]["incomplete"] and answer["cost"]["usd_run"] is None
    assert answer["error"]["low"] is answer["error"]["high"] is None
    assert "nobody has read Made Up's training loop" in answer["error"]["from"]
    assert "Made Up's training loop is left out" in answer["assumptions"][0]
    like = json.loads(run(copy, "-m", "planner", "estimate", PLAIN, "--json"))
    assert not like["verdict"]["incomplete"] and "left out" not in str(like["assumptions"])
    run(copy, "-m", "planner", "report", MADE_UP, "--output", "report.html")
    report = (copy / "report.html").read_text("utf-8")
    assert "training loop is left out" in report and "✓" not in report
    over = ("--over", "framework=made_up,plain", "--over", "framework_version=7,1", "--json")
    table = json.loads(run(copy, "-m", "planner", "sweep", MADE_UP, *over))
    words = {row["framework"]: row["verdict"] for row in table if row["valid"]}
    assert words == {"made_up": "incomplete", "plain": "fits"}
    assert run(copy, "-m", "planner", "advise", MADE_UP).startswith("Incomplete: ")
    said = run(copy, "-m", "planner", "recommend", MADE_UP)
    assert "balanced: incomplete" in said and ": fits" not in said
    assert "low=None, high=None" in run(copy, "-c", OWN_TRIALS)


def a_loop_that_was_read_is_judged(copy: Path) -> None:
    file = copy / "planner/frameworks/made_up/__init__.py"
    file.write_text(file.read_text("utf-8").replace('loop_read=""', 'loop_read="step.py"'), "utf-8")
    answer = json.loads(run(copy, "-m", "planner", "estimate", MADE_UP, "--json"))
    assert not answer["verdict"]["incomplete"] and "left out" not in str(answer["assumptions"])
    assert answer["cost"]["usd_run"] > 0
    assert "low=0.0, high=0.0" in run(copy, "-c", OWN_TRIALS)
    file.write_text(file.read_text("utf-8").replace('    loop_read="step.py",\n', ""), "utf-8")
    assert "'loop_read'" in run(copy, "-m", "planner", "estimate", MADE_UP, status=1)


HELD: dict[str, dict[str, Check | str]] = {
    "A model": {
        "Every figure has a source.": a_figure_without_its_source_is_refused,
        "`tests/catalog/` builds the model from `config` without weights and compares the "
        "parameter counts; `scripts/evidence` stores the result.": "tests/catalog/test_rebuild.py",
        "An architecture that no file in `planner/catalog/families/` covers needs a file "
        "there and its layer in `planner/formulas/activations/decoder.py`, tested against the"
        " real module, or coefficients measured by a dry run "
        "([coefficients.md](coefficients.md)).": ("tests/formulas/test_activations_model.py"),
    },
    "A GPU": {
        "A named provider's price for a GPU is a row of `planner/catalog/offers.json`, with kind "
        "(*on demand*, *spot*, or empty if the source does not say), date and source.": (
            "tests/catalog/test_offers.py"
        ),
        "Without such a row, Recommend says that the catalog has no provider's price for the "
        "GPU.": (
            "tests/search/test_cards.py"
        ),
        "The budget is `memory_torch_bytes`, the least that torch was seen to report, never "
        "the advertised size; with `null` there the GPU is listed as unsupported.": (
            a_card_nobody_has_seen_is_listed_as_unsupported
        ),
        "Liger kernels need `multiprocessors`.": liger_asks_for_multiprocessors,
    },
    "A method": {
        "A folder in `planner/methods/`.": METHOD,
        "The example trains on given responses, each token weighted by a frozen teacher's "
        "log-probability; it adds a field, a model and a phase.": ABOUT,
        "Rules, defaults, links, pages, sweeps and the command line find the method by "
        "themselves.": METHOD,
        "`planner/values/method.py` lists what else a method can declare; phases and steps "
        "that methods share are functions in `planner/phases/` and `planner/steps/`.": (
            "tests/test_layering.py"
        ),
        "A framework trains it once there is a file for the pair: `on_verl.py` in the "
        "method's folder, or a file with the folder's name in "
        "`planner/frameworks/verl/trainers/`, that defines a `TRAINER` "
        "(`planner/values/framework.py`).": a_framework_trains_it_once_the_pair_has_a_room,
        "One that runs another method's command says in `variations`, under its own method's name, "
        "what makes it its own; `launch` refuses it otherwise.": (
            "tests/launch/test_copied_trainers.py"
        ),
        "Before a release: a new field is a new key in links, so give it the next version, "
        "`since=`; add a plan that breaks each rule to `tests/plan/test_rules.py` and a row to"
        " [methods.md](methods.md); write [fields.md](fields.md) with `python -m planner "
        "fields` and [field-effects.md](field-effects.md) with `PYTHONPATH=. python "
        "tests/field_effects.py`.": a_new_word_of_links_says_from_which_version_on,
    },
    "A phase": {
        "A phase in which the step waits for something else (tools, an environment, a reward "
        "service) brings its seconds itself.": PHASE,
        "In the example GRPO's responses use tools before they are scored, 64 responses at once, "
        "and a field says for how long.": ABOUT,
        "`waiting` gives the phase what stands on the GPUs at that moment, so that `memory.py` "
        "alone says what the phase is.": PHASE,
        "The seconds are terms with formula, inputs and source, as all others are, and a step's "
        "time, its interval, price and charts count them.": PHASE,
        "`factors` are how far they may be off: published runs say nothing of them.": PHASE,
    },
    "A field": {
        "What every plan has is a row in `planner/plan/fields/`, in the file of what it is "
        "about.": "tests/ui/test_tables.py",
        "In the example a run is backed up from time to time.": ABOUT,
        "Link, old links, sidebar, help, the search over settings, rules, notes, sweeps, searches, "
        "exports and dry runs read the row.": one_row_is_all_of_a_field,
        "`planner/values/field.py` lists what else it can say.": (
            a_row_says_no_more_than_its_type_lists
        ),
        "What asks more than other fields (a method, a loss, a reference) stands in "
        "`planner/plan/rules.py` and `planner/plan/relevance.py`, what asks the catalog in "
        "`planner/plan/facts.py`.": "tests/plan/test_rules.py",
        "A number that divides what a GPU has goes where that is made: GPUs in "
        "`planner/values/dealing.py`, a model's layers in `planner/plan/facts.py`, collectives in "
        "a wrapper around the tape's parts ([axes](axes.md)).": "tests/formulas/test_mesh.py",
        "[Decision 0037](decisions/0037-a-field-is-one-row.md) has every file that such a field "
        "was tried with, and why.": "tests/test_docs.py",
        "Before a release: `since` is the next version of links; write [fields.md](fields.md) "
        "with `python -m planner fields` and [field-effects.md](field-effects.md) with "
        "`PYTHONPATH=. python tests/field_effects.py`.": "tests/test_docs.py",
    },
    "A framework": {
        "A folder in `planner/frameworks/` that says where the framework's code differs from "
        "the step of this project.": FRAMEWORK,
        "The example sends updated weights to the engine in buckets of 3 GiB and keeps its "
        "reference in fp32.": ABOUT,
        "Nobody has read its training loop (`loop_read`), so its plans are incomplete: their "
        "numbers are those of our own step with these facts, their error is not known, and nobody "
        "prices them.": a_framework_whose_loop_nobody_read_is_incomplete,
        "Once the loop is read, `loop_read` names the files.": a_loop_that_was_read_is_judged,
        "What the framework calls a plan's settings (`words`), and settings that no plan has "
        "(`beside`, by the subjects of `planner/wording/subjects.py`), appear in labels, helps "
        "and the search over settings.": "tests/ui/test_settings_search.py",
        "`planner/values/framework.py` lists what else a framework's code may do, in the core's "
        "own words: what it makes of a model of the plan is fields of `ModelSetup`, how weights "
        "reach an engine one answer.": "tests/frameworks/test_facts.py",
        "Without `exporter.py` plans are estimated but not exported; a method without a file "
        "in `trainers/` is refused, with the frameworks that do train it.": (
            without_exporter_or_trainer_it_is_refused_with_a_sentence
        ),
        "Dry runs and trials run the step of this project with these facts, and say that this"
        " does not check the framework's code.": FRAMEWORK,
        "The framework's own code runs if the folder has `own_step.py`, which says what it "
        "cannot run (`own_step` in `planner/plan/frameworks.py`), and `run/step.py` with "
        "`execute(plan, configs, on)`; for trials also `run/trial.py` with `train(plans, "
        "configs, stage, mark, begins, *, several)`.": FRAMEWORK,
        "These files are required if the framework's loss has a path that is in "
        "`planner/formulas/logits/` but not in our step.": "tests/frameworks/test_verl_step.py",
        "A `log.py` with `read(log)` reads the lines that its trainers print "
        "(`planner/importer/logs/reading.py`).": "tests/importer/test_logs.py",
        "`LossCode.paths` lists the losses that the framework has itself.": (
            "tests/plan/test_loss.py"
        ),
        "If a plan's `logits` names another one, it is estimated and dry-run as the step of "
        "this project computes it (`AS_NAMED` in `planner/values/loss_code.py`), because older"
        " releases and other trainers have such losses.": "tests/plan/test_loss.py",
        "The estimate says so above its verdict, advice and search do not propose it, and "
        "`launch` refuses it with the same sentence (`foreign` in `planner/plan/loss.py`).": (
            "tests/plan/test_loss.py"
        ),
        "A method that no framework has can bring its own training program: `on_plain.py` in "
        "its folder names a `Program`, whose templates are runnable Python files in "
        "`program/` next to it, with an empty `PLAN` ([decision "
        "0017](decisions/0017-programs-of-our-own.md)); see GRADE's.": (
            "tests/launch/test_programs.py"
        ),
        "Before a release: add figures of its decisions, read in its source, to "
        "`tests/frameworks/test_facts.py` and its name to `tests/frameworks/test_limits.py`; "
        "write [fields.md](fields.md) with `python -m planner fields` and "
        "[field-effects.md](field-effects.md) with `PYTHONPATH=. python "
        "tests/field_effects.py`.": "tests/test_docs.py",
    },
}
"""Each sentence, and what holds it: a check in a copy of the product, or the tests that do."""
CHECKS = [
    pytest.param(title, check, id=check.__name__)
    for title, sentences in HELD.items()
    for check in sentences.values()
    if callable(check)
]


@pytest.mark.parametrize("title", HELD)
def test_every_sentence_is_one_that_something_holds(title: str) -> None:
    assert [*recipes()[title].sentences] == [*HELD[title]]
    files = [held for held in HELD[title].values() if isinstance(held, str) and held != ABOUT]
    assert all((ROOT / file).is_file() for file in files)


def test_no_recipe_is_without_its_sentences() -> None:
    assert HELD.keys() == recipes().keys()


@pytest.mark.parametrize(("title", "check"), CHECKS)
def test_what_a_sentence_says_is_so(title: str, check: Check, tmp_path: Path) -> None:
    check(product(tmp_path, title))
