"""Parses actions as users write them: `NAME:key=value,key=value`, and SageMaker's `action_json`."""

from __future__ import annotations

import json

from holter.parameters import BadParameter, split_options

_UPSTREAM: dict[str, tuple[str, dict[str, str]]] = {
    "stoptraining": ("stop_training", {"training_job_prefix": "job_prefix"}),
    "email": ("email", {"endpoint": "to"}),
    "sms": ("sms", {"endpoint": "to"}),
}


class BadAction(BadParameter):
    """An unknown action or option, or a value that is not valid; the text names what is valid."""


def split(text: str) -> tuple[str, dict[str, str]]:
    """Split `NAME:k=v,k=v` into name and options; a value in brackets or quotes may hold commas.

    Raises:
        BadAction: An option without `=`, one given twice, or a quote that does not end.
    """
    name, _, rest = text.partition(":")
    name = name.strip()
    if not name:
        raise BadAction(f"{text!r} names no action; write NAME or NAME:key=value,key=value")
    return name, split_options(rest, f"action {name}", "option", BadAction, quotes="'\"")


def folded(name: str) -> str:
    """Return a name in lower case and without separators, for comparison."""
    return name.replace("_", "").replace("-", "").casefold()


def upstream(text: str) -> list[tuple[str, dict[str, object]]]:
    """Translate SageMaker's `action_json`, a list of `{"name": …}`, into names and options of actions.

    Names may have any case, and values keep their case; SageMaker lowers everything.

    Raises:
        BadAction: The text is not such a list, or an action is unknown.
    """
    try:
        given = json.loads(text)
    except ValueError as error:
        raise BadAction(f"action_json is no JSON: {error}") from None
    found: list[tuple[str, dict[str, object]]] = []
    for one in given if isinstance(given, list) else [given]:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise BadAction(f'action_json: {one!r} is no action; write [{{"name": "stoptraining"}}]')
        name = one["name"].lower().replace("_", "")
        if name not in _UPSTREAM:
            raise BadAction(f"action_json: no action {one['name']!r}; there are: {', '.join(_UPSTREAM)}")
        known, names = _UPSTREAM[name]
        options = {names.get(str(key), str(key)): value for key, value in one.items() if key != "name"}
        found.append((known, {key: value for key, value in options.items() if value not in (None, "")}))
    return found
