"""``python -m planner lengths``: a file or a few figures as the text that a link carries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from planner.__main__ import main
from planner.lengths.text import canonical, from_text

ROOT = Path(__file__).parents[2]


def written(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["lengths", *arguments]) == 0
    text = capsys.readouterr().out.strip()
    assert canonical(text) == text
    return text


def test_a_file_becomes_the_text_of_a_link(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "lengths.csv"
    file.write_text("tokens,count\n" + "".join(f"{at},{at % 7 + 1}\n" for at in range(1, 900)))
    shape = from_text(written(capsys, str(file)))
    assert shape.longest == 899 and len(shape.bins) <= 64


def test_figures_become_a_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert written(capsys, "--mean", "800", "--spread", "700") == "1~lognormal_800~700"
    assert written(capsys, "--low", "100", "--high", "900") == "1~uniform_100~900"
    assert written(capsys, "--mean", "900", "--cut", "0.05", "--cap", "2048").startswith("1~log")
    assert main(["lengths", "--typical", "1024"]) == 0
    told = capsys.readouterr()
    assert "pull request 5759" in told.err and told.out.startswith("1~lognormal")


def test_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lengths", "--low", "1", "--high", "4", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["mean_tokens"], answer["longest_tokens"]) == (2.5, 4)
    assert [one["share"] for one in answer["bins"]] == [0.25] * 4


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--mean", "5"], "--mean with --spread"),
        (["nowhere.csv"], "No such file"),
        (["-", "--mean", "5"], "not both"),
        (["--mean", "5", "--spread", "9999999"], "spread of 9,999,999"),
        (["--mean", "nan", "--spread", "5"], "mean of nan"),
        (["--mean", "inf", "--spread", "5"], "mean of inf"),
        (["--mean", "900", "--cut", "0", "--cap", "2048"], "give mean and spread"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lengths", *arguments]) == 2
    assert says in capsys.readouterr().err


def test_texts_are_counted_by_a_models_own_tokenizer(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    inner = Tokenizer(models.WordLevel({"one": 0, "two": 1, "<unk>": 2}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"})
    )
    lines = '{"output": "one two"}\n{"output": "one two two one"}\n{"output": "one"}\n'
    done = subprocess.run(
        [sys.executable, "-m", "planner", "lengths", "-", "--tokenizer", str(tmp_path)],
        cwd=ROOT,
        input=lines,
        capture_output=True,
        text=True,
    )
    # Each response ends with a token of its own.
    assert done.stdout.strip() == "1~hist_2~1_3~1_5~1", done.stderr


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "planner", "lengths", "-", "--tokenizer", str(tmp_path / "no")],
        cwd=ROOT,
        input='{"output": "one two"}\n',
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2 and done.stderr.startswith("tokenizer: none can be read from")
