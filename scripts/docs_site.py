"""Build the documentation's site: python scripts/docs_site.py [--demo] [--site FOLDER].

Copies docs/ into a folder of its own, adds the pages that are made from the code, and the files outside of
docs/ to which pages link, then lets Zensical build. `--demo` records `holter demo` and adds its report.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
SHELVES = {
    "Tutorials": "tutorials",
    "How-to": "how-to",
    "Reference": "reference",
    "Explanation": "explanation",
    "Decisions": "decisions",
}
FIRST = (
    "first-job",
    "slow-data-loader",
    "nan-hunt",
    "two-ranks",
    "compare-and-gate",
    "own-rule",
    "own-collector",
    "old-sagemaker-job",
    "find-why-a-job-is-slow",
    "commands",
    "configuration",
    "library",
    "rules",
    "schema",
    "how-it-works",
)
"""Pages that come first on their shelf, in this order; the others follow by name."""
LIBRARY = {
    "Inside a training": ("holter.recorder.annotate", "holter.recorder.start", "holter.recorder.watching"),
    "Reading a job": ("holter.job", "holter.frame", "holter.tensors.selection"),
    "Comparing, and money": (
        "holter.views.comparison.document",
        "holter.analysis.jobs.cost",
        "holter.analysis.jobs.bill",
    ),
    "Rules and actions of your own": ("holter.rules", "holter.actions"),
    "Collectors of your own": ("holter.agent.collectors",),
}
DEMO = "demo.html"
SEE = f"[Look at the report of a recorded training]({DEMO}): it is one file, and works without a server."
LINK = re.compile(r"\]\(((?:\.\./)+)((?!\.\./)[^)#\s]+)(#[^)\s]*)?\)")


def main() -> None:
    """Build the site into a folder."""
    asked = argparse.ArgumentParser(description="Build the documentation's site.")
    asked.add_argument(
        "--site", type=Path, default=ROOT / "site", help="the folder of the site; default: site"
    )
    asked.add_argument("--demo", action="store_true", help="record holter demo and add its report")
    chosen = asked.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        about = written(Path(folder), chosen.demo)
        command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", str(about)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(command, check=False, env=environment)
        if done.returncode:
            raise SystemExit(done.returncode)
        shutil.rmtree(chosen.site, ignore_errors=True)
        shutil.move(f"{folder}/site", chosen.site)
    print(f"Look at it: python -m http.server --directory {chosen.site}")


def written(folder: Path, demo: bool) -> Path:
    """Write what Zensical reads into a folder; return the path of its configuration."""
    pages = folder / "docs"
    shutil.copytree(ROOT / "docs", pages)
    for name, make in MADE.items():
        (pages / name).write_text(make())
    for path in sorted(_linked()):
        (pages / "files" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, pages / "files" / path)
    for page in pages.rglob("*.md"):
        depth = len(page.relative_to(pages).parts) - 1
        page.write_text(_inside(page.read_text(), depth))
    if demo:
        record(pages / DEMO)
        start = pages / "index.md"
        start.write_text(start.read_text().replace("## Tutorials", f"{SEE}\n\n## Tutorials", 1))
    about = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    about |= {"docs_dir": "docs", "site_dir": "site", "nav": navigation(pages)}
    handler = about["plugins"][-1]["mkdocstrings"]["handlers"]["python"]
    handler["paths"] = [str(ROOT / path) for path in handler["paths"]]
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(about))
    return folder / "mkdocs.yml"


def navigation(pages: Path) -> list[dict[str, object]]:
    """Return the navigation: what lies on a shelf is in it, so that no page is forgotten."""
    shelves: list[dict[str, object]] = [{"Start": "index.md"}]
    for title, folder in SHELVES.items():
        names = {path.stem for path in (pages / folder).glob("*.md")}
        known = [name for name in FIRST if name in names]
        shelves.append({title: [f"{folder}/{name}.md" for name in [*known, *sorted(names - set(known))]]})
    return shelves


def record(report: Path) -> None:
    """Record the training of `holter demo` and write its report."""
    with tempfile.TemporaryDirectory() as store:
        for words in (["demo", "--job", "demo"], ["report", "demo", "-o", str(report)]):
            subprocess.run([sys.executable, "-m", "holter", *words, "--store", store], check=True, cwd=store)


def _inside(markdown: str, depth: int) -> str:
    """Lead links out of docs/ to the copies of what they name."""

    def inside(match: re.Match[str]) -> str:
        ups, path, anchor = match[1].count("../"), match[2], match[3] or ""
        return f"]({'../' * depth}files/{path})" if ups > depth else f"]({match[1]}{path}{anchor})"

    return LINK.sub(inside, markdown)


def _linked() -> set[str]:
    """Return the files outside of docs/ to which pages link."""
    found = set()
    for page in (ROOT / "docs").rglob("*.md"):
        depth = len(page.relative_to(ROOT / "docs").parts) - 1
        for ups, path, _ in LINK.findall(page.read_text()):
            if ups.count("../") > depth and (ROOT / path).is_file():
                found.add(path)
    return found


def commands() -> str:
    """Write every command's help, as its parser says it."""
    from holter.cli import COMMANDS

    lines = ["# Commands", "", "What `holter COMMAND --help` says.", ""]
    for name, what in COMMANDS.items():
        lines += [
            f"## holter {name}",
            "",
            f"{what[0].upper()}{what[1:]}.",
            "",
            "```text",
            _help(name),
            "```",
            "",
        ]
    return "\n".join(lines)


