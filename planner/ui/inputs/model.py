"""The policy's model: one of the catalog, any Hub id, or a pasted or uploaded config.json."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from planner import catalog
from planner.catalog.hub import model_from_hub
from planner.catalog.model_catalog import Model
from planner.ui.elements import segments
from planner.ui.inputs.widgets import select
from planner.ui.state import session, typed
from planner.ui.state.draft import Draft
from planner.ui.uploads import sent, uploader
from planner.units import read_parameters
from planner.wording.display import plain

OTHER = "Other model…"
WAYS = ("Paste", "Upload")
HUB = re.compile(r"^(https?://)?(www\.)?(huggingface\.co|hf\.co)/|/(tree|blob|resolve)/.*$|/+$")
"""What an address of a model on the Hub has besides its id."""
LARGEST_MB = 1
"""Of an uploaded config.json; the reader's own limit is a quarter of it."""


def model_input(draft: Draft) -> None:
    """The model by name, whether the list has it or not, and the ways to bring its config."""
    names = _names()
    other = bool(st.session_state.get("other model") or draft.values["config"])
    current = draft.values["model"]
    known = (*names, OTHER) if current in names else (current, *names, OTHER)
    chosen = OTHER if other else current
    select("model", chosen, known, lambda id: names.get(id, id), _chosen, accept_new_options=True)
    if other:
        _other(draft)


def _chosen(text: str) -> None:
    """A model of the list, or what was typed or pasted in its place: an id, an address, a config.

    Of a part of a name the most popular model is meant that has it. What cannot be had opens the
    ways to bring a config, which a machine without the Hub needs.
    """
    st.session_state["other model"] = text == OTHER
    st.session_state.pop("model error", None)
    bare = HUB.sub("", text.strip())
    near = [id for id in _names() if bare.lower() in id.lower()]
    same = [id for id in near if bare.lower() in (id.lower(), id.lower().rpartition("/")[2])]
    if found := same or [id for id in near if "/" not in bare]:
        session.edit({"model": found[0], "config": ""})
    elif text != OTHER:
        _take(_parsed if bare.startswith("{") else _fetched, bare)


@st.cache_data(max_entries=1)
def _names() -> dict[str, str]:
    known = sorted(catalog.by_popularity(), key=lambda model: model.architecture is None)
    return {model.id: _named(model) for model in known}


def _named(model: Model) -> str:
    size = read_parameters(model.params or 0, model.params_active)
    return f"{model.id} · {size if model.architecture else 'not yet'}"


def _other(draft: Draft) -> None:
    with st.container(border=True):
        if draft.values["config"]:
            st.caption(_describe(draft.values["config"]))
        way = segments(
            "Where from",
            WAYS,
            "other model way",
            default=WAYS[0],
            help="Only the config is read, never weights; no code of the model is run.",
        )
        if way == "Paste":
            typed.listen("pasted config", partial(_take, _parsed))
            st.text_area(
                "config.json",
                key="pasted config",
                height=120,
                placeholder='{"model_type": "llama", "hidden_size": 4096, …}',
                help="Paste the whole file, then press Ctrl+Enter to use it.",
            )
        else:
            uploader(
                "config.json",
                "uploaded config",
                type="json",
                max_upload_size=LARGEST_MB,
                on_change=_take_upload,
                help="At most 256 KiB.",
            )
        if "model error" in st.session_state:
            st.error(plain(st.session_state["model error"]), icon=":material/error:")


def _describe(config: str) -> str:
    try:
        model = catalog.parse_config(catalog.decode_config(config))
    except ValueError as error:
        return plain(str(error))
    arch = model.architecture
    what = f"{arch.layers} layers, width {arch.hidden:,}" if arch else model.unsupported_reason
    return f"In use: {plain(model.name)}, {what if arch else plain(what)}"


def _take_upload() -> None:
    file = sent("uploaded config")
    if file is not None:
        _take(_parsed, file.getvalue())


def _parsed(text: str | bytes) -> dict[str, str]:
    return {"config": _encoded(catalog.parse_config(text))}


def _fetched(id: str) -> dict[str, str]:
    try:
        catalog.model(id)
    except ValueError:
        if "/" not in id:  # no id of the Hub; the catalog's own refusal names the closest ones
            raise
        return {"model": id, "config": _encoded(model_from_hub(id))}
    return {"model": id, "config": ""}


def _encoded(model: Model) -> str:
    if model.architecture is None and not model.spot:
        raise ValueError(f"{model.name} cannot be planned: {model.unsupported_reason}.")
    return catalog.encode_config(model.config)


def _take(read: Callable[[Any], dict[str, str]], given: str | bytes) -> None:
    st.session_state.pop("model error", None)
    try:
        changes = read(given)
    except ValueError as error:
        said = str(error).removeprefix("config: ")
        st.session_state["model error"] = re.sub("^model: .", lambda led: led[0][-1].upper(), said)
        st.session_state["other model"] = True
        return
    st.session_state["other model"] = bool(changes["config"])
    session.edit(changes)
