"""The Hub import against a server of our own on 127.0.0.1, and against no server at all."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from planner.catalog.hub import MAX_AT_ONCE, model_from_hub

GOOD = json.dumps(
    {
        "model_type": "qwen2",
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 100,
    }
).encode()


class Hub(BaseHTTPRequestHandler):
    """Behaves by the repository's name."""

    asked: list[tuple[str, str | None]] = []
    release = threading.Event()

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("authorization")))
        name = self.path.split("/")[2]
        if name == "good":
            self.answer(200, GOOD)
        elif name == "renamed":
            self.answer(307, location=self.path.replace("renamed", "good"))
        elif name == "elsewhere":
            self.answer(302, location="http://127.0.0.1:9/stolen/config.json")
        elif name == "circle":
            self.answer(302, location=self.path)
        elif name == "missing":
            self.answer(401, code="RepoNotFound")
        elif name == "gated":
            self.answer(401, code="GatedRepo")
        elif name == "bare":
            self.answer(404, code="EntryNotFound")
        elif name == "broken":
            self.answer(503)
        elif name == "page":
            self.answer(200, b"<html>not json</html>")
        elif name == "huge":
            self.answer(200, b" " * (1 << 20))
        elif name == "drip":
            self.drip()
        elif name == "silent":
            self.release.wait(20)

    def answer(self, status: int, body: bytes = b"", *, location: str = "", code: str = "") -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        if location:
            self.send_header("location", location)
        if code:
            self.send_header("x-error-code", code)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    def drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            while not self.release.wait(0.05):
                self.wfile.write(b" ")
                self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


def point_at(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    """What huggingface_hub reads from ``HF_ENDPOINT`` when it is imported."""
    from huggingface_hub import constants

    end = f"http://127.0.0.1:{port}"
    monkeypatch.setattr(constants, "ENDPOINT", end)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", end + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    Hub.asked.clear()
    Hub.release.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    point_at(monkeypatch, server.server_port)
    monkeypatch.setenv("HF_TOKEN", "a-secret")
    yield Hub
    Hub.release.set()
    server.shutdown()
    thread.join()
    server.server_close()


def refusal(repo_id: str, timeout_seconds: float = 600.0) -> str:
    with pytest.raises(ValueError) as caught:
        model_from_hub(repo_id, timeout_seconds=timeout_seconds)
    return str(caught.value)


def test_a_config_comes_with_its_address_and_the_day(hub: type[Hub]) -> None:
    found = model_from_hub("some/good")
    assert found.architecture is not None
    assert found.architecture.kv_heads == 2
    assert (found.id, found.name) == ("some/good", "good")
    assert found.sources[0].endswith("/some/good/resolve/main/config.json")
    assert len(found.date) == len("2026-11-20")


def test_one_small_file_is_asked_for_without_any_token(hub: type[Hub]) -> None:
    model_from_hub("some/good")
    assert hub.asked == [("/some/good/resolve/main/config.json", None)]


def test_a_renamed_model_is_followed_on_the_same_host_only(hub: type[Hub]) -> None:
    assert model_from_hub("some/renamed").architecture is not None
    assert "another host" in refusal("some/elsewhere")
    assert "circles" in refusal("some/circle")


@pytest.mark.parametrize(
    ("repo_id", "words"),
    [
        ("some/missing", "no public model some/missing"),
        ("some/gated", "is gated on"),
        ("some/bare", "no config.json"),
        ("some/broken", "503"),
        ("some/huge", "absurdly large"),
        ("some/page", "not valid JSON"),
    ],
)
def test_what_cannot_be_had_is_said(hub: type[Hub], repo_id: str, words: str) -> None:
    assert words in refusal(repo_id)


@pytest.mark.parametrize("name", ["silent", "drip"])
def test_a_server_that_never_finishes_does_not_hold_the_page(hub: type[Hub], name: str) -> None:
    assert "took over 0.3 s" in refusal(f"some/{name}", timeout_seconds=0.3)


def test_only_so_many_wait_at_once(hub: type[Hub]) -> None:
    waiting = [
        threading.Thread(target=refusal, args=("some/silent", 600.0)) for _ in range(MAX_AT_ONCE)
    ]
    for thread in waiting:
        thread.start()
    deadline = time.monotonic() + 600
    while len(hub.asked) < MAX_AT_ONCE and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "too many" in refusal("some/good")
    hub.release.set()
    for thread in waiting:
        thread.join()
    assert model_from_hub("some/good").architecture is not None


@pytest.mark.parametrize(
    "repo_id",
    [
        "",
        "gpt2",
        "a/b/c",
        "../etc/passwd",
        "a/..",
        "a/b?x=1",
        "a/b#c",
        "a b/c",
        "a/b\n",
        "ä/b",
        "a/" + "b" * 200,
    ],
)
def test_odd_ids_never_reach_the_network(hub: type[Hub], repo_id: str) -> None:
    assert "is not a Hub id" in refusal(repo_id)
    assert hub.asked == []


def test_nobody_listening_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        point_at(monkeypatch, port)
        assert "cannot be reached" in refusal("some/good")


def in_a_process(**environment: str) -> str:
    code = (
        "from planner.catalog.hub import model_from_hub\n"
        "try:\n    print(model_from_hub('some/good').architecture)\n"
        "except ValueError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return done.stdout


def test_offline_and_endpoint_are_read_from_the_environment(hub: type[Hub]) -> None:
    from huggingface_hub import constants

    assert "HF_HUB_OFFLINE" in in_a_process(HF_HUB_OFFLINE="1", HF_ENDPOINT=constants.ENDPOINT)
    assert hub.asked == []
    found = in_a_process(HF_HUB_OFFLINE="0", HF_ENDPOINT=constants.ENDPOINT)
    assert found.startswith("Architecture(family='qwen2', hidden=64")


def test_a_tokenizer_on_this_machine_is_found_and_never_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    from planner.catalog.hub import tokenizer_on_this_machine

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    assert tokenizer_on_this_machine("a/model") is None
    folder = tmp_path / "models--a--model"
    snapshot = folder / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0" * 40)
    (snapshot / "tokenizer.json").write_text("{}")
    assert tokenizer_on_this_machine("a/model") == snapshot / "tokenizer.json"
    for hostile in ("../../etc", "a/../model", "a/model/", "model", ""):
        assert tokenizer_on_this_machine(hostile) is None