def _help(*words: str) -> str:
    from holter.cli import main

    said, width = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(said):
            main([*words, "--help"])
    finally:
        os.environ.pop("COLUMNS") if width is None else os.environ.update(COLUMNS=width)
    return said.getvalue().rstrip()


def configuration() -> str:
    """Write the options of the configuration file, which are those of `holter run`."""
    from holter.cli.run.options import declared

    kinds = {"list": "list of texts", "switch": "true or false", "text": "text"}
    rows = []
    for name, option in declared().items():
        if option.in_file:
            meaning = option.help.replace("%%", "%").replace("|", "\\|")
            rows.append(f"| `{name}` | {kinds[option.kind]} | {meaning} |")
    return CONFIGURATION.format(rows="\n".join(rows))


CONFIGURATION = """# Configuration

`holter run --config holter.toml` reads the options of the command from a file. The command line wins; lists
except `fail-on` are joined. Options stand at the top or in a section `[run]`; `-` and `_` are the same. An
unknown name is refused with the nearest valid name.

```toml
job = "nightly"
interval = "1s"
save = ["gradients@100"]

[rules.LowGPUUtilization]
threshold_p95 = 80

[[actions]]
on = "NonFiniteLoss"
do = "stop_training"
```

| option | value | is |
|---|---|---|
{rows}

`[rules.NAME]` sets the parameters of a rule and switches it on; `when = "…"` makes a rule of an expression.
Each `[[actions]]` says `on` which rule to `do` what. SageMaker's
`profilerconfig.json` and hook configurations are read too.

## Environment

| variable | is |
|---|---|
| `HOLTER_STORE` | where jobs are kept when `--store` does not say; `./holter-jobs` without it |
| `HOLTER_TOKEN` | the token that `holter ui` asks for; a new one each time without it |
| `HOLTER_DISABLE` | `1`: nothing is recorded in this process and its children |
| `SMPROFILER_CONFIG_PATH` | the file of SageMaker's profiler, when `--config` does not name one |
| `OTEL_EXPORTER_OTLP_*` | where and how `--otlp` pushes, headers included |
| `NO_COLOR` | no colors |
"""


def library() -> str:
    """Write where the docstrings of the library go."""
    lines = [
        "# Library",
        "",
        "`holter.open`, `holter.step` and the others are found under these names in `holter` too.",
        "",
    ]
    for title, modules in LIBRARY.items():
        lines += [f"## {title}", "", *(f"::: {module}\n" for module in modules)]
    return "\n".join(lines)


MADE = {
    "reference/commands.md": commands,
    "reference/configuration.md": configuration,
    "reference/library.md": library,
}

if __name__ == "__main__":
    main()
