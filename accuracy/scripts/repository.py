"""A repository's files at a commit, and the runs that they describe: texts as people give them.

Nothing is checked out and nothing of it is kept: ``git archive`` is read from memory.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from planner.importer.imported import MOST_TEXTS
from planner.importer.recognition import STARTS

Files = Mapping[str, str]
SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch")
CONFIGURATIONS = (".yaml", ".yml", ".json")
READ = (*SCRIPTS, *CONFIGURATIONS, ".py", ".env")
MOST_BYTES = 400_000
SERVER = re.compile(r"\bvllm[- ]serve\b")
"""A command that starts an engine for another one."""


def committed(repository: Path, commit: str, folders: Sequence[str]) -> dict[str, str]:
    """Texts by their paths.

    Args:
        repository: a git directory, bare or not.
        commit: any name of one.
        folders: whose files are wanted.

    Raises:
        subprocess.CalledProcessError: git does not have it.
    """
    git = ("git", "--git-dir", str(repository), "archive", commit, *folders)
    packed = subprocess.run(git, capture_output=True, check=True).stdout
    found = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            wanted = member.isfile() and member.name.endswith(READ)
            if wanted and member.size < MOST_BYTES and (file := archive.extractfile(member)):
                found[member.name] = file.read().decode("utf-8", "replace")
    return found


@dataclass(frozen=True, slots=True)
class Run:
    """Texts as a person would give them, by their names, and the paths of those beside."""

    texts: Files
    beside: tuple[str, ...] = ()


def runs(path: str, files: Files) -> Iterator[Run]:
    """Each run that a file describes, with the files that it names.

    A shell script and a configuration are one run; a program is one for each command that its
    docstring gives, or by itself.
    """
    text = files[path]
    if not path.endswith(".py"):
        yield _with_beside(path, text, path, files)
        return
    commands = [*_commands(text)]
    servers = [one for one in commands if SERVER.search(one)]
    trained = [one for one in commands if one not in servers]
    for command in trained:
        yield _with_beside("command.sh", "\n".join([command, *servers]), path, files)
    if not trained:
        yield Run({PurePosixPath(path).name: text})


def _commands(program: str) -> Iterator[str]:
    """Commands of a program's docstring: a line that starts something, and those that go on."""
    said = ast.get_docstring(ast.parse(program)) or ""
    lines: list[str] = []
    for line in said.splitlines():
        if lines or STARTS.match(line):
            lines.append(line)
        if lines and not line.rstrip().endswith("\\"):
            yield "\n".join(lines)
            lines = []
    if lines:
        yield "\n".join(lines)


def _with_beside(name: str, text: str, path: str, files: Files) -> Run:
    """A text and the files that it names, nearest first."""
    named = [other for other in files if other != path and _names(text, other)]
    near = sorted(named, key=lambda other: -_shared(path, other))
    found, beside = {PurePosixPath(name).name: text}, list[str]()
    for other in ([path] if path.endswith(".py") else []) + near:
        short = PurePosixPath(other).name
        if len(found) < MOST_TEXTS and short not in found:
            found[short] = files[other]
            beside.append(other)
    return Run(found, tuple(beside))


def _names(text: str, path: str) -> bool:
    """Whether a text names a file, or a configuration by its stem."""
    file = PurePosixPath(path)
    if file.name in text:
        return True
    stem = rf"config-name[= ]['\"]?{re.escape(file.stem)}\b"
    return file.suffix in CONFIGURATIONS and bool(re.search(stem, text))


def _shared(one: str, other: str) -> int:
    pairs = zip(PurePosixPath(one).parts, PurePosixPath(other).parts, strict=False)
    return sum(left == right for left, right in pairs)
