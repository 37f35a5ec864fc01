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

_TRL = '''

def compute_score(completions, answer, **columns):
    """TRL's reward function: one number per completion; `answer` is a dataset column."""
    texts = [c if isinstance(c, str) else c[-1]["content"] for c in completions]
    return [score(text, expected) for text, expected in zip(texts, answer)]
'''

_VERL = '''

def compute_score(data_source, solution_str, ground_truth, extra_info=None, **unused):
    """verl's reward function: one number; `ground_truth` is the row's reward_model field."""
    return score(solution_str, ground_truth)
'''


def reward_file(framework: str, reward: str) -> LaunchFile:
    """``reward.py`` with ``compute_score`` as this framework calls it.

    Args:
        framework: ``trl`` or ``verl``.
        reward: ``rule`` or ``remote``.
    """
    body = {"rule": _RULE, "remote": _REMOTE}[reward]
    call = {"trl": _TRL, "verl": _VERL}[framework]
    return LaunchFile(name=NAME, text=f'"""The reward of this run."""\n{body}{call}')
