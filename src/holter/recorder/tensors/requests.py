"""Parses the requests of `--save`: `gradients@100`, `weights@50:histogram`, `/attn/@10:raw`.

A request is a selection, then `@` and the interval, then options, each after a colon (or a comma):

* selection: a collection of `collections.SOURCES`; a regular expression between slashes; `role=ROLE`;
* `histogram`, `exponents`, `raw`, `values`, `shape`, `active`, `abs_min`, `prod`: what is kept in addition
  to the statistics;
  `no-statistics`: no statistics; `no-delta`, `no-quantiles`, `no-fingerprint`: not these; `each`: quantiles
  and fingerprints at each save, not once in ten steps; `everything`: all but raw;
* `start=STEP`, `end=STEP`, `steps=3+7+9`: when; `train=N`, `eval=N`, `predict=N`: the interval in one mode
  alone.
"""

from __future__ import annotations

import difflib
import json
import re
from typing import TYPE_CHECKING, Any

from holter.recorder.guard import tell
from holter.recorder.tensors.collections import (
    EACH,
    EVERYTHING,
    KEPT,
    SOURCES,
    STATISTICS,
    Collection,
    nearest,
)
from holter.recorder.tensors.schedule import MODES, Schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

DEFAULT_EVERY = 100
_UNMATCHED_AFTER = 2
"""Saved steps after which a regular expression without a match is reported."""
_REQUEST = re.compile(
    r"(/.+/|role=(?:(?:act_in|act_out|model_input):\w+|\w+)|[^@:,]+)(?:@([^:,]*))?((?:[:,].*)?)"
)
_WITHOUT = {f"no-{name}": name for name in STATISTICS}
_NUMBERS = ("start", "end")
_OPTIONS = (
    *KEPT,
    *_WITHOUT,
    EACH,
    EVERYTHING,
    "start=STEP",
    "end=STEP",
    "steps=STEP+STEP",
    *(f"{m}=N" for m in MODES),
)


def request(text: str, every: int = DEFAULT_EVERY) -> Collection:
    """Read one request; `every` is the interval of one that names none.

    Raises:
        ValueError: It cannot be read; the text names what is wrong, what is valid, and the nearest.
    """
    match = _REQUEST.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text!r} asks for nothing that can be saved; write it as gradients@100 or /regex/@50:raw"
        )
    selection, interval, rest = match[1], match[2], match[3]
    words = [word.strip() for word in re.split(r"[:,]", rest) if word.strip()]
    schedules = _schedules(text, _number(text, "interval", interval, every), words)
    statistics, kept = _wanted(text, words)
    if selection.startswith("/"):
        return Collection(text.strip(), (selection[1:-1],), (), schedules, statistics, kept)
    if selection.startswith("role="):
        return Collection(text.strip(), (), (selection[5:],), schedules, statistics, kept)
    name = selection.strip()
    if name not in SOURCES:
        raise ValueError(
            f"no collection {name!r}{nearest(name, SOURCES)};"
            f" there are: {', '.join(SOURCES)}; or /regex/, role=ROLE"
        )
    if name == "activations" and "statistics" in statistics:
        kept |= {"active"}
    return Collection(name, (), (), schedules, statistics, kept)


def requests(given: Iterable[str | Mapping[str, Any]], every: int = DEFAULT_EVERY) -> list[Collection]:
    """Read several; one may also be a mapping with `name` and what `Collection.to_json` has.

    Raises:
        ValueError: One cannot be read, or two have one name.
    """
    found: dict[str, Collection] = {}
    for one in given:
        read = request(one, every) if isinstance(one, str) else Collection.from_json(str(one["name"]), one)
        if read.name in found:
            raise ValueError(f"collection {read.name!r} is asked for twice; put what is wanted in one")
        found[read.name] = read
    return list(found.values())


def to_environment(collections: Sequence[Collection]) -> str:
    """Return collections as the text that children find in their environment."""
    return json.dumps([{"name": one.name, **one.to_json()} for one in collections], separators=(",", ":"))


def from_environment(text: str | None) -> list[Collection]:
    """Read what `to_environment` returned; none when there is no text. Raises `ValueError`."""
    return requests(json.loads(text)) if text else []


def _schedules(text: str, interval: int, words: list[str]) -> dict[str, Schedule]:
    """Take the words that say when out of `words`; return a schedule for each mode."""
    when: dict[str, int] = {}
    steps: tuple[int, ...] = ()
    by_mode: dict[str, int] = {}
    for word in list(words):
        name, equals, value = word.partition("=")
        if not equals:
            continue
        words.remove(word)
        if name in _NUMBERS:
            when[name] = _number(text, name, value)
        elif name == "steps":
            steps = tuple(sorted(_number(text, "step", one) for one in value.split("+")))
        elif name in MODES:
            by_mode[name] = _number(text, "interval", value)
        else:
            raise _unknown(text, name)
    modes = list(by_mode) if by_mode else [mode for mode in MODES if mode != "global"]
    try:
        return {mode: Schedule(by_mode.get(mode, interval), steps=steps, **when) for mode in modes}
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None


def _wanted(text: str, words: list[str]) -> tuple[tuple[str, ...], frozenset[str]]:
    statistics, kept = list(STATISTICS), set()
    for word in words:
        if word in KEPT:
            kept.add(word)
        elif word == EVERYTHING:
            kept |= set(KEPT) - {"raw", "values"}
            statistics.append(EACH)
        elif word == EACH:
            statistics.append(EACH)
        elif word == "no-statistics":
            statistics.clear()
        elif word in _WITHOUT:
            statistics = [name for name in statistics if name != _WITHOUT[word]]
        elif word != "statistics":
            raise _unknown(text, word)
    return tuple(statistics), frozenset(kept)


def _number(text: str, what: str, given: str | None, default: int | None = None) -> int:
    if given is None and default is not None:
        return default
    if given is None or not re.fullmatch(r"\d+", given.strip()):
        raise ValueError(f"{text!r}: {what} {given!r} is no number of steps; write it as gradients@100")
    return int(given)


def _unknown(text: str, word: str) -> ValueError:
    return ValueError(f"{text!r}: no option {word!r}{nearest(word, _OPTIONS)}; valid: {', '.join(_OPTIONS)}")


class Unmatched:
    """Reports regular expressions that match no tensor, once, with similar names."""

    def __init__(self) -> None:
        self._saves = 0
        self._reported: set[str] = set()

    def begin(self) -> None:
        """Count saved steps again, because there are new collections."""
        self._saves = 0

    def look(self, collections: Sequence[Collection], seen: AbstractSet[str], *, last: bool = False) -> None:
        """Compare with the names seen so far, after the second saved step and at the end of the training."""
        self._saves += not last
        if not seen or not (self._saves == _UNMATCHED_AFTER or last):
            return
        for one in collections:
            for pattern in one.include_regex:
                if pattern in self._reported or any(re.search(pattern, name) for name in seen):
                    continue
                self._reported.add(pattern)
                near = difflib.get_close_matches(pattern, sorted(seen), n=3, cutoff=0.3)
                hint = f"; there are, among others: {', '.join(near or sorted(seen)[:3])}"
                tell(f"nothing to save matches the regular expression {pattern!r}{hint}")
