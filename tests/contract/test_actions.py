"""What holds for every action of the shelf."""

from __future__ import annotations

import dataclasses
import json

import pytest

from holter.actions import Action, BadAction, Secrets, catalogue, find
from holter.actions._orders import choose, documents

ENOUGH = {
    "email": {"to": "a@example.org"},
    "sms": {"to": "+491701234567"},
    "webhook": {"url_env": "HOOK"},
    "run_command": {"argv": "true"},
}
EVERY = sorted(catalogue())


@pytest.fixture(params=EVERY)
def kind(request) -> type[Action]:
    return catalogue()[request.param]


def test_the_shelf():
    assert {
        "stop_training",
        "email",
        "sms",
        "webhook",
        "run_command",
        "start_profiling",
        "dump_stacks",
    } <= set(EVERY)


PAGER = """
from dataclasses import dataclass
from holter.actions import Action, parameter

@dataclass(frozen=True, slots=True, kw_only=True)
class PageSomebody(Action):
    description = "pages somebody"
    who: str = parameter("oncall")
    def act(self, occasion, secrets):
        return f"paged {self.who}"
"""


def test_installed_packages_add_theirs(tmp_path, monkeypatch):
    (tmp_path / "pager.py").write_text(PAGER)
    (tmp_path / "pager-1.dist-info").mkdir()
    (tmp_path / "pager-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: pager\nVersion: 1\n"
    )
    points = "[holter.actions]\npage = pager:PageSomebody\n"
    (tmp_path / "pager-1.dist-info" / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    catalogue.cache_clear()
    try:
        (order,) = choose(["page_somebody:who=me,severity=critical"])
        assert order.action.values() == {"who": "me"}
        assert choose(documents([order])) == [order]
    finally:
        catalogue.cache_clear()


def test_it_is_a_frozen_dataclass_with_a_card(kind):
    assert dataclasses.is_dataclass(kind)
    assert kind.__dataclass_params__.frozen
    assert kind.description
    assert not kind.description.endswith(".")


def test_every_option_says_what_it_is(kind):
    for option in kind.parameters():
        assert option.meaning.endswith("."), f"{kind.name()}.{option.name}"


def test_it_is_found_by_any_spelling(kind):
    assert find(kind.name())[0] is kind
    assert find(kind.__name__)[0] is kind
    assert find(kind.name().replace("_", "-").upper())[0] is kind


def test_a_manifest_keeps_all_of_it(kind):
    given = {"do": [{kind.name(): ENOUGH.get(kind.name(), {})}], "armed": True, "cooldown_s": 3}
    (order,) = choose([given])
    (again,) = choose(json.loads(json.dumps(documents([order]))))
    assert again == order


def test_an_option_it_does_not_have_is_refused(kind):
    with pytest.raises(BadAction, match=f"action {kind.name()} has no option 'tiemout_s'"):
        kind.of({"tiemout_s": 3})


def test_secrets_are_named_and_never_held(kind):
    options = {option.name for option in kind.parameters()}
    assert not {name for name in options if name in ("token", "password", "secret", "key_value")}


def test_what_it_needs_is_asked_for_before_training_starts(kind):
    action, surroundings = kind.of(ENOUGH.get(kind.name(), {})), Secrets({"PATH": "/usr/bin:/bin"})
    if kind.name() not in ("email", "sms", "webhook"):
        action.check(surroundings)
        return
    with pytest.raises(BadAction, match="is not set"):
        action.check(surroundings)
