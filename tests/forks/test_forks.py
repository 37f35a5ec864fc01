"""Forks of a server, beside a new Python that does the same; and what no fork can be."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from planner.forks import client
from planner.forks.client import NOTHING, PIPE, Fork, Process, Server, begin, environment
from planner.forks.server import forked
from trial.running import until

WAITS = "planner.search.ask.worker"
"""Ends when its standard input does."""
COMMAND = "planner.__main__"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """One that imports nothing heavy."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(client.SETTING, "")
        found = Server(warm=("planner.search.ask.worker",))
        yield found
        found.process.kill()  # and with it whatever a test that failed has left
        found.process.wait()
        found.close()


def begun(server: Server | None, *command: str, **more: object) -> Process:
    """With the server's environment, and a variable of ours; without a server it is no fork."""
    place = os.environ[client.SETTING] if server else ""
    given = {**environment(on_cpu=True), client.SETTING: place, "HEADROOM_DATA": "/tmp/of-the-test"}
    return begin(*command, environment=given, **more)  # type: ignore[arg-type]


def ended(process: Process) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    assert process.wait(600) == 0


@pytest.mark.parametrize("forked", [True, False])
def test_it_is_the_command_that_was_asked_for(forked: bool, server: Server, tmp_path: Path) -> None:
    """Arguments, environment, streams and exit status."""
    with open(tmp_path / "said", "wb") as said:
        given = begun(server if forked else None, COMMAND, "trials", stdout=PIPE, stderr=said)
    assert isinstance(given, Fork) is forked
    assert given.stdout is not None
    with given.stdout as told:
        out = told.read().decode()
    assert "/tmp/of-the-test" in out + (tmp_path / "said").read_text("utf-8")
    assert given.wait(600) == given.poll() == given.returncode
    other = begun(server if forked else None, COMMAND, "estimate", "no=field")
    assert other.wait(600) == 2


def opened(process: Process) -> dict[int, str]:
    """Its files, pipes and sockets by their descriptors, while nobody opens or closes one."""
    found = {}
    for place in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[int(place.name)] = os.readlink(place)
    return found


@pytest.mark.parametrize("forked", [True, False])
def test_it_has_the_folder_and_the_files_it_was_given_and_no_others(
    forked: bool, server: Server, tmp_path: Path
) -> None:
    before = begun(server, WAITS, stdin=PIPE)  # the server has a connection more
    with open(tmp_path / "held", "wb") as held, open(tmp_path / "not held", "wb"):
        process = begun(server if forked else None, WAITS, stdin=PIPE, handles=(held.fileno(),))
        until(lambda: opened(process).get(held.fileno()) == str(tmp_path / "held"))
        place, handles = Path(f"/proc/{process.pid}"), opened(process)
    own = [name for number, name in handles.items() if number > 2]
    assert not any(name.startswith("socket:") or "not held" in name for name in own)
    assert handles[0].startswith("pipe:") and handles[2] == os.devnull
    assert Path(os.readlink(place / "cwd")) == client.ROOT
    assert os.getsid(process.pid) == process.pid
    ended(process)
    ended(before)


@pytest.mark.parametrize("forked", [True, False])
def test_a_signal_that_ends_it_is_its_status(forked: bool, server: Server) -> None:
    process = begun(server if forked else None, WAITS, stdin=PIPE)
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.05)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(600) == process.poll() == -signal.SIGTERM
    assert process.stdin is not None
    process.stdin.close()


def test_imports_are_made_before(server: Server) -> None:
    process = begun(server, WAITS, stdin=PIPE)
    maps = Path(f"/proc/{process.pid}/maps").read_text()
    assert "numpy" in maps  # at once: a new Python has not come so far
    until(lambda: "search.ask" in Path(f"/proc/{process.pid}/comm").read_text())
    ended(process)


