"""What starts programs, against the launchers' own parsers where they are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.importer import launchers
from planner.importer.edited import Addition, edited
from planner.importer.given import Launch, UnreadableError
from planner.importer.shell import read_shell
from shells import Bash


def one(text: str, **beside: str) -> Launch:
    files = {name.replace("_", "."): content for name, content in beside.items()}
    (launch,) = read_shell(text, "run.sh", files)
    return launch


def texts(launch: Launch) -> list[str]:
    return [word.text for word in launch.arguments]


@pytest.mark.parametrize(
    ("text", "program", "arguments", "names"),
    [
        ("python -u -m a.b x=1", "a.b", ["x=1"], []),
        ("python3.11 train.py --a 1", "train.py", ["--a", "1"], []),
        ("./train.py --a", "./train.py", ["--a"], []),
        ("nohup python a.py > log 2>&1 &", "a.py", [], []),
        ("env -u X A=1 B=2 python a.py z", "a.py", ["z"], []),
        ("torchrun --nproc_per_node 8 --standalone a.py --n 1", "a.py", ["--n", "1"], ["torchrun"]),
        ("torchrun --nnodes=2 -m a.b c", "a.b", ["c"], ["torchrun"]),
        ("python -m torch.distributed.run --nproc-per-node=2 a.py", "a.py", [], ["torchrun"]),
        (
            "accelerate launch --config_file c.yaml --multi_gpu --num_processes 4 a.py --x",
            *("a.py", ["--x"], ["accelerate launch"]),
        ),
        ("accelerate launch -m a.b c", "a.b", ["c"], ["accelerate launch"]),
        ("deepspeed --num_gpus 8 a.py --deepspeed d", "a.py", ["--deepspeed", "d"], ["deepspeed"]),
        ("deepspeed --include=localhost:0,1 --module a.b", "a.b", [], ["deepspeed"]),
        (
            "ray job submit --address=http://x --runtime-env r --no-wait -- python3 -m a.b c=1",
            *("a.b", ["c=1"], ["ray job submit"]),
        ),
        ("srun -N 4 --ntasks-per-node=1 -l bash -c 'python -m a.b c'", "a.b", ["c"], ["srun"]),
        ("srun -N4 --label torchrun --nnodes 4 a.py", "a.py", [], ["srun", "torchrun"]),
        ("uv run --with x --no-sync python -m a.b c", "a.b", ["c"], ["uv run"]),
        ("uv run -m a.b c", "a.b", ["c"], ["uv run"]),
        ("uv run rl @ a.toml", "rl", ["@", "a.toml"], ["uv run"]),
        ("trl grpo --config c.yaml", "trl grpo", ["--config", "c.yaml"], []),
        ("llamafactory-cli train c.yaml", "llamafactory-cli train", ["c.yaml"], []),
        ("timeout 3600 numactl -N 0 python a.py", "a.py", [], []),
        ("mpirun -np 8 -x A python a.py", "a.py", [], ["mpirun"]),
        ("$PYTHON -m a.b", "a.b", [], []),
        ("time exec python a.py", "a.py", [], []),
        ("singularity exec --nv -B /a:/b image.sif python a.py q", "a.py", ["q"], []),
    ],
)
def test_a_program_is_taken_out_of_its_launchers(
    text: str, program: str, arguments: list[str], names: list[str]
) -> None:
    launch = one(text)
    assert (launch.program, texts(launch)) == (program, arguments)
    assert [name for name, _ in launch.launchers] == names


@pytest.mark.parametrize(
    "text",
    [
        *("pip install x", "python -c 'print(1)'", "ray start --head", "srun nvidia-smi"),
        *("echo python a.py", "python -V"),
    ],
)
def test_what_trains_nothing_is_no_launch(text: str) -> None:
    assert read_shell(text, "run.sh", {}) == ()


def test_flags_are_those_of_the_launchers_own_parsers() -> None:
    from accelerate.commands.launch import launch_command_parser
    from torch.distributed.run import get_args_parser

    for launcher, parser in (
        (launchers.TORCHRUN, get_args_parser()),
        (launchers.ACCELERATE, launch_command_parser()),
    ):
        actions = parser._actions
        options = [(name, one.nargs == 0) for one in actions for name in one.option_strings]
        assert options and launcher.flags is not None
        for option, flag in options:
            assert (option in launcher.flags) == flag, option


def test_launchers_keep_their_words_and_their_variables() -> None:
    text = """#!/bin/bash
