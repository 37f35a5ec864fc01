"""Every message of a text, with the traceback before it, in one pass over its lines."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace

from planner.importer.lines import Line, Log
from planner.importer.memory_errors import engines, host, libraries, torch_allocator
from planner.importer.memory_errors.message import Form, Frame, Message, Sizes, printed

FORMS: tuple[Form, ...] = (
    *torch_allocator.FORMS,
    *engines.FORMS,
    *host.FORMS,
    *libraries.FORMS,
)
"""The first of those whose words a line has."""
SIGNS, CODES = (" ", ": ", "=", " : ", "  : "), ("137", "-9")
WORDS = tuple(re.compile(form.words) for form in FORMS)
HINTS = (
    *("out of memory", "less than desired", "cache blocks", "KV cache", "KV Cache"),
    *("mem-fraction-static", "memory pressure", "Memory on the node"),
    *("Out of memory", "oom-kill:", "oom_kill event", "OOMKilled", "tried to allocate"),
    *(f"{word}{sign}{code}" for word in ("code", "status") for sign in SIGNS for code in CODES),
    *("Unable to allocate", "SIGKILL", "Killed", "Failed to ", "CUBLAS_STATUS_"),
    "cudaErrorMemoryAllocation",
)
"""One of these is in every form's words, so that other lines are not read."""
SENTENCE = 2_000
"""Characters of a sentence at most."""
FOLLOWING = 12
"""Lines that a wrapped sentence may go on over."""
BEFORE = 300
"""Lines before a message that its traceback may take."""
MOST_MESSAGES = 200
MOST_FRAMES = 80

_FRAME = re.compile(r'\s{0,12}File "([^"]{1,400})", line \d{1,7}, in (\S{1,120})')
_CELL = re.compile(r"(\S{1,400}\.py) in (\w{1,120})\(")
_RAY = re.compile(r"\s{0,4}ray::([\w.]{1,120})\(\)")
_HEADER = "Traceback (most recent call last)"


def read_messages(text: str) -> tuple[Message, ...]:
    """The messages of a text, first come first; what is told again is counted.

    Raises:
        ValueError: for more than 10 MiB.
    """
    log = Log(text)
    found: dict[tuple[object, ...], Message] = {}
    end = -1
    for at in log.having(HINTS):
        line = log[at]
        what = _words(line.text)
        if what is None or at <= end or len(found) == MOST_MESSAGES:
            continue
        message = _message(*what, log, at)
        end = message.last_line - 1
        alike = (message.form, message.text, message.gpu, message.rank)
        known = found.get(alike)
        if known is not None:
            found[alike] = replace(known, seen=known.seen + 1)
        else:
            found[alike] = replace(message, frames=_frames(log, at, line))
    return tuple(found.values())


def _words(text: str) -> tuple[Form, int] | None:
    """The first form whose words are in a line, and where they begin."""
    for form, words in zip(FORMS, WORDS, strict=True):
        if (there := words.search(text)) is not None:
            return form, there.start()
    return None


def _frames(log: Log, at: int, mine: Line) -> tuple[Frame, ...]:
    """The calls of the traceback that a line ends, outermost first; of its own process."""
    frames: deque[Frame] = deque(maxlen=MOST_FRAMES)
    after = ""
    for before in range(at - 1, max(at - BEFORE, 0) - 1, -1):
        line = log[before]
        if (line.process, line.rank) != (mine.process, mine.rank):
            continue
        text = line.text
        if text.startswith(_HEADER):
            break
        if (call := _FRAME.match(text)) is not None:
            code = "" if _FRAME.match(after) else after.strip()[:200]
            frames.appendleft(Frame(call[1], call[2], code))
        elif (call := _CELL.match(text)) is not None:
            frames.appendleft(Frame(call[1], call[2]))
        elif (call := _RAY.match(text)) is not None:
            frames.appendleft(Frame("ray", call[1]))
        if len(frames) == MOST_FRAMES:
            break
        after = text
    return tuple(frames)


def _message(form: Form, start: int, log: Log, at: int) -> Message:
    line, text = log[at], log[at].text
    begun = text.rfind(form.begins, 0, start) if form.begins else start
    if begun < 0 and at:  # a sentence that was wrapped before its words
        before = log[at - 1].text
        begun = before.find(form.begins)
        text = f"{before[begun:].strip()} {text}" if begun >= 0 else text[start:]
    else:
        text = text[max(begun, 0) :]
    text, last = text.strip(), at
    while _goes_on(form, text, log, last, line):
        last += 1
        text = f"{text} {log[last].text.strip()}"
    text = text[:SENTENCE]
    sizes: Sizes = {
        name: size
        for name, of in form.sizes.items()
        if (there := of.search(text)) and (size := printed(there[1], there[2], form.decimals))
    }
    said = {name: there[1] for name, of in form.said.items() if (there := of.search(text))}
    cause = form.cause
    if not isinstance(cause, str):
        cause, sizes = cause({**sizes}, text) if "asked" in sizes else ("not said", sizes)
    gpu = said.pop("gpu", None)
    return Message(
        form=form.name,
        cause=cause,
        text=text,
        first_line=line.number,
        last_line=last + 1,
        sizes=sizes,
        said=said,
        gpu=None if gpu is None else int(gpu),
        rank=line.rank,
        process=line.process,
    )


def _goes_on(form: Form, text: str, log: Log, last: int, mine: Line) -> bool:
    """Whether a sentence is wrapped, and the next line is more of it."""
    if not form.ends or last + 1 == len(log) or last + 1 - mine.number >= FOLLOWING:
        return False
    if len(text) > SENTENCE or form.sizes[form.ends].search(text):
        return False
    line = log[last + 1]
    strange = (line.process, line.rank) != (mine.process, mine.rank)
    return not strange and bool(line.text.strip()) and _words(line.text) is None
