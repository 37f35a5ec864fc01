"""A process that imports once and forks for whoever asks: ``python -m planner.forks.server``.

Its arguments are the number of the listening socket's descriptor and the modules to import. It is
one thread, so that a fork copies all there is, and has no accelerator: a driver that was begun
before a fork cannot be used behind it. When its standard input ends nobody begins anything more,
and it ends with the last of its forks; where nobody has asked for long it ends by itself.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from planner.forks.client import ROOT
from planner.imports import kept_for_good

OURS = "planner."
"""Only modules of this package are run, of this checkout."""
OF_ITS_OWN = (
    *("HEADROOM_", "PYTEST_", "PYTORCH_ALLOC_CONF", "PYTHONDONTWRITEBYTECODE"),
    *("COLUMNS", "LINES"),
)
"""Beginnings of variables that no import has read: a fork may have its own."""
IDLE_SECONDS = 900.0
"""Nobody asked for this long and nothing runs: give the memory back."""
SECONDS_TO_ASK = 10.0
"""A request comes at once; meanwhile nobody else is heard."""
MOST_BYTES = 1 << 20
MOST_HANDLES = 32
ABOVE = 200
"""Descriptors are moved up here first, where none of those that are wanted is."""


class Server:
    """The process's forks and who waits for them, by process id."""

    def __init__(self, listener: socket.socket, begun_in: Mapping[str, str]) -> None:
        """``begun_in`` is what the imports found in the environment, which they add to."""
        self._listener, self._begun_in = listener, begun_in
        self._added = {name: os.environ[name] for name in os.environ if name not in begun_in}
        self._waiting: dict[int, socket.socket] = {}
        self._woken, wakes = os.pipe()
        for end in (self._woken, wakes):
            os.set_blocking(end, False)
        self._wakes = wakes
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes)

    def run(self) -> dict[str, Any] | None:
        """Fork until nobody asks; in a fork, what it was asked to be."""
        heard: list[Any] = [self._listener, self._woken, sys.stdin]
        while sys.stdin in heard or self._waiting:
            ready = select.select(heard, [], [], IDLE_SECONDS)[0]
            if not ready and not self._waiting:
                return None
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._tell()
            if sys.stdin in ready and not os.read(sys.stdin.fileno(), 4096):
                heard.remove(sys.stdin)
            if self._listener in ready:
                asked = self._asked()
                if asked is not None:
                    return asked
        return None

    def _asked(self) -> dict[str, Any] | None:
        connection, _ = self._listener.accept()
        connection.settimeout(SECONDS_TO_ASK)
        handles: list[int] = []
        try:
            data, handles, _, _ = socket.recv_fds(connection, MOST_BYTES, MOST_HANDLES)
            # Descriptors come with the first bytes; the rest of a long request follows.
            while data and not data.endswith(b"\n"):
                more = connection.recv(MOST_BYTES)
                data = data + more if more else b""
            refused = _refusal(data, self._begun_in, self._added)
            process = 0 if refused else forked()
        except OSError as error:  # whoever asked is gone or slow, or the system has no room
            refused = f"no fork: {error}"
        if not refused and not process:
            connection.close()
            return self._become(json.loads(data), handles)
        for handle in handles:
            os.close(handle)
        if refused:
            _say(connection, {"refused": refused})
            connection.close()
        else:
            self._waiting[process] = connection
            _say(connection, {"pid": process})
        return None

    def _become(self, asked: dict[str, Any], handles: list[int]) -> dict[str, Any]:
        """In the fork: nothing of the server's is left open, and all that was sent is in place."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (self._listener, *self._waiting.values()):
            one.close()
        for end in (self._woken, self._wakes):
            os.close(end)
        moved = [fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, ABOVE) for handle in handles]
        for handle in handles:
            os.close(handle)
        for handle, number in zip(moved, asked["numbers"], strict=True):
            os.dup2(handle, number)
            os.close(handle)
        with suppress(OSError):  # how lists of processes call it, where the system lets it be said
            Path("/proc/self/comm").write_text(asked["module"].removeprefix(OURS))
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update({**self._added, **asked["environment"]})
        return asked

    def _tell(self) -> None:
        """Each end of a fork, to who waits for it."""
        while self._waiting:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            connection = self._waiting.pop(process)
            _say(connection, {"status": os.waitstatus_to_exitcode(status)})
            connection.close()


def forked() -> int:
    """As ``os.fork``, of a group of its own, which is there when its number is known."""
    ready, tells = os.pipe()
    process = os.fork()
    if not process:
        os.setsid()
    os.close(tells)
    if process:
        os.read(ready, 1)  # nothing: the fork has closed its end, or has ended
    os.close(ready)
    return process


def _refusal(data: bytes, begun_in: Mapping[str, str], added: Mapping[str, str]) -> str:
    """Why a request is not for a fork of this process; empty when it is.

    What imports have added to the environment here they would add, or have added, there.
    """
    try:
        asked = json.loads(data)
        module, environment, folder = asked["module"], {**asked["environment"]}, asked["folder"]
    except (ValueError, KeyError, TypeError):
        return "the request is cut short"
    if not module.startswith(OURS) or Path(folder) != ROOT:
        return f"{module} is not of this checkout"
    wanted, own = {**added, **environment}, {**added, **begun_in}
    for name in sorted({*wanted, *own}):
        if wanted.get(name) != own.get(name) and not name.startswith(OF_ITS_OWN):
            return f"{name} differs"
    return ""


def _say(connection: socket.socket, message: dict[str, Any]) -> None:
    try:
        connection.sendall(json.dumps(message).encode() + b"\n")
    except OSError:  # whoever asked is gone
        return


def main(arguments: list[str]) -> None:
    """Import, serve, and in a fork run what was asked for as the main module."""
    listener, begun_in = socket.socket(fileno=int(arguments[0])), dict(os.environ)
    with kept_for_good():
        for module in arguments[1:]:
            importlib.import_module(module)
    asked = Server(listener, begun_in).run()
    if asked is not None:
        sys.argv = [asked["module"], *asked["arguments"]]
        runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
