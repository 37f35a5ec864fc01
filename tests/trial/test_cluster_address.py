"""The cluster's address: one spelling, no secrets, a sentence for everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.plan import Plan
from planner.trial.ask.description import describe
from planner.trial.ask.request import read_request, request_of
from planner.trial.cluster.address import SETTING, cluster_address, host_of, owners_address
from trial.running import command, tiny

PLAN = Plan(model="Qwen/Qwen2.5-0.5B", method="sft", gpus=1, sharding="none")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://head:8265", "http://head:8265"),
        (" HTTP://Head.Example:8265/ ", "http://head.example:8265"),
        ("https://ray.example", "https://ray.example"),
        ("http://[::1]:8265", "http://[::1]:8265"),
        ("http://10.0.0.7:1", "http://10.0.0.7:1"),
    ],
)
def test_an_address_has_one_spelling(text: str, address: str) -> None:
    assert cluster_address(text) == address == cluster_address(address)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "http://"),
        ("head:8265", "http://"),
        ("ray://head:10001", "http://"),
        ("file:///etc/passwd", "http://"),
        ("http://head", "port is missing"),
        ("http://head:99999", "cannot be read"),
        ("http://head:8265/api", "follows the port"),
        ("http://head:8265?x=1", "follows the port"),
        ("http://:8265", "no name"),
        ("http://he ad:8265", "no name"),
        ("http://head\x00:8265", "no name"),
        ("http://$(reboot):8265", "no name"),
        ("http://-head:8265", "no name"),
        ("http://user:secret@head:8265", "RAY_AUTH_TOKEN"),
        ("http://user@head:8265", "RAY_AUTH_TOKEN"),
    ],
)
def test_anything_else_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^ray: ") as error:
        cluster_address(text)
    assert said in str(error.value) and str(error.value).endswith(".")
    assert "secret" not in str(error.value)


def test_the_owners_setting_is_named_when_it_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTING, raising=False)
    assert owners_address() == ""
    monkeypatch.setenv(SETTING, "head:8265")
    with pytest.raises(ValueError, match=f"^{SETTING}: "):
        owners_address()


def test_a_request_for_a_cluster_is_one_device_and_one_command() -> None:
    request = request_of(PLAN, ray="http://Head:8265/", device="cuda:0", processes=4)
    assert request.ray == "http://head:8265" and host_of(request.ray) == "head:8265"
    assert request.devices() == ("ray:head:8265",)
    assert read_request(request.model_dump_json()) == request
    said = describe(request)
    assert "cuda:0 of the Ray cluster head:8265" in said.runs
    assert "of cuda:0 of the Ray cluster head:8265 (estimate)" in said.most_words
    # What this machine has free does not limit a node.
    whole = describe(request_of(PLAN, ray="http://head:8265", host_limit_bytes=2**20))
    assert "1 MiB of the node's RAM" in whole.most_words


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"device": "cuda:3"}, "^device: Ray chooses the card"),
        ({"snapshot": "/tmp/x"}, "^snapshot: it would stay"),
        ({"ray": "http://head"}, "^ray: this is no address"),
    ],
)
def test_what_no_cluster_runs_is_refused(choices: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        request_of(PLAN, **{"ray": "http://head:8265", **choices})


def test_torchrun_and_a_cluster_are_one_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = command(tiny("sft"), "--ray", "http://head:8265", data=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("ray: torchrun has started this here")


@pytest.mark.parametrize(
    ("flags", "setting", "said"),
    [
        (("--ray",), "", "ray: no cluster is named"),
        (("--ray",), "head:8265", f"{SETTING}: this is no address"),
        (("--ray", "ray://head:10001"), "", "ray: this is no address"),
    ],
)
def test_the_command_says_what_is_wrong_before_anything_starts(
    flags: tuple[str, ...],
    setting: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SETTING, setting)
    done = command(tiny("sft"), *flags, data=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith(said), done.stderr
    assert not (tmp_path / "trials").exists()
