import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from typing import Any

import pytest

from planner.launch.reward import reward_file


def _functions(framework: str, reward: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    call = import_module(f"planner.frameworks.{framework}.exporter").SCORE
    exec(compile(reward_file(call, reward).text, "reward.py", "exec"), names)
    return names


def test_trl_gets_one_number_per_completion() -> None:
    score = _functions("trl", "rule")["compute_score"]
    chat = [{"role": "assistant", "content": "Four.\n4 \n"}]
    given = {"prompts": ["a", "b", "c"], "completion_ids": [[1], [2], [3]], "trainer_state": None}
    assert score(completions=[chat, "5", ""], answer=["4", "4", "4"], **given) == [1.0, 0.0, 0.0]


def test_verl_gets_one_number() -> None:
    score = _functions("verl", "rule")["compute_score"]
    assert score(data_source="x", solution_str="so\n42", ground_truth="42", extra_info={}) == 1.0
    assert score(data_source="x", solution_str="42, so", ground_truth="42") == 0.0


@pytest.mark.parametrize("framework", ["trl", "verl"])
def test_a_remote_reward_is_asked(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            body = b'{"reward": 0.25}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("REWARD_URL", f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        score = _functions(framework, "remote")["compute_score"]
        result = score(["r"], ["a"]) if framework == "trl" else score("x", "r", "a")
        server.shutdown()
        thread.join()
    assert result in ([0.25], 0.25)
    assert asked == [{"response": "r", "answer": "a"}]
