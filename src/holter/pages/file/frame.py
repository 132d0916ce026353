"""The frame of a report file: its content security policy, styles, script and data."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from holter.drawing.figure import style
from holter.drawing.markup import tag, trusted
from holter.drawing.pieces import prose
from holter.pages.assets import APP
from holter.pages.file.bundle import bundle
from holter.pages.shell import Tab, header, state_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.views.reading import Reading

_STYLES = ("vendor/uPlot.css", "pages.css", "shell.css", "tables.css", "canvas.css", "alone.css")
_BARE = (
    "The charts are pictures: where this file was written, the dashboard's third-party files are missing. "
    "In a checkout, `python hatch_build.py` fetches them."
)


class Sheet(NamedTuple):
    """One page of the file."""

    title: str
    inside: Markup
    missing: str | None = None
    """Without data for the page, how to get it."""


def framed(
    reading: Reading, sheets: Mapping[str, Sheet], answers: Mapping[str, str], *, live: bool
) -> Markup:
    """Return the whole file: its pages, and the compressed answers by question."""
    told = reading.description
    name = told["job"]["name"]
    scripts = [(APP / "theme.js").read_text(encoding="utf-8"), bundle(APP / "alone.js")] if live else []
    scripts = [text.replace("</script", "<\\/script").replace("<!--", "<\\!--") for text in scripts]
    # The digests allow only these scripts: names that come from a job are never executed.
    allowed = " ".join(f"'sha256-{_digest(text)}'" for text in scripts) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = tag("script", trusted(scripts[0])) if live else None
    foot = tag("script", trusted(scripts[1]), type="module") if live else None
    links = [Tab(page, sheet.title, f"#{page}", sheet.missing) for page, sheet in sheets.items()]
    sections = [tag("section", sheet.inside, class_="sheet", id=page) for page, sheet in sheets.items()]
    # An answer is base64, which needs no escaping; a script's text must not be escaped.
    given = [
        tag("script", trusted(text), type="text/plain", data_ask=question)
        for question, text in answers.items()
    ]
    return Markup("<!doctype html>") + tag(
        "html",
        tag(
            "head",
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=trusted(policy)),
            tag("title", name, " · holter"),
            tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
            tag("link", rel="icon", href="data:,"),
            head,
            style(),
            _styles(),
        ),
        tag(
            "body",
            header(links, "overview", job=name, state=state_text(told), home=None, strip=live),
            None if live else tag("p", prose(_BARE), class_="notice"),
            tag(
                "main",
                *sections,
                id="main",
                tabindex="-1",
                data_job=name,
                data_seconds=told["job"]["duration_s"] or 0.0,
            ),
            *given,
            foot,
        ),
        "\n",
        lang="en",
    )


def _styles() -> Markup:
    found = (APP / name for name in _STYLES)
    return tag("style", *(trusted(path.read_text(encoding="utf-8")) for path in found if path.is_file()))


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
