"""The parser of all commands, and the options that several commands have."""

from __future__ import annotations

import argparse
import difflib
import itertools
import re
import sys
import textwrap
from typing import TYPE_CHECKING, ClassVar, NoReturn, TypeVar

from holter.schema.metrics import INTERVALS_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SHARED: dict[str, tuple[str | None, str]] = {
    "job": ("JOB", "a job's name, the start of its name, `latest`, or a job's folder"),
    "--store": ("URL", "folder or URL that holds the jobs; default: $HOLTER_STORE, else ./holter-jobs"),
    "--price": (
        "MONEY",
        "the price of one machine per hour; prints the cost of the job and of its idle time",
    ),
    "--perturbed": (
        "JOB",
        "with --tensors: the baseline recorded again, with another number of threads for example; its "
        "differences from the baseline are round-off",
    ),
    "--mean": (None, "compare means of step times instead of medians"),
    "--force": (None, "overwrite an existing file"),
    "--json": (None, "print one JSON document instead of text"),
}
"""Arguments that several commands take: the metavar (a switch has none) and the help."""

_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z%]*)")
_UNITS_MS = {"": 1, "ms": 1, "s": 1000, "min": 60_000}
_OF_A_VALUE = re.compile(r"^argument (\S+): (?=.* is not valid; valid: )")
_LEAST, _MOST = -sys.float_info.max, sys.float_info.max
_Number = TypeVar("_Number", int, float)


class Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """Says in one line why a command cannot do what the user asks; `code` is the exit code."""

    WRONG_USAGE = 64
    NOT_FOUND = 4
    NOT_RUNNING = 5
    UNREADABLE = 65

    def __init__(self, text: str, code: int = WRONG_USAGE) -> None:
        super().__init__(text)
        self.code = code


