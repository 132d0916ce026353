"""What pages ask with: forms that work without scripts, charts that know what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from markupsafe import Markup

from holter.drawing.markup import html, tag
from holter.pages.addresses import KEPT
from holter.pages.islands import chart
from holter.views.figures import chosen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holter.pages.islands import Rendering
    from holter.views.reading import Reading


def number(asked: Mapping[str, str], name: str) -> int | None:
    """Return a whole number that an address gives, None where it gives none; raises `ValueError`."""
    text = asked.get(name, "")
    if text and not (text.isdecimal() and len(text) < 19):
        raise ValueError(f"{name} is {text!r}, which is no whole number")
    return int(text) if text else None


def lines(text: str) -> list[str]:
    """Return the names that a parameter holds, one a line, each once."""
    return list(dict.fromkeys(filter(None, text.replace("\r", "").split("\n"))))


def picture(
    rendering: Rendering, reading: Reading, name: str, asked: Mapping[str, str], kind: str = "figure"
) -> Markup:
    """Return one chart with the options of an address, or the reason why the chart is missing."""
    return chart(rendering, reading, name, chosen(name, asked), kind=kind)


def pictures(rendering: Rendering, reading: Reading, asked: Mapping[str, str], *names: str) -> Markup:
    """Return several charts side by side."""
    return tag("div", *(picture(rendering, reading, name, asked) for name in names), class_="charts")


def form(
    rendering: Rendering,
    asked: Mapping[str, str],
    label: str,
    *fields: object,
    button: str = "Show",
    keep: Iterable[str] = (),
) -> Markup:
    """Return a form that asks for the page anew; it keeps the parameters that `keep` names."""
    if rendering.standalone:
        return Markup()
    inside = (hidden(asked, *keep), *fields, tag("button", button))
    return tag("form", *inside, class_="search", aria_label=label)


def hidden(asked: Mapping[str, str], *names: str) -> Markup:
    """Return the parameters that a form keeps: the part of the job that is shown, and those named."""
    kept = [name for name in ("store", *KEPT, *names) if asked.get(name)]
    return html(*(tag("input", type="hidden", name=name, value=asked[name]) for name in kept))


def choice(
    asked: Mapping[str, str],
    name: str,
    label: str,
    options: Iterable[tuple[str, str]],
    *,
    default: str = "",
    **more: object,
) -> Markup:
    """Return a labeled choice among `options`, values and texts; `more` are attributes."""
    given = asked.get(name, "") or default
    listed = (tag("option", text, value=value, selected=value == given) for value, text in options)
    return tag("label", label, " ", tag("select", *listed, name=name, **more))


def entry(
    asked: Mapping[str, str], name: str, label: str, *, kind: str = "text", default: str = "", **more: object
) -> Markup:
    """Return a labeled field; `more` are attributes."""
    given = asked.get(name, "") or default
    return tag("label", label, " ", tag("input", type=kind, name=name, value=given, **more))


def link(rendering: Rendering, asked: Mapping[str, str], text: str, **changed: str) -> Markup:
    """Return a link to the same page with changed parameters; empty parameters are left out."""
    if rendering.standalone:
        return html(text)
    query = {name: value for name, value in {**asked, **changed}.items() if value and name != "part"}
    return tag("a", text, href=f"?{urlencode(query)}")
