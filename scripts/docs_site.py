"""Hooks of MkDocs: navigation from the folders, reference pages from the code, files outside of docs/."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

from mkdocs.structure.files import File

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
LINK = re.compile(r"\]\(((?:\.\./)+)((?!\.\./)[^)#\s]+)(#[^)\s]*)?\)")


def on_config(config):
    """Fill the navigation: what lies on a shelf is in it, so that no page is forgotten."""
    shelves = []
    for title, folder in SHELVES.items():
        names = {path.stem for path in (ROOT / "docs" / folder).glob("*.md")} | set(_made(folder))
        known = [name for name in FIRST if name in names]
        shelves.append({title: [f"{folder}/{name}.md" for name in [*known, *sorted(names - set(known))]]})
    config.nav = [{"Start": "index.md"}, *shelves]
    return config


def on_files(files, config):
    """Add the pages that are made from the code."""
    for name, make in _made("reference").items():
        files.append(File.generated(config, f"reference/{name}.md", content=make()))
    for path in sorted(_linked()):
        files.append(File.generated(config, f"files/{path}", abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown, page, **_):
    """Lead links out of docs/ to the copies of what they name."""
    depth = page.file.src_uri.count("/")

    def inside(match):
        ups, path, anchor = match[1].count("../"), match[2], match[3] or ""
        return f"]({'../' * depth}files/{path})" if ups > depth else f"]({match[1]}{path}{anchor})"

    return LINK.sub(inside, markdown)


def _linked():
    """Return the files outside of docs/ to which pages link."""
    found = set()
    for page in (ROOT / "docs").rglob("*.md"):
        depth = len(page.relative_to(ROOT / "docs").parts) - 1
        for ups, path, _ in LINK.findall(page.read_text()):
            if ups.count("../") > depth and (ROOT / path).is_file():
                found.add(path)
    return found


def _made(folder):
    return (
        {"commands": commands, "configuration": configuration, "library": library}
        if folder == "reference"
        else {}
    )


def commands():
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


def _help(*words):
    from holter.cli import main

    said, width = io.StringIO(), os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(said):
            main([*words, "--help"])
    finally:
        os.environ.pop("COLUMNS") if width is None else os.environ.update(COLUMNS=width)
    return said.getvalue().rstrip()


def configuration():
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


def library():
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