class Refusing:
    """Turns errors inside a `with` block into a `Refusal` with their message after the text `before`."""

    def __init__(self, *errors: type[Exception], before: str = "", code: int = Refusal.WRONG_USAGE) -> None:
        self._errors, self._before, self._code = errors, before, code

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, self._errors):
            raise Refusal(f"{self._before}{error}", self._code) from None


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` with the valid name nearest to `word`; empty without a near name."""
    by_fold = {name.lower(): name for name in valid}
    near = difflib.get_close_matches(word.lower(), by_fold, n=1, cutoff=0.55)
    return f" (did you mean {by_fold[near[0]]!r}?)" if near else ""


class _Paragraphs(argparse.RawDescriptionHelpFormatter):
    """Wraps help to the terminal's width; indented lines, which are commands to copy, stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = itertools.groupby(text.splitlines(), lambda line: line.startswith(" ") or not line)
        return "\n".join(
            "\n".join(lines) if kept else textwrap.fill(" ".join(lines), width, break_on_hyphens=False)
            for kept, lines in parts
        )


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `Refusal` with one line, and suggests the nearest option."""

    newest: ClassVar[Parser]
    """The parser that was made last; completion reads the options of each command from it."""

    def __init__(
        self, command: str, about: str, examples: str, *shared: str, usage: str | None = None
    ) -> None:
        """Make the parser of a command with some `SHARED` arguments."""
        super().__init__(
            prog=f"holter {command}",
            usage=usage,
            description=about,
            epilog=f"examples:\n{examples}",
            formatter_class=_Paragraphs,
            allow_abbrev=False,
        )
        self.add_shared(*shared)
        Parser.newest = self

    def add_shared(self, *names: str) -> None:
        """Add arguments of `SHARED`."""
        for name in names:
            metavar, text = SHARED[name]
            if metavar:
                self.add_argument(name, metavar=metavar, help=text)
            else:
                self.add_argument(name, action="store_true", help=text)

    def error(self, message: str) -> NoReturn:
        """Refuse with argparse's message, which begins with the option that it is about."""
        told = _OF_A_VALUE.sub(r"\1 ", message).removeprefix("argument ")
        raise Refusal(f"{told}; see `{self.prog} --help`")

    def read(self, words: list[str]) -> argparse.Namespace:
        """Parse `words`; raises `Refusal` that names the first wrong one."""
        try:
            known, unknown = self._parsed(words)
        except Refusal:
            # A misspelled option makes argparse say that something is missing: name the misspelled one.
            self._refuse_unknown(word for word in words if word.split("=")[0] not in self.names())
            raise
        self._refuse_unknown(unknown)
        if unknown:
            raise Refusal(f"unexpected argument {unknown[0]!r}; see `{self.prog} --help`")
        for action in self._actions:
            # Usually a shell variable that is not set. Options that may stand alone have an empty constant.
            if getattr(known, action.dest, None) == "" and action.const != "":
                name = action.option_strings[-1] if action.option_strings else action.metavar
                raise Refusal(f"{name} is empty; see `{self.prog} --help`")
        return known

    def _parsed(self, words: list[str]) -> tuple[argparse.Namespace, list[str]]:
        known, unknown = self.parse_known_args(words)
        if unknown and not any(word.startswith("-") for word in unknown):
            # Names may stand before and after options, as in `JOB --store URL RULE`.
            return self.parse_known_intermixed_args(words)
        return known, unknown

    def _refuse_unknown(self, words: Iterable[str]) -> None:
        for word in words:
            if word.startswith("--"):
                option, valid = word.split("=")[0], ", ".join(sorted(self.names()))
                raise Refusal(f"unknown option {option}{nearest(option, self.names())}; valid: {valid}")

    def names(self) -> list[str]:
        """Return the long options."""
        return [name for name in self._option_string_actions if name.startswith("--")]


def check_choice(what: str, given: str, valid: Iterable[str]) -> None:
    """Raise `Refusal` with the nearest valid name if the given name is not valid."""
    names = list(valid)
    if given not in names:
        raise Refusal(f"unknown {what} {given!r}{nearest(given, names)}; valid: {', '.join(names)}")


def number(text: str | int, low: float, high: float = sys.float_info.max) -> float | None:
    """Return the number that a text holds; None if it holds no number of this range."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if low <= value <= high else None


def within(
    kind: type[_Number], low: float = _LEAST, high: float = _MOST, unit: str = ""
) -> Callable[[str], _Number]:
    """Return what reads the number of an option, as `type` of `add_argument`; it names what is valid."""
    what = "a whole number" if kind is int else "a number"
    reach = (
        "" if low == _LEAST else f" of at least {low:g}" if high == _MOST else f" from {low:g} to {high:.15g}"
    )
    valid = f"{what}{reach} {unit}".rstrip()

    def read(text: str) -> _Number:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            shown = text if text and " " not in text else repr(text)
            raise argparse.ArgumentTypeError(f"{shown} is not valid; valid: {valid}")
        return value

    return read


def quantity(text: str, units: Mapping[str, float]) -> float | None:
    """Return a number times its unit, as in `1.5 GB`, in any case; None for another text or unit."""
    match = _QUANTITY.fullmatch(text.strip())
    unit = units.get(match[2].lower()) if match else None
    return None if match is None or unit is None else float(match[1]) * unit


def price(given: str | None) -> float | None:
    """Read `--price`, in any currency; raises `Refusal`."""
    if given is None:
        return None
    if (value := number(given, 0)) is not None:
        return value
    raise Refusal(f"--price {given} is not a price; valid: a number of at least 0, as in 32.77")


def total_steps(given: str) -> int:
    """Read `--total-steps`; raises `Refusal`."""
    if not (given.isdecimal() and 0 < int(given) < 2**53):
        raise Refusal(f"--total-steps {given} is not a number of steps; valid: 1, 2, 3, ...")
    return int(given)


def range_of(option: str, given: str, number_of: type[_Number]) -> tuple[_Number | None, _Number | None]:
    """Read a range `A:B`, `A:` or `:B`; raises `Refusal`."""
    first, colon, last = given.partition(":")
    try:
        if colon and given != ":":
            return (number_of(first) if first else None), (number_of(last) if last else None)
    except ValueError:
        pass
    raise Refusal(f"{option} {given!r} is not a range; valid: A:B, A: or :B, as in 100:120")


def hang_s(given: str) -> float:
    """Read `--hang-after`, in seconds; raises `Refusal`."""
    if (seconds := number(given, 1, 86_400)) is None:
        raise Refusal(f"--hang-after {given} is not valid; it takes seconds from 1 to 86400")
    return seconds


def interval_ms(text: str) -> int:
    """Read a sampling interval (`200ms`, `1s`, `1min`); raises `Refusal` naming the valid ones."""
    valid = ", ".join(map(interval_text, INTERVALS_MS))
    asked = quantity(text, _UNITS_MS)
    if asked is None:
        raise Refusal(f"interval {text!r} is not a time; valid: {valid}")
    if asked not in INTERVALS_MS:
        near = min(INTERVALS_MS, key=lambda valid_ms: abs(valid_ms - asked))
        raise Refusal(f"interval {text} is not allowed; valid: {valid} (nearest: {interval_text(near)})")
    return int(asked)


def interval_text(milliseconds: int) -> str:
    """Return an interval as a user writes it: `500ms`, `5s`, `1min`."""
    for unit in ("min", "s"):
        if milliseconds % _UNITS_MS[unit] == 0:
            return f"{milliseconds // _UNITS_MS[unit]}{unit}"
    return f"{milliseconds}ms"