@pytest.mark.parametrize("name", ["CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "SOMETHING_ELSE"])
def test_another_environment_begins_a_new_python(name: str, server: Server) -> None:
    """Libraries read it as they are imported, and the server's have been."""
    given = {**environment(on_cpu=True), name: "17"}
    process = begin(WAITS, environment=given, stdin=PIPE)
    assert isinstance(process, subprocess.Popen)
    ended(process)


def test_what_imports_add_to_the_environment_is_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch adds where its compiler keeps files: a process that has imported it asks with that."""
    (tmp_path / "adds.py").write_text("import os\nos.environ['ADDED'] = 'by an import'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv(client.SETTING, "")
    server = Server(warm=("adds", WAITS))
    for added, forks in ({"ADDED": "by an import"}, True), ({}, True), ({"ADDED": "else"}, False):
        given = {**environment(on_cpu=True), **added}
        process = begin(WAITS, environment=given, stdin=PIPE)
        assert isinstance(process, Fork) is forks
        ended(process)
    server.close()
    assert server.process.wait(600) == 0


def asked(**more: object) -> dict[str, object]:
    """What the server answers to a request that names this."""
    request = {
        "module": COMMAND,
        "arguments": ["gpus"],
        "environment": environment(on_cpu=True),
        "folder": str(client.ROOT),
        "numbers": [],
        **more,
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[client.SETTING])
        connection.sendall(json.dumps(request).encode() + b"\n")
        found: dict[str, object] = json.loads(connection.recv(4096).splitlines()[0])
        return found


def test_other_modules_and_other_checkouts_are_refused(server: Server, tmp_path: Path) -> None:
    assert "pid" in asked()
    assert "os" in str(asked(module="os")["refused"])
    assert "checkout" in str(asked(folder=str(tmp_path))["refused"])
    assert "cut short" in str(asked(environment=None)["refused"])
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[client.SETTING])
        connection.sendall(b'{"module": ')
        connection.shutdown(socket.SHUT_WR)
        assert b"cut short" in connection.recv(4096)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[client.SETTING])
        connection.sendall(b'{"module": ')  # and is gone
    assert "pid" in asked()  # none of it ended the server


def test_a_request_that_does_not_come_is_not_waited_for(server: Server) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[client.SETTING])
        assert "pid" in asked()
        assert b"no fork" in connection.recv(4096)


def test_one_that_goes_away_before_its_fork_ends_harms_nobody(server: Server) -> None:
    process = begun(server, WAITS, stdin=PIPE)
    assert isinstance(process, Fork) and process.stdin is not None
    process._connection.close()
    process.stdin.close()
    until(lambda: not Path(f"/proc/{process.pid}").exists())  # the server has noticed its end
    assert "pid" in asked()


def test_without_its_server_a_fork_ends_and_the_next_is_a_new_python(server: Server) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(client.SETTING, "")
        other = Server(warm=("planner.search.ask.worker",))
        fork = begun(other, WAITS, stdin=PIPE)
        assert isinstance(fork, Fork)
        other.process.kill()
        other.process.wait()
        assert fork.wait(600) == -signal.SIGKILL
        until(lambda: not Path(f"/proc/{fork.pid}").exists())
        assert fork.stdin is not None
        fork.stdin.close()
        new = begun(other, WAITS, stdin=PIPE)
        assert isinstance(new, subprocess.Popen)
        ended(new)
        other.close()


def test_who_is_told_of_a_fork_finds_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes to lead one; a server that ends at once would leave it otherwise."""
    lead = os.setsid

    def late() -> None:
        time.sleep(0.3)
        lead()

    monkeypatch.setattr(os, "setsid", late)
    process = forked()
    if not process:
        time.sleep(5)
        os._exit(0)
    try:
        assert os.getpgid(process) == process
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def test_a_server_that_is_closed_ends_with_its_last_fork() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(client.SETTING, "")
        other = Server(warm=("planner.search.ask.worker",))
        fork = begun(other, WAITS, stdin=PIPE)
        assert isinstance(fork, Fork)
        other.close()
        assert client.SETTING not in os.environ
        with pytest.raises(subprocess.TimeoutExpired):
            other.process.wait(0.5)
        ended(fork)
        assert other.process.wait(600) == 0


def test_a_process_serves_once_and_takes_what_it_inherited(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_own", [])
    client.serve()
    assert client._own == []  # inherited
    monkeypatch.delenv(client.SETTING)
    monkeypatch.setattr(client, "WARM", ())
    made: list[Server] = []

    def few() -> Server:
        made.append(Server(warm=()))
        return made[-1]

    monkeypatch.setattr(client, "Server", few)
    monkeypatch.setattr(atexit, "register", lambda close: None)
    client.serve()
    client.serve()
    assert len(made) == 1
    made[0].process.kill()
    made[0].process.wait()
    client.serve()
    assert len(made) == 2
    made[1].close()
    assert made[1].process.wait(600) == 0


def test_streams_that_nobody_wants_go_nowhere(server: Server) -> None:
    process = begun(server, WAITS, stdin=PIPE, stdout=NOTHING)
    assert process.stdout is None
    assert os.readlink(f"/proc/{process.pid}/fd/1") == os.devnull
    assert process.stdin is not None
    assert not select.select([process.stdin], [], [], 0)[0]
    ended(process)


def test_workers_of_the_whole_suite_are_forks() -> None:
    """A variable that its server was begun without would cost every worker its imports, unseen."""
    process = begin(WAITS, environment=environment(on_cpu=True), stdin=PIPE)
    assert isinstance(process, Fork) == bool(os.environ.get(client.SETTING))
    ended(process)
