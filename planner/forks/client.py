"""One of our modules in a process of its own: a fork with its imports done, or a new Python.

A server is asked where ``HEADROOM_FORKS`` names its socket, which processes begun here inherit.
What no fork can be, since it wants another environment than its server's, an accelerator for one,
begins as ever; so does everything when the server does not answer.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from select import select
from typing import IO, Any

from planner.registry import WARM

SETTING = "HEADROOM_FORKS"
ROOT = Path(__file__).resolve().parents[2]
PIPE, NOTHING = subprocess.PIPE, subprocess.DEVNULL
Stream = int | IO[bytes]


def environment(*, on_cpu: bool) -> dict[str, str]:
    """What steps run in: this process's, without the network; on the CPU without a card."""
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if str(ROOT) not in places:
        places = [str(ROOT), *filter(None, places)]
    found = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(places),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        # Threads that spin beside another process take the core from it, and it from them.
        "OMP_WAIT_POLICY": os.environ.get("OMP_WAIT_POLICY", "PASSIVE"),
    }
    if on_cpu:
        found["CUDA_VISIBLE_DEVICES"] = ""
    return found


class Fork:
    """A fork of the server's, with what callers use of :class:`subprocess.Popen`."""

    def __init__(
        self, connection: socket.socket, stdin: IO[bytes] | None, stdout: IO[bytes] | None
    ) -> None:
        self._connection, self._heard = connection, b""
        self.stdin, self.stdout = stdin, stdout
        self.returncode: int | None = None
        self.pid = 0
        self.pid = int(self._message()["pid"])

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        if self.returncode is None and select([self._connection], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has one.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        if self.returncode is None:
            if not select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"fork {self.pid}", timeout or 0.0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        try:
            self.returncode = int(self._message()["status"])
        except OSError:  # nobody will know how it ends once its server is gone: it ends now
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self.returncode = -signal.SIGKILL
        self._connection.close()

    def _message(self) -> dict[str, Any]:
        """The server's next words.

        Raises:
            OSError: it is gone, or refuses.
        """
        while b"\n" not in self._heard:
            data = self._connection.recv(4096)
            if not data:
                raise ConnectionError("the server is gone")
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        if "refused" in found:
            raise PermissionError(found["refused"])
        return found


Process = Fork | subprocess.Popen[bytes]


def begin(
    module: str,
    *arguments: str,
    environment: Mapping[str, str],
    stdin: Stream = NOTHING,
    stdout: Stream = NOTHING,
    stderr: Stream = NOTHING,
    handles: Sequence[int] = (),
) -> Process:
    """Run a module in a session of its own, at the repository's root.

    Args:
        module: one of ours.
        arguments: of its command line.
        environment: all of its variables.
        stdin: what it reads, stdout and stderr where it writes: :data:`PIPE`, :data:`NOTHING` or
            a file.
        stdout: see there.
        stderr: see there.
        handles: further descriptors that it has under their numbers.
    """
    place = environment.get(SETTING)
    if place:
        with suppress(OSError):
            return _forked(place, module, arguments, environment, (stdin, stdout, stderr), handles)
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=ROOT,
        env=environment,
        pass_fds=handles,
        start_new_session=True,
    )


def _forked(
    place: str,
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    streams: Sequence[Stream],
    handles: Sequence[int],
) -> Fork:
    asked = {
        "module": module,
        "arguments": arguments,
        "environment": dict(environment),
        "folder": str(ROOT),
        "numbers": [0, 1, 2, *handles],
    }
    data = json.dumps(asked).encode() + b"\n"
    with ExitStack() as unless_it_begins, ExitStack() as sent:
        connection = unless_it_begins.enter_context(socket.socket(socket.AF_UNIX))
        connection.connect(place)
        theirs: list[int] = []
        ours: list[IO[bytes] | None] = []
        for stream, writes in zip(streams, (False, True, True), strict=True):
            handle, end = _ends(stream, writes)
            sent.callback(os.close, handle)
            theirs.append(handle)
            ours.append(end if end is None else unless_it_begins.enter_context(end))
        count = socket.send_fds(connection, [data], [*theirs, *handles])
        while count < len(data):
            count += connection.send(data[count:])
        sent.close()
        fork = Fork(connection, ours[0], ours[1])
        unless_it_begins.pop_all()
    return fork


def _ends(stream: Stream, writes: bool) -> tuple[int, IO[bytes] | None]:
    """A descriptor for the fork, and our end of a pipe."""
    if stream == NOTHING:
        return os.open(os.devnull, os.O_RDWR), None
    if stream == PIPE:
        read, write = os.pipe()
        if writes:
            return write, os.fdopen(read, "rb", 0)
        return read, os.fdopen(write, "wb", 0)
    return os.dup(stream if isinstance(stream, int) else stream.fileno()), None


class Server:
    """A server that this process began; processes begun from here on ask it for forks."""

    def __init__(self, warm: Sequence[str] = WARM) -> None:
        """Begin it; it can be asked at once, and answers when it has imported."""
        self._folder = tempfile.TemporaryDirectory(prefix="headroom-")  # nobody else's to enter
        place = os.path.join(self._folder.name, "forks")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place)
            listener.listen(64)
            number = listener.fileno()
            self.process = subprocess.Popen(
                [sys.executable, "-m", "planner.forks.server", f"{number}", *warm],
                stdin=PIPE,
                stdout=NOTHING,
                stderr=NOTHING,
                cwd=ROOT,
                env=environment(on_cpu=True),
                pass_fds=(number,),
                start_new_session=True,
            )
        os.environ[SETTING] = place

    def close(self) -> None:
        """Begin no more forks; the server ends with the last of them."""
        os.environ.pop(SETTING, None)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._folder.cleanup()


_own: list[Server] = []
_turn = threading.Lock()


def serve() -> None:
    """Have a server: the one that this process inherited, or its own, begun where it has none."""
    with _turn:
        if _own and _own[0].process.poll() is not None:
            _own.pop().close()
        if SETTING not in os.environ:
            _own.append(Server())
            atexit.register(_own[0].close)
