"""A real Ray cluster of one node for the tests, and a line to it that can be cut."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from free_ports import free_ports

MARK = "HEADROOM_TEST_HEAD"
START_SECONDS = 600.0
WORKERS = {"RAY_worker_niceness": "0"}
"""Ray's own 15 leaves a worker hardly any of a processor that other tests are busy on."""


class Head:
    """``ray start --head`` with two CPUs and no GPU; it asks for a token, as a cluster should."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.token = secrets.token_hex(32)
        self.port, *others = free_ports(3)
        self.address = f"http://127.0.0.1:{self.port}"
        self.joined_at = f"127.0.0.1:{others[0]}"
        """Where a program on one of its nodes joins it."""
        self.said = place / "head.txt"
        flags = {
            "port": others[0],
            "dashboard-host": "127.0.0.1",
            "dashboard-port": self.port,
            "ray-client-server-port": others[1],
            "dashboard-agent-listen-port": 0,
            "min-worker-port": 0,
            "max-worker-port": 0,
            "include-dashboard": "true",
            "num-cpus": 2,
            "num-gpus": 0,
            "object-store-memory": 100_000_000,
            "temp-dir": place,
        }
        command = [f"--{name}={value}" for name, value in flags.items()]
        with open(self.said, "wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
                + ["--disable-usage-stats", *command],
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        (self.place / "tmp").mkdir()
        return {
            **kept,
            **self.settings,
            **WORKERS,
            MARK: str(self.place),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "TMPDIR": str(self.place / "tmp"),
        }

    @property
    def settings(self) -> dict[str, str]:
        """What a client of this cluster has to have in its environment."""
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self.token}

    def wait(self) -> None:
        """Return when it answers."""
        end = time.monotonic() + START_SECONDS
        request = urllib.request.Request(
            f"{self.address}/api/version", headers={"Authorization": f"Bearer {self.token}"}
        )
        while True:
            assert self.process.poll() is None, self.said.read_text("utf-8")[-3000:]
            assert time.monotonic() < end, self.said.read_text("utf-8")[-3000:]
            with suppress(OSError), urllib.request.urlopen(request, timeout=10):
                return
            time.sleep(0.2)

    def end(self) -> None:
        """End this cluster's own processes, known by a variable of their environment."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        for process in self.own():
            with suppress(psutil.Error):
                process.kill()
        self.process.wait()

    def own(self) -> Iterator[psutil.Process]:
        """Processes of this cluster, jobs included."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == str(self.place):
                    yield process


@contextmanager
def running_head() -> Iterator[Head]:
    """A cluster for as long as the block; its folder's path is short, since sockets are in it."""
    place = Path(tempfile.mkdtemp(prefix="hr-", dir="/tmp"))
    head = Head(place)
    try:
        head.wait()
        yield head
    finally:
        head.end()
        shutil.rmtree(place, ignore_errors=True)


class Line:
    """Connections to a port that pass through here, until they are cut."""

    def __init__(self, to: int) -> None:
        self.to, self.open = to, True
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """End all connections, and every new one at once."""
        self.open = False
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self.open = True

    def close(self) -> None:
        self.cut()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._sockets:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(near)
            if not self.open:
                near.shutdown(socket.SHUT_RDWR)
                continue
            far = socket.create_connection(("127.0.0.1", self.to))
            self._sockets.append(far)
            for pair in ((near, far), (far, near)):
                threading.Thread(target=_pass, args=pair, daemon=True).start()


def _pass(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