#SBATCH --job-name=x
#SBATCH -N 4
#SBATCH --gres=gpu:h100:8   # eight
#SBATCH --ntasks-per-node=1
N=8
export NCCL_DEBUG=INFO OTHER=1
CUDA_VISIBLE_DEVICES=0,1 srun torchrun --nnodes $SLURM_NNODES --nproc-per-node "$N" a.py
"""
    launch = one(text)
    assert [(name, [word.text for word in words]) for name, words in launch.launchers] == [
        ("sbatch", ["--job-name=x", "-N", "4", "--gres=gpu:h100:8", "--ntasks-per-node=1"]),
        ("srun", []),
        ("torchrun", ["--nnodes", "$SLURM_NNODES", "--nproc-per-node", "8"]),
    ]
    _, nodes, _, processes = launch.launchers[-1][1]
    place = processes.place
    assert place and text[place.start : place.end] == "8" and place.line == 6
    assert [o.name for o in nodes.opens] == ["SLURM_NNODES"]
    assert {name: word.text for name, word in launch.environment.items()} == {
        "NCCL_DEBUG": "INFO",
        "OTHER": "1",
        "CUDA_VISIBLE_DEVICES": "0,1",
    }


def test_scripts_beside_are_read_with_what_they_are_given() -> None:
    inner = '#SBATCH --nodes=2\nsource env.sh\npython -m a.b n=$1 m="$M" x=$X "${@:2}"\n'
    launch = one("export M=5; X=1; sbatch -p gpu run2.sh 8 k=1", run2_sh=inner, env_sh="X=${X:-3}")
    assert (launch.program, texts(launch)) == ("a.b", ["n=8", "m=5", "x=3", "k=1"])
    assert [(n, [w.text for w in words]) for n, words in launch.launchers] == [
        ("sbatch", ["-p", "gpu"]),
        ("sbatch", ["--nodes=2"]),
    ]
    place = launch.arguments[0].part(2).place
    assert place and place.file == "run.sh"
    with pytest.raises(UnreadableError, match=r"run2\.sh, which is not here"):
        read_shell("bash run2.sh", "run.sh", {})


def test_what_comes_from_outside_is_open_and_keeps_its_default() -> None:
    launch = one('source missing.sh; python a.py n=$N m=${M:-7} k=$(nproc) j=$((N/2)) $1 "$@"')
    opens = {word.text: [(o.name, o.default) for o in word.opens] for word in launch.arguments}
    assert opens == {
        "n=$N": [("N", None)],
        "m=7": [("M", "7")],
        "k=$(nproc)": [("$(nproc)", None)],
        "j=$((N/2))": [("N", None)],
        "$1": [("$1", None)],
    }
    assert [(o.name, o.default) for o in launch.opens] == [("source missing.sh", ""), ("$@", "")]
    assert launch.arguments[1].known and not launch.arguments[0].known



@pytest.mark.parametrize(
    ("text", "value", "default"),
    [
        (': "${X:?set it}"; export X\npython a.py', "$X", None),
        (': "${X:=v}"; export X\npython a.py', "v", "v"),
        ("export X\nbash inner.sh", "$X", None),
        ("export X\nX=${X:-3}\npython a.py", "3", "3"),
    ],
)
def test_what_is_exported_without_a_value_goes_on(
    text: str, value: str, default: str | None
) -> None:
    word = one(text, inner_sh="python a.py ${X:-8}").environment["X"]
    assert (word.text, [each.default for each in word.opens]) == (value, [default])


def test_what_goes_on_keeps_its_default_and_goes_no_more_when_unset() -> None:
    inside = one("export X\nbash inner.sh", inner_sh="python a.py ${X:-8}")
    assert [(w.text, w.known) for w in inside.arguments] == [("8", True)]
    assert one("export X\nX=5\npython a.py").environment["X"].known
    assert not one("export X\nunset X\npython a.py").environment


@pytest.mark.parametrize(
    ("text", "word", "opens"),
    [
        ('if [ -z "$D" ]; then N=1; else N=2; fi; python a $N', "1", [("D", "")]),
        ('N=2; if [ -z "$D" ]; then N=1; fi; python a $N', "1", [("D", "")]),
        ('N=1; if [ "$D" = npu ]; then N=2; fi; python a $N', "1", [("D", "")]),
        ('N=1; [ -n "$D" ] && N=2; python a $N', "1", [("D", "")]),
        ('case "$D" in npu) N=2;; *) N=1;; esac; python a $N', "1", [("D", "")]),
        ("N=1; while [ $# -gt 0 ]; do N=$1; shift; done; python a $N", "1", [("$#", "0")]),
        ("if nvidia-smi > x; then N=1; else N=2; fi; python a $N", "1", [("nvidia-smi", "true")]),
        ("if [ -f data ]; then N=2; else N=1; fi; python a $N", "1", [("[ -f data ]", "false")]),
        ("G=$(nproc); if [ $G -gt 4 ]; then N=2; else N=1; fi; python a $N", "1", None),
    ],
)
def test_a_condition_on_what_comes_from_outside_is_said(
    text: str, word: str, opens: list[tuple[str, str]] | None
) -> None:
    (found,) = one(text).arguments
    assert found.text == word
    assert [(o.name, o.default) for o in found.opens] == opens if opens else found.opens


@pytest.mark.parametrize(
    "text",
    [
        "if [ $# -lt 1 ]; then echo usage; exit 1; fi; python a.py",
        'if [ -z "$TOKEN" ]; then exit 1; fi\npython a.py',
        "[ -f data.json ] || exit 1\npython a.py",
        "cd /somewhere || exit 1; mkdir -p x && python a.py",
        "until ray status; do sleep 5; done; python a.py",
        "main() { python a.py; }\nmain \"$@\"",
        "while true; do python a.py; sleep 9; done",
        'if [ "$1" != eval ]; then python a.py; exit 0; fi; exit 1',
    ],
)
def test_a_script_is_followed_to_where_it_starts_something(text: str) -> None:
    assert one(text).program == "a.py"


def test_files_that_the_script_writes_are_beside() -> None:
    text = (
        "N=2\ncat > out/c.yaml <<EOF\nn: $N\nEOF\necho '{\"a\": 1}' > ds.json\n"
        "python - <<'EOF'\nx = 1\nEOF\n"
    )
    launch = one(text)
    assert {path: word.text for path, word in launch.files.items()} == {
        "out/c.yaml": "n: 2\n",
        "ds.json": '{"a": 1}\n',
        "-": "x = 1\n",
    }
    place = launch.files["out/c.yaml"].part(3, 4).place
    assert place and text[place.start : place.end] == "2" and place.line == 1


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("python m a | tee log", "python m a 'x y' | tee log"),
        ("python m \\\n  a \\\n  b  # why", "python m \\\n  a \\\n  b \\\n  'x y'  # why"),
        ('python m \\\n  a "$@"', 'python m \\\n  a \\\n  \'x y\' "$@"'),
        ("A=(a)\npython m \"${A[@]}\" > log", "A=(a)\npython m \"${A[@]}\" 'x y' > log"),
        ('bash -c "python m a"', "bash -c \"python m a 'x y'\""),
        ("eval 'python m a'", "eval 'python m a '\\''x y'\\'''"),
    ],
)
def test_an_argument_is_added_where_bash_takes_it(text: str, after: str, tmp_path: Path) -> None:
    end = one(text).end
    assert end
    changed = edited({"run.sh": text}, [Addition(end, ("x y",))])["run.sh"]
    assert changed == after
    (command,) = Bash(tmp_path).commands(changed)
    assert command[-1] == "x y" and command[1] == "m"


def test_what_could_not_be_read_is_said() -> None:
    with pytest.raises(UnreadableError, match=r"run.sh, line 2: .* is not closed"):
        read_shell("python a\npython 'b", "run.sh", {})
    with pytest.raises(UnreadableError, match="divided by zero"):
        read_shell("python $((1/0))", "run.sh", {})
    (launch, *_) = read_shell("python a.py\nfi fi )\n", "run.sh", {})
    assert launch.program == "a.py" and launch.unread
