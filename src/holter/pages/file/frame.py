"""What is around the pages of a file: its style, its script, what the script is given, and what it may do."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from typing import TYPE_CHECKING

from holter.drawing.figure import style
from holter.pages.assets import APP
from holter.pages.file.bundle import bundle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holter.views.reading import Reading

_STYLES = ("vendor/uPlot.css", "pages.css", "tables.css", "canvas.css", "alone.css")
_BARE = (
    '<p class="notice">The charts are pictures: where this file was written, the dashboard\'s third-party '
    "files are missing. In a checkout, <code>python hatch_build.py</code> fetches them.</p>"
)


def framed(
    reading: Reading, sheets: Mapping[str, tuple[str, str]], answers: Mapping[str, str], *, live: bool
) -> str:
    """Return the whole file.

    Args:
        reading: The job.
        sheets: Title and contents of each page, by its name.
        answers: What its script finds, by question, packed.
        live: Whether it has a script.
    """
    told = reading.description["job"]
    name = escape(told["name"], quote=True)
    scripts = [(APP / "theme.js").read_text(encoding="utf-8"), bundle(APP / "alone.js")] if live else []
    scripts = [text.replace("</script", "<\\/script").replace("<!--", "<\\!--") for text in scripts]
    # Only these very scripts run: what a job's names say is shown, whatever it says.
    allowed = " ".join(f"'sha256-{_digest(text)}'" for text in scripts) or "'none'"
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head, foot = (
        (f"<script>{scripts[0]}</script>", f'<script type="module">{scripts[1]}</script>')
        if live
        else ("", "")
    )
    links = "".join(
        f'<a href="#{page}" data-page="{page}">{escape(title)}</a>' for page, (title, _) in sheets.items()
    )
    inside = "".join(
        f'<section class="sheet" id="{page}">{html}</section>' for page, (_, html) in sheets.items()
    )
    given = "".join(
        f'<script type="text/plain" data-ask="{escape(key, quote=True)}">{text}</script>'
        for key, text in answers.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><title>{name} · holter</title>'
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">'
        f"{head}{style()}{_styles()}</head>"
        f'<body><header><nav aria-label="pages"><span class="job" title="{name}">{name}</span>{links}</nav>'
        '<span id="state" role="status"></span><span id="commands"></span></header>'
        f'{"" if live else _BARE}<main id="main" tabindex="-1" data-job="{name}" '
        f'data-seconds="{told["duration_s"] or 0.0}">{inside}</main>{given}{foot}</body></html>\n'
    )


def _styles() -> str:
    found = (APP / name for name in _STYLES)
    return f"<style>{''.join(path.read_text(encoding='utf-8') for path in found if path.is_file())}</style>"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
