"""`holter report JOB`: one file that holds everything, to send or to keep."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from holter.cli import options
from holter.cli.options import Refusal, nearest

if TYPE_CHECKING:
    from holter.store.job import JobFolder

ABOUT = "Write a job's report: one file, no network, nothing beside it."
EXAMPLES = """  holter report latest
  holter report latest -o report.html
  holter report latest --format ipynb -o report.ipynb
  holter report latest --format json -o - | jq .description.verdict
  holter report latest --format sagemaker -o report/"""

FORMATS = ("html", "ipynb", "json", "sagemaker")


def main(words: list[str]) -> int:
    """Run `holter report`."""
    parser = options.Parser("report", ABOUT, EXAMPLES)
    options.add_job(parser)
    options.add_store(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="where to; default JOB.html, - for stdout")
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        help="html (default), ipynb (a notebook), json, or sagemaker: a folder with a page, a notebook and a "
        "JSON file for each rule",
    )
    parser.add_argument("--force", action="store_true", help="write over a file that is there")
    options.add_price(parser)
    given = parser.read(words)
    kind = given.format or _by_ending(given.output)
    if kind not in FORMATS:
        raise Refusal(f"no format {kind!r}{nearest(kind, FORMATS)}; valid: {', '.join(FORMATS)}")
    folder = options.find_job(given.job, given.store)
    options.check_readable(folder)
    from holter.report.formats import report
    from holter.store.trial import Trial

    if kind == "sagemaker":
        return _folder(folder, given.output or f"{folder.name}-profiler-output", force=given.force)
    output = given.output or f"{folder.name}.{kind}"
    if output != "-" and os.path.exists(output) and not given.force:
        raise Refusal(f"{output} is there already; --force writes over it")
    text = report(Trial(folder), kind, price=options.price(given.price))
    if output == "-":
        sys.stdout.write(text)
        return 0
    try:
        _write(Path(output), text)
    except OSError as error:
        raise Refusal(f"{output} cannot be written: {error.strerror or error}", Refusal.UNREADABLE) from None
    print(output)
    return 0


def _folder(folder: JobFolder, output: str, *, force: bool) -> int:
    """Write the files of SageMaker's profiler report below a folder."""
    from holter.report.profiler_report import files

    if output == "-":
        raise Refusal("--format sagemaker writes a folder; -o says which")
    where = Path(output)
    if where.is_dir() and any(where.iterdir()) and not force:
        raise Refusal(f"{output} is there already; --force writes over it")
    made = files(folder, judge=True)
    try:
        for name, text in made.items():
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            _write(where / name, text)
    except OSError as error:
        raise Refusal(f"{output} cannot be written: {error.strerror or error}", Refusal.UNREADABLE) from None
    print(output)
    return 0


def _by_ending(output: str | None) -> str:
    ending = Path(output or "").suffix.removeprefix(".")
    return ending if ending in FORMATS else "html"


def _write(path: Path, text: str) -> None:
    """Write a file as a whole: who opens it meanwhile sees the old one or the new one."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
