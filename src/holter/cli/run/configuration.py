"""Read `--config FILE`: options of `holter run`, rules and actions in TOML, or a SageMaker configuration."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import tomllib

from holter.cli.options import Refusal, Refusing, interval_text, nearest
from holter.cli.output import warn
from holter.cli.run.options import RunOption, declared
from holter.cli.run.saving import read_hook, without_effect

if TYPE_CHECKING:
    from holter.schema.windows import Request
    from holter.store.documents import Document


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a configuration file asks for."""

    options: Document = field(default_factory=dict)
    """Texts, lists of texts and switches by the option's name, not yet checked."""
    rules: dict[str, Document] = field(default_factory=dict)
    """Parameters by rule."""
    actions: list[Document] = field(default_factory=list)
    tensors: list[Document] = field(default_factory=list)
    """Collections of a SageMaker hook configuration."""
    windows: tuple[Request, ...] = ()
    """Profiling windows of a SageMaker profiler configuration."""


def read_file(path: str) -> Configuration:
    """Read a TOML file, or SageMaker's JSON.

    In TOML, options stand at the top or in a section `[run]`, rules in `[rules.NAME]`, actions in
    `[[actions]]`; `-` and `_` in a name are the same.

    Raises:
        Refusal: The text names the file, the entry and what is valid.
    """
    if path.endswith(".json"):
        return _read_json(path)
    with Refusing(tomllib.TOMLDecodeError, before=f"config {path}: "):
        document = tomllib.loads(_text(path))
    rules, actions = document.pop("rules", {}), document.pop("actions", [])
    section = document.pop("run", {})
    if not isinstance(section, dict):
        raise Refusal(f"config {path}: `run` must be a section [run]")
    if not isinstance(rules, dict) or not all(isinstance(entry, dict) for entry in rules.values()):
        raise Refusal(f"config {path}: rules must be sections: [rules.LowGPUUtilization]")
    if not isinstance(actions, list) or not all(isinstance(entry, dict) for entry in actions):
        raise Refusal(f"config {path}: actions must be tables [[actions]] with `on` and `do`")
    valid = {name: option for name, option in declared().items() if option.in_file}
    options = {}
    for key, value in {**document, **section}.items():
        name = key.replace("_", "-")
        if name not in valid:
            listed = ", ".join([*sorted(valid), "rules", "actions"])
            raise Refusal(f"config {path}: unknown option {key!r}{nearest(name, valid)}; valid: {listed}")
        options[name] = _value(f"config {path}: {name}", valid[name], value)
    return Configuration(options=options, rules=rules, actions=actions)


def from_environment() -> Configuration:
    """Read the `profilerconfig.json` that SageMaker's variable names.

    The user did not name the file on this command line, so errors in it are warnings.
    """
    from holter.agent.profilerconfig import VARIABLE, load

    path = os.environ.get(VARIABLE)
    if not path or not os.path.exists(path):
        return Configuration()
    found = load(path)
    for line in (*found.problems, *found.notices):
        warn(f"{path}: {line.removeprefix(f'{path}: ')}")
    return Configuration(options=_interval(found.interval_ms), windows=tuple(found.windows))


def _read_json(path: str) -> Configuration:
    """Read SageMaker's configuration of its profiler or of its Debugger hook."""
    with Refusing(ValueError, RecursionError, before=f"config {path}: "):
        document = json.loads(_text(path))
    from holter.agent.profilerconfig import is_profiler_config, read

    if not is_profiler_config(document):
        tensors = read_hook(path, document)
        for line in without_effect(document):
            warn(f"config {path}: {line}")
        return Configuration(tensors=tensors)
    found = read(document)
    if found.problems:
        raise Refusal(f"config {path}: {'; '.join(found.problems)}")
    for notice in found.notices:
        warn(f"config {path}: {notice}")
    return Configuration(options=_interval(found.interval_ms), windows=tuple(found.windows))


def _text(path: str) -> str:
    try:
        # An editor on Windows may begin the file with a byte order mark.
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Refusal(f"config {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Refusal(f"config {path}: not UTF-8 text (byte {error.start})") from None


def _interval(milliseconds: int | None) -> dict[str, str]:
    return {} if milliseconds is None else {"interval": interval_text(milliseconds)}


def _value(where: str, option: RunOption, value: object) -> object:
    if option.kind == "switch":
        if isinstance(value, bool):
            return value
        raise Refusal(f"{where} must be true or false, not {value!r}")
    if option.kind == "list":
        listed = value if isinstance(value, list) else [value]
        if all(isinstance(entry, str) for entry in listed):
            return listed
        raise Refusal(f"{where} must be a text or a list of texts, not {value!r}")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Refusal(f"{where} must be a text, not {value!r}")
    return str(value)
