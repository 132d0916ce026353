"""`holter report JOB`: write the whole report of a job into one file."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from holter.cli import options, output
from holter.cli.job_lookup import readable_job
from holter.cli.options import Refusal

ABOUT = "Write the report of a job into one file that needs no network and no other file."
EXAMPLES = """  holter report latest
  holter report latest -o report.html
  holter report latest --format ipynb -o report.ipynb
  holter report latest --format json -o - | jq .description.verdict
  holter report latest --format sagemaker -o report/"""

FORMATS = ("html", "ipynb", "json", "sagemaker")


def main(words: list[str]) -> int:
    """Run `holter report`."""
    parser = options.Parser("report", ABOUT, EXAMPLES, "job", "--store", "--price", "--force", "--json")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="the file to write, - for standard output; default: JOB.html"
    )
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        help="html (default), ipynb (a notebook), json, or sagemaker (a folder with a page, a notebook and "
        "one JSON file per rule)",
    )
    given = parser.read(words)
    kind = given.format or _by_ending(given.output)
    options.check_choice("format", kind, FORMATS)
    if given.json and given.output == "-":
        raise Refusal("--json names the file that was written; for the report as JSON give --format json")
    trial = readable_job(given.job, given.store)
    folder = trial.folder
    from holter.report.formats import report

    ending = "-profiler-output" if kind == "sagemaker" else f".{kind}"
    path = given.output or folder.name + ending
    _check_free(path, kind, force=given.force)
    if kind == "sagemaker":
        from holter.report.profiler_report import files

        written = {Path(path) / name: text for name, text in files(folder, judge=True).items()}
    else:
        text = report(trial, kind, price=options.price(given.price))
        if path == "-":
            sys.stdout.write(text)
            return 0
        written = {Path(path): text}
    try:
        for file, text in written.items():
            if kind == "sagemaker":
                file.parent.mkdir(parents=True, exist_ok=True)
            _write(file, text)
    except OSError as error:
        raise Refusal(f"{path} cannot be written: {error.strerror or error}", Refusal.UNREADABLE) from None
    if given.json:
        output.write_json({"schema": 1, "job": folder.name, "format": kind, "path": path})
    else:
        print(path)
    return 0


def _check_free(path: str, kind: str, *, force: bool) -> None:
    """Refuse to overwrite a file, or a folder that holds files."""
    if kind == "sagemaker" and path == "-":
        raise Refusal("--format sagemaker writes a folder; name it with -o")
    taken = os.path.exists(path)
    if kind == "sagemaker" and os.path.isdir(path):
        taken = bool(os.listdir(path))
    if path != "-" and taken and not force:
        raise Refusal(f"{path} exists; --force overwrites it")


def _by_ending(output: str | None) -> str:
    ending = Path(output or "").suffix.removeprefix(".")
    return ending if ending in FORMATS else "html"


def _write(path: Path, text: str) -> None:
    """Replace a file at once: a reader sees the old text or the new text."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
