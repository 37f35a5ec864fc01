"""A page in process, through the frame, as a link or a person would bring it about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from streamlit.testing.v1 import AppTest

APP = str(Path(__file__).parents[2] / "app.py")
PAGES = (
    *("plan", "import", "scaling", "recommend", "compare", "trial", "launch", "examples"),
    "formulas",
)


def opened(page: str = "plan", **query: str) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=600)
    for key, value in query.items():
        app.query_params[key] = value
    # Straight to the page, as a link leads there: no other page is drawn on the way.
    (app if page == "plan" else app.switch_page(f"pages/{page}.py")).run()
    assert not app.exception, [error.value for error in app.exception]
    return app


def words(app: AppTest) -> str:
    shown = (app.markdown, app.caption, app.success, app.warning, app.error, app.info, app.title)
    return "\n".join(str(element.value) for kind in shown for element in kind)


def field(app: AppTest, name: str) -> Any:
    key = f"field:{name}"
    for kind in (app.number_input, app.selectbox, app.toggle, app.text_input):
        for widget in kind:
            if widget.key == key:
                return widget
    raise KeyError(key)


def has(app: AppTest, name: str) -> bool:
    try:
        field(app, name)
    except KeyError:
        return False
    return True


def unfold(app: AppTest, group: str) -> AppTest:
    app.session_state[f"open:group:{group}"] = True
    return app.run()


def link_of(app: AppTest) -> dict[str, str]:
    """What stands in the address bar, complete as a link has to be."""
    found = app.query_params.items()
    return {key: value if isinstance(value, str) else value[-1] for key, value in found}


def press_in_row(app: AppTest, column: str, place: int) -> AppTest:
    """Click the button of a row of the table that has some, of which AppTest knows nothing."""
    found = next(one for one in app.dataframe if column in one.proto.button_click_widgets)
    states = app._tree.get_widget_states()
    clicked = states.widgets.add()
    clicked.id = found.proto.button_click_widgets[column]
    label = found.value[column].iloc[place]
    clicked.string_trigger_value.data = json.dumps({"row": int(place), "label": label})
    return app._run(states)
