"""`--config FILE`: the options of `holter run` by their names, a section for each rule; SageMaker's JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomllib

from holter.cli.options import Refusal, interval_text, nearest, warn
from holter.cli.saving import read_hook

if TYPE_CHECKING:
    from holter.cli.options import Parser

_LISTS = {"rule", "fail-on", "action", "save", "profile-steps"}
_SWITCHES = {"no-rules"}
_NOT_IN_FILE = {"config", "help", "command"}


def read_config(path: str, parser: Parser) -> dict[str, Any]:
    """Read the options of `parser` and the rules' sections from a TOML file, or SageMaker's from JSON.

    Options stand at the top or in a section `[run]`, rules in `[rules.NAME]`, what is done about issues in
    `[[actions]]`; `-` and `_` are the same.

    Returns:
        Options by their names, `rule`, `action` and `fail-on` as lists; `rules`: parameters by rule;
        `actions`: its tables; `windows`: profiling windows, as `schema.windows.Request`.

    Raises:
        Refusal: naming the file, the entry and what is valid.
    """
    if path.endswith(".json"):
        return _read_json(path)
    try:
        # Not tomllib.load: an editor on Windows may begin the file with a byte order mark.
        document = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise Refusal(f"config {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Refusal(f"config {path}: not UTF-8 text (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise Refusal(f"config {path}: {error}") from None
    rules, actions = document.pop("rules", {}), document.pop("actions", [])
    section = document.pop("run", {})
    if not isinstance(section, dict):
        raise Refusal(f"config {path}: `run` must be a section [run]")
    if not isinstance(rules, dict) or not all(isinstance(entry, dict) for entry in rules.values()):
        raise Refusal(f"config {path}: rules are sections: [rules.LowGPUUtilization]")
    if not isinstance(actions, list) or not all(isinstance(entry, dict) for entry in actions):
        raise Refusal(f"config {path}: actions are tables [[actions]] with `on` and `do`")
    settings: dict[str, Any] = {"rules": rules, "actions": actions}
    valid = sorted({name[2:] for name in parser.names()} - _NOT_IN_FILE)
    for key, value in {**document, **section}.items():
        name = key.replace("_", "-")
        if name not in valid:
            listed = ", ".join([*valid, "rules", "actions"])
            raise Refusal(f"config {path}: no option {key!r}{nearest(name, valid)}; valid: {listed}")
        settings[name] = _value(path, name, value)
    return settings


def _read_json(path: str) -> dict[str, Any]:
    """Read what SageMaker configures: its profiler or its Debugger hook."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise Refusal(f"config {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Refusal(f"config {path}: {error}") from None
    from holter.agent.profilerconfig import is_profiler_config, read

    if not is_profiler_config(document):
        return {"rules": {}, "save": read_hook(path, document)}
    found = read(document)
    if found.problems:
        raise Refusal(f"config {path}: {'; '.join(found.problems)}")
    for notice in found.notices:
        warn(f"config {path}: {notice}")
    settings: dict[str, Any] = {"rules": {}, "windows": list(found.windows)}
    if found.interval_ms is not None:
        settings["interval"] = interval_text(found.interval_ms)
    return settings


def from_environment() -> dict[str, Any]:
    """Return what the `profilerconfig.json` asks for that SageMaker's variable names.

    It is no choice of who typed the command, so what is wrong with it is told and refuses nothing.
    """
    from holter.agent.profilerconfig import VARIABLE, load

    path = os.environ.get(VARIABLE)
    if not path or not os.path.exists(path):
        return {"rules": {}, "actions": []}
    found = load(path)
    for line in (*found.problems, *found.notices):
        warn(f"{path}: {line.removeprefix(f'{path}: ')}")
    interval = {} if found.interval_ms is None else {"interval": interval_text(found.interval_ms)}
    return {"rules": {}, "actions": [], "windows": list(found.windows), **interval}


def _value(path: str, name: str, value: Any) -> Any:
    if name in _SWITCHES:
        if isinstance(value, bool):
            return value or None
        raise Refusal(f"config {path}: {name} must be true or false, not {value!r}")
    if name in _LISTS:
        listed = value if isinstance(value, list) else [value]
        if all(isinstance(entry, str) for entry in listed):
            return listed
        raise Refusal(f"config {path}: {name} must be a text or a list of texts, not {value!r}")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Refusal(f"config {path}: {name} must be a text, not {value!r}")
    return str(value)
