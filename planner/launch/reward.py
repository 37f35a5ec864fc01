"""The reward file that goes with a script: a working rule to replace, or a remote call.

The templates are run by the framework, not by us; a test runs them as they are.
"""

from __future__ import annotations

from planner.launch.launch import LaunchFile

NAME = "reward.py"
FUNCTION = "compute_score"

_RULE = '''

def last_line(text):
    """Last line with something on it, without spaces at its ends."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def score(response, answer):
    """1.0 if the response's last line is the answer. Replace it by your task's rule."""
    return 1.0 if last_line(response) == str(answer).strip() else 0.0
'''

_REMOTE = '''
import json
import os
import urllib.request


def score(response, answer):
    """Reward from the service at REWARD_URL: {"response", "answer"} in, {"reward"} out."""
    request = urllib.request.Request(
        os.environ["REWARD_URL"],
        data=json.dumps({"response": response, "answer": answer}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as reply:
        return float(json.load(reply)["reward"])
'''

def reward_file(call: str, reward: str) -> LaunchFile:
    """``reward.py`` with ``compute_score`` as a framework calls it.

    Args:
        call: That function's text, which asks ``score(response, answer)``.
        reward: ``rule`` or ``remote``.
    """
    body = {"rule": _RULE, "remote": _REMOTE}[reward]
    return LaunchFile(name=NAME, text=f'"""The reward of this run."""\n{body}{call}')
