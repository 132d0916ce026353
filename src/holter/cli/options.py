"""What commands share: a parser that suggests the nearest name; how a job or an interval is named."""

from __future__ import annotations

import argparse
import difflib
import itertools
import os
import re
import shlex
import sys
import textwrap
from typing import TYPE_CHECKING, NoReturn, TextIO

from holter.schema.metrics import INTERVALS_MS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holter.store.job import JobFolder

_UNITS_MS = {"ms": 1, "s": 1000, "min": 60_000}
_INTERVAL = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min)?\s*")


class Refusal(Exception):  # noqa: N818 - an answer, not a fault
    """What cannot be done, in one line; `code` is the exit code."""

    WRONG_USAGE = 64
    NOT_FOUND = 4
    NOT_RUNNING = 5
    UNREADABLE = 65

    def __init__(self, text: str, code: int = WRONG_USAGE) -> None:
        super().__init__(text)
        self.code = code


def nearest(word: str, valid: Iterable[str]) -> str:
    """Say which valid name is nearest to `word`: ` (did you mean 'x'?)`, or nothing when none is near."""
    by_fold = {name.lower(): name for name in valid}
    near = difflib.get_close_matches(word.lower(), by_fold, n=1, cutoff=0.55)
    return f" (did you mean {by_fold[near[0]]!r}?)" if near else ""


