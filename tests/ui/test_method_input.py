"""One list of methods and variations: what is chosen is kept, said and taken back."""

from __future__ import annotations

import pytest

from planner.plan.methods import methods, variations
from ui.opened_pages import field, has, link_of, opened, words


def test_every_method_and_variation_is_in_the_list_by_its_own_name() -> None:
    options = field(opened(), "method").options
    titles = [
        *(one.title for one in methods().values()),
        *(owner.variations[name].title for name, owner in variations().items()),
    ]
    assert sorted(option.partition(" · ")[0] for option in options) == sorted(titles)
    assert len(options) == len(set(options))


@pytest.mark.parametrize("name", list(variations()))
def test_a_variation_sets_what_makes_it_and_says_what_that_moves(name: str) -> None:
    app = opened(v="9", preset="sft-8b@1")
    field(app, "method").set_value(name).run()
    assert not app.exception and not app.error
    link = link_of(app)
    assert (link["method"], link["variation"], link["kl"]) == ("grpo", name, "none")
    varied = variations()[name].variations[name]
    shown = words(app)
    assert varied.memory in shown and f"{varied.title} of Llama" in shown
    assert not has(app, "variation"), "the method's own list has it"


def test_another_method_is_no_variation() -> None:
    app = opened(v="9", preset="grpo-7b@1", variation="dapo")
    assert field(app, "method").value == "dapo"
    field(app, "method").set_value("rloo").run()
    assert not app.error and link_of(app)["variation"] == "none"
    field(app, "method").set_value("dapo").run()
    field(app, "method").set_value("grpo").run()
    assert link_of(app)["variation"] == "none" and "Clip-higher" not in words(app)
