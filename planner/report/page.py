"""A report's content as one HTML file that asks nobody for anything: no script, no host, no font.

Model names, labels and sentences may come from a link or a file that anybody wrote: every text goes
through :func:`escaped`, and the page's own policy forbids all but its style.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from planner.report.content import Bar, Content

STYLE = Path(__file__).with_name("style.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
TONES = {"fits": ("fits", "✓"), "tight": ("tight", "!"), "incomplete": ("tight", "?")}
MOST_OF_A_LINK = 200
"""Characters of a link that are shown; it leads to all of it."""


def html_of(content: Content) -> str:
    """The whole file."""
    tone, sign = TONES.get(content.word, ("bad", "✕"))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escaped(content.title)}: Headroom</title>
<style>
{STYLE.read_text("utf-8")}</style>
</head>
<body class="{_density(content)}">
<main>
<h1>{escaped(content.title)}</h1>
<p class="soft">{escaped(content.where)} · planned with Headroom · {escaped(content.made)}</p>
{_said(content.assumed)}
<section class="verdict {tone}"><strong>{sign} {escaped(content.verdict)}</strong>
{_said(content.lines)}
<p><strong>{escaped(content.recommendation)}</strong></p></section>
<div class="figures">{_joined(_figure(*one) for one in content.figures)}</div>
<h2>Evidence</h2>
{_table("evidence", ("", "Verdict", "Peak of a GPU", "A step", "Rests on"), content.evidence)}
{_recommended(content)}<h2>Memory and time of a step's phases</h2>
<p class="soft"><span class="key own"></span>training <span class="key pool"></span>vLLM's \
reservation <span class="key end"></span>{escaped(content.card_words)}</p>
<table>
<thead><tr><th>Phase</th><th></th>
<th class="right">Peak</th><th class="right">Time</th></tr></thead>
<tbody>{_joined(_bar(one, content.card) for one in content.bars)}</tbody>
</table>
<div class="{"one" if content.goal else "two"}">
{_advice(content)}<section><h2>Cost</h2>
{_list(content.money)}
</section>
</div>
{_doubts(content.doubts)}
<h2>Settings</h2>
<dl class="settings">{_joined(_setting(*one) for one in content.settings)}</dl>
<div class="sign"><span>Approved by</span><span>Date</span></div>
<footer>{_link(content.link)}Between brackets or below a figure: where published runs lay. \
Memory is what the GPU's driver sees; GiB are 2³⁰ bytes.</footer>
</main>
</body>
</html>
"""


def _density(content: Content) -> str:
    if not content.dense:
        return ""
    return "dense denser" if content.goal else "dense"


def _recommended(content: Content) -> str:
    if not content.goal:
        return ""
    if not content.recommended:
        return f"<h2>Searched: {escaped(content.goal)}</h2><p>No plan within its limits fits.</p>\n"
    rows = _joined(
        f"<li><b>{escaped(one.name)}</b>: {escaped(one.figures)}"
        f"<br><small>{escaped(one.changes)}</small></li>"
        for one in content.recommended
    )
    return f"<h2>Recommended: {escaped(content.goal)}</h2>\n<ul>{rows}</ul>\n"


def _advice(content: Content) -> str:
    """Single changes; whole plans of a search stand in their place."""
    if content.goal:
        return ""
    said = (f"{one.title}: {one.effect}" for one in content.advice)
    found = _list(said, "No single change that helps was found.")
    return f"<section><h2>What would change it</h2>\n{found}\n</section>\n"


def escaped(text: str) -> str:
    """A text that stands in HTML as it is, without what cannot be printed."""
    return escape("".join(each if each.isprintable() else " " for each in text), quote=True)


def _joined(parts: Iterable[str]) -> str:
    return "".join(parts)


def _figure(label: str, value: str, below: str) -> str:
    return (
        f'<div class="figure"><small>{escaped(label)}</small><b>{escaped(value)}</b>'
        f"<small>{escaped(below)}</small></div>"
    )


def _table(kind: str, header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = _joined(f"<th>{escaped(one)}</th>" for one in header)
    body = _joined(f"<tr>{_row([*row])}</tr>" for row in rows)
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _row(cells: list[str]) -> str:
    first, *others = cells
    return f"<th>{escaped(first)}</th>" + _joined(f"<td>{escaped(one)}</td>" for one in others)


def _bar(one: Bar, card: float) -> str:
    return (
        f'<tr><th>{escaped(one.phase)}</th><td class="bar"><div class="track">'
        f'<i class="own" style="width:{one.own:.2%}"></i>'
        f'<i class="pool" style="width:{one.pool:.2%}"></i>'
        f'<b style="left:{card:.2%}"></b></div></td>'
        f'<td class="right">{escaped(one.peak)}</td>'
        f'<td class="right">{escaped(one.time)}</td></tr>'
    )


def _list(texts: Iterable[str], none: str = "") -> str:
    items = _joined(f"<li>{escaped(one)}</li>" for one in texts)
    return f"<ul>{items}</ul>" if items else f"<p>{escaped(none)}</p>"


def _said(texts: tuple[str, ...]) -> str:
    """Sentences as one paragraph."""
    return f'<p class="soft">{escaped(" ".join(texts))}</p>' if texts else ""


def _doubts(texts: tuple[str, ...]) -> str:
    return f"<h2>To know before</h2>{_list(texts)}" if texts else ""


def _setting(label: str, value: str) -> str:
    return f"<div><dt>{escaped(label)}</dt><dd>{escaped(value)}</dd></div>"


def _link(link: str) -> str:
    if not link:
        return ""
    shown = link if len(link) <= MOST_OF_A_LINK else f"{link[:MOST_OF_A_LINK]}…"
    text = f"<code>{escaped(shown)}</code>"
    if link.startswith(("http://", "https://")):
        text = f'<a href="{escaped(link)}" rel="noreferrer">{text}</a>'
    return f"<p>The plan: {text}</p>"