class _Paragraphs(argparse.RawDescriptionHelpFormatter):
    """Help as wide as the terminal; indented lines, which are commands to copy, stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = itertools.groupby(text.splitlines(), lambda line: line.startswith(" ") or not line)
        return "\n".join(
            "\n".join(lines) if kept else textwrap.fill(" ".join(lines), width, break_on_hyphens=False)
            for kept, lines in parts
        )


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `Refusal` with one line, and suggests the nearest option."""

    def __init__(self, command: str, about: str, examples: str, usage: str | None = None) -> None:
        super().__init__(
            prog=f"holter {command}",
            usage=usage,
            description=about,
            epilog=f"examples:\n{examples}",
            formatter_class=_Paragraphs,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Refuse with argparse's message."""
        raise Refusal(f"{message}; see `{self.prog} --help`")

    def read(self, words: list[str], later: Iterable[str] = ()) -> argparse.Namespace:
        """Parse `words`; an unknown option is refused by name, one of `later` as not in this version."""
        try:
            known, unknown = self._parsed(words)
        except Refusal:
            # A misspelt option is the reason for what argparse says first: that something is missing.
            self._refuse([word for word in words if word.split("=")[0] not in self.names()], later)
            raise
        self._refuse(unknown, later)
        if unknown:
            raise Refusal(f"unexpected argument {unknown[0]!r}; see `{self.prog} --help`")
        for action in self._actions:
            # As of a variable of the shell that is not set; an option that needs no value has its own word.
            if getattr(known, action.dest, None) == "" and action.const != "":
                said = action.option_strings[-1] if action.option_strings else action.metavar
                raise Refusal(f"{said} is empty; see `{self.prog} --help`")
        return known

    def _parsed(self, words: list[str]) -> tuple[argparse.Namespace, list[str]]:
        known, unknown = self.parse_known_args(words)
        if unknown and not any(word.startswith("-") for word in unknown):
            # Names may stand before and after options, as in `JOB --store URL RULE`.
            return self.parse_known_intermixed_args(words)
        return known, unknown

    def _refuse(self, words: Iterable[str], later: Iterable[str]) -> None:
        for word in words:
            option = word.split("=")[0]
            if option in later:
                from holter import __version__

                raise Refusal(f"{option} is not in this version ({__version__}); {self._valid()}")
            if word.startswith("--"):
                raise Refusal(f"unknown option {option}{nearest(option, self.names())}; {self._valid()}")

    def names(self) -> list[str]:
        """Return the long options."""
        return [name for name in self._option_string_actions if name.startswith("--")]

    def _valid(self) -> str:
        return f"valid: {', '.join(sorted(self.names()))}"


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add `--store URL`."""
    parser.add_argument(
        "--store",
        metavar="URL",
        default=None,
        help="folder (or URL) that holds the jobs; default: $HOLTER_STORE, else ./holter-jobs",
    )


def add_job(parser: argparse.ArgumentParser) -> None:
    """Add the positional `JOB`."""
    parser.add_argument(
        "job", metavar="JOB", help="a job's name, the start of one, `latest`, or a job's folder"
    )


def add_price(parser: argparse.ArgumentParser) -> None:
    """Add `--price`."""
    parser.add_argument(
        "--price",
        metavar="MONEY",
        help="what one machine costs an hour: what the job cost, and its idle part",
    )


def price(given: str | None) -> float | None:
    """Read `--price`, in any currency; raises `Refusal`."""
    try:
        value = None if given is None else float(given)
    except ValueError:
        value = -1.0
    if value is not None and not 0 <= value < float("inf"):
        raise Refusal(f"--price {given} is no price; valid: a number of at least 0, as in 32.77")
    return value


def steps(given: str | int | None) -> int | None:
    """Read `--steps`; raises `Refusal`."""
    if given is not None and not (str(given).isdecimal() and 0 < int(given) < 2**53):
        raise Refusal(f"--steps {given} is no number of steps; valid: a whole number from 1 on")
    return None if given is None else int(given)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")


def interval_ms(text: str) -> int:
    """Read a sampling interval (`200ms`, `1s`, `1min`); raises `Refusal` naming the valid ones."""
    match = _INTERVAL.fullmatch(text)
    valid = ", ".join(map(interval_text, INTERVALS_MS))
    if not match:
        raise Refusal(f"interval {text!r} is not a time; valid: {valid}")
    asked = float(match[1]) * _UNITS_MS[match[2] or "ms"]
    if asked not in INTERVALS_MS:
        near = min(INTERVALS_MS, key=lambda valid_ms: abs(valid_ms - asked))
        raise Refusal(f"interval {text} is not allowed; valid: {valid} (nearest: {interval_text(near)})")
    return int(asked)


def interval_text(milliseconds: int) -> str:
    """Write an interval as a user would: `500ms`, `5s`, `1min`."""
    for unit in ("min", "s"):
        if milliseconds % _UNITS_MS[unit] == 0:
            return f"{milliseconds // _UNITS_MS[unit]}{unit}"
    return f"{milliseconds}ms"


def hang_s(given: str | None) -> float | None:
    """Read `--hang-after`, in seconds; raises `Refusal`."""
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86_400:
        raise Refusal(f"--hang-after {given} is not valid; it takes seconds from 1 to 86400")
    return seconds


def find_job(text: str, store: str | None) -> JobFolder:
    """Return the job that `text` names: a name, `latest`, a path or URL, or the start of exactly one name.

    Of a job whose agent was killed on this machine, what its spool holds is stored first.

    Raises:
        Refusal: with code 4, naming the store that was searched and the nearest names.
    """
    from holter.cli.commands.recover import look_for_spool

    folder = named_job(text, store)
    look_for_spool(folder)
    return folder


def named_job(text: str, store: str | None) -> JobFolder:
    """Return the job that `text` names, as `find_job`, but leave it as it is."""
    from holter.store.job import at, find, jobs, store_url

    url = store_url(store)
    try:
        if "/" in text or (os.path.isfile(os.path.join(text, "job.json")) and store is None):
            return at(text)
        known = jobs(url)
        if text == "latest":
            if not known:
                raise Refusal(
                    f"no job in store {url} yet; record one: holter run -- python train.py", Refusal.NOT_FOUND
                )
            return known[0]
        starting = [job for job in known if job.name.startswith(text)]
        if len(starting) == 1:
            return starting[0]
        if starting and all(job.name != text for job in starting):
            names = ", ".join(job.name for job in starting[:5]) + (", ..." if len(starting) > 5 else "")
            raise Refusal(f"{text!r} is the start of {len(starting)} jobs: {names}", Refusal.NOT_FOUND)
        return find(url, text)
    except LookupError as missing:
        raise Refusal(str(missing.args[0]), Refusal.NOT_FOUND) from None
    except (OSError, ValueError) as error:
        raise no_store(url, error) from None


def no_store(url: str, error: Exception) -> Refusal:
    """Return what says why a store cannot be read: in its error's own words where these name a store."""
    own = str(error)
    return Refusal(own if "is no store" in own else f"store {url}: {own}", Refusal.UNREADABLE)


def check_readable(folder: JobFolder) -> None:
    """Raise `Refusal` with code 65 for a job whose manifest cannot be read; warn of one left unfinished."""
    from holter.views import jobs

    if not jobs.readable(folder):
        why = str(folder.fault)
        if why.endswith("is missing"):
            why += "; `holter run` records a job, `holter import` makes one of traces"
        raise Refusal(f"job {folder.name} cannot be read: {why}", Refusal.UNREADABLE)
    if folder.manifest().get("status") in jobs.RUNNING and (gone := jobs.why_not_running(folder)):
        warn(gone)


def look(folder: JobFolder, command: str = "describe") -> str:
    """Return the command that shows this job, for who is in this folder and has this environment."""
    from holter.store.job import store_url

    url = folder.url
    if "://" not in url:
        local = os.path.dirname(os.path.abspath(url)) == os.path.abspath(store_url())
        near = os.path.relpath(url)
        # A bare name would be looked for in the usual store.
        inside = near if "/" in near else f"./{near}"
        url = folder.name if local else url if near.startswith("..") else inside
    return f"holter {command} {shlex.quote(url)}"


def store_of(folder: JobFolder) -> str:
    """Return the store that holds this job, as who is in this folder would write it."""
    store = os.path.dirname(folder.url)
    near = store if "://" in store else os.path.relpath(store)
    return store if near.startswith("..") else near


def say(line: str) -> None:
    """Print one line for people to standard output."""
    print(wrapped(line, sys.stdout))


def warn(text: str) -> None:
    """Print one line for people to standard error."""
    print(wrapped(f"holter: {text}", sys.stderr), file=sys.stderr)


def wrapped(line: str, stream: TextIO) -> str:
    """Return a line as it is; for a terminal that is narrower, broken between words."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        width = 0
    if not 0 < width < len(line):
        return line
    return textwrap.fill(
        line, width, subsequent_indent="        ", break_long_words=False, break_on_hyphens=False
    )
