"""A plan on every page, and its own fields edited: ``every_page.py QUERY WORDS``.

Run in a copy of the product as ``every_rung.py`` is. Pages that show a plan's verdict have to say
the words; all have to open.
"""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import parse_qs

from streamlit.testing.v1 import AppTest

APP = str(Path("app.py").resolve())
PAGES = tuple(sorted(path.stem for path in Path("pages").glob("*.py")))
SAYING = ("plan", "scaling", "recommend", "compare", "launch")
"""Pages that name a plan's method and framework."""


def opened(page: str, query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=600)
    for key, values in parse_qs(query).items():
        app.query_params[key] = values[-1]
    (app if page == "plan" else app.switch_page(f"pages/{page}.py")).run()
    assert not app.exception, (page, [error.value for error in app.exception])
    return app


def words(app: AppTest) -> str:
    shown = (app.markdown, app.caption, app.success, app.warning, app.error, app.info, app.title)
    return "\n".join(str(element.value) for kind in shown for element in kind)


def linked(app: AppTest) -> dict[str, str]:
    """What stands in the address bar, complete as a link has to be."""
    found = app.query_params.items()
    return {key: value if isinstance(value, str) else value[-1] for key, value in found}


def main(query: str, label: str) -> None:
    for page in PAGES:
        app = opened(page, query)
        assert page not in SAYING or label in words(app), (page, words(app))
        assert "not possible" not in words(app), (page, words(app))
        print(page)
    app = opened("plan", query)
    given = {key: values[-1] for key, values in parse_qs(query).items()}
    assert linked(app).items() >= given.items(), linked(app)
    for own in (key for key in given if key.startswith("made_up")):
        for group in ("made-up", "made-up-tools", "hardware"):
            app.session_state[f"open:group:{group}"] = True
        app.run()
        (field,) = [one for one in app.number_input if one.key == f"field:{own}"]
        field.set_value(int(given[own]) + 1).run()
        assert not app.exception, [error.value for error in app.exception]
        assert linked(app)[own] == str(int(given[own]) + 1)
        assert own in linked(app)["set"].split(","), linked(app)["set"]
    for chosen in ("method", "framework"):
        if chosen in given:
            switched(chosen, given[chosen], label)
    print("opened")


def switched(field: str, value: str, label: str) -> None:
    """Chosen in its list: what follows is said, old and new, with its effect, and goes back."""
    app = opened("plan", "")
    before = linked(app)
    app.selectbox(key=f"field:{field}").set_value(value).run()
    assert linked(app)[field] == value and label in words(app)
    (told,) = [one.value for one in app.markdown if " other setting" in one.value]
    assert "→" in told and "GiB" in told, told
    assert ("$" in told) != ("Incomplete" in words(app)), told
    app.button(key="take-back").click().run()
    assert linked(app) == before


if __name__ == "__main__":
    main(*sys.argv[1:])
