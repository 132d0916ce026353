"""Draws a chart for notebooks: a picture that stands alone, and HTML that shows values under the pointer."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from holter.drawing.figure import figure, style, thin
from holter.drawing.markup import html, tag, trusted
from holter.drawing.pieces import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, color
from holter.drawing.ring import ring_of
from holter.drawing.svg import svg

if TYPE_CHECKING:
    from holter.views.figure import Figure

_TITLE = 24
"""Height of the title of a picture that stands alone."""
_LEGEND = 18
_LIGHT_DARK = re.compile(r"light-dark\(([^,()]*),[^()]*\)")


def interactive(of: Figure) -> str:
    """Return the chart as HTML.

    It holds the picture as an image. Where scripts run, a script puts the drawing itself in its place, with a
    crosshair, the values at the pointer, and a legend that hides lines. Viewers that remove scripts show the
    image.
    """
    of = thin(of)
    if of.kind not in ("lines", "stacked") or not all(isinstance(one, int | float) for one in of.x):
        return str(style(".holter") + figure(of))
    points = {
        "x": of.x,
        "label": of.x_axis.label,
        "unit": of.y_axis.unit,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "top": TOP,
        "bottom": HEIGHT - BOTTOM,
        "series": [
            {"name": one.name, "kind": color(one, at), "values": one.values}
            for at, one in enumerate(of.series)
        ],
    }
    drawing = {"drawing": str(style(".holter") + figure(of)), "points": points}
    # `</script>` inside of the data would end the script.
    data = json.dumps(drawing, allow_nan=False, default=str).replace("<", "\\u003c")
    encoded = base64.b64encode(standalone(of).encode()).decode()
    picture = tag("img", src=f"data:image/svg+xml;base64,{encoded}", alt=of.title, style="max-width:100%")
    script = f"({_script()})(document.currentScript.parentElement,{data})"
    return str(tag("div", picture, tag("script", trusted(script)), class_="holter-figure"))


def standalone(of: Figure) -> str:
    """Return the chart as an SVG file with its title, legend and colors, on white."""
    of = thin(of)
    drawn = str(ring_of(of) if of.kind == "shares" else svg(of))
    inner = drawn[drawn.index("<svg") : drawn.rindex("</svg>") + 6]
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', inner)
    width, height = (float(box[1]), float(box[2])) if box else (float(WIDTH), float(HEIGHT))
    named = list(enumerate(of.series)) if len(of.series) > 1 and of.kind in ("lines", "stacked") else []
    if of.kind == "shares":
        total = sum(value or 0.0 for value in of.series[0].values) or 1.0
        texts = [
            (f"c{at % 8}", f"{name} {100 * (value or 0.0) / total:.0f} %")
            for at, (name, value) in enumerate(zip(of.x, of.series[0].values, strict=True))
        ]
    else:
        texts = [(color(series, at), series.name[:80]) for at, series in named]
    legend = [
        html(
            tag(
                "rect",
                x=LEFT,
                y=f"{_TITLE + height + _LEGEND * row:.0f}",
                width=11,
                height=11,
                class_=f"bar {kind}",
            ),
            tag("text", text, x=LEFT + 18, y=f"{_TITLE + height + _LEGEND * row + 10:.0f}", class_="tick"),
        )
        for row, (kind, text) in enumerate(texts)
    ]
    whole = _TITLE + height + _LEGEND * len(legend)
    inner = inner.replace("<svg", f'<svg y="{_TITLE}" width="{width:g}" height="{height:g}"', 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{width:g}" height="{whole:g}" viewBox="0 0 {width:g} {whole:g}">'
        f"<style>{_colors()}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>'
        + str(tag("text", of.title, x=LEFT, y=16, style="font:600 14px system-ui,sans-serif;fill:#1c2530"))
        + inner
        + "".join(map(str, legend))
        + "</svg>"
    )


@cache
def _script() -> str:
    text = files("holter.drawing").joinpath("figure.js").read_text(encoding="utf-8")
    return text[text.index("function") :].strip()


@cache
def _colors() -> str:
    """Return the style of drawings with the colors of the light theme: an image has no page around it."""
    text = files("holter.drawing").joinpath("page.css").read_text(encoding="utf-8")
    text = _LIGHT_DARK.sub(r"\1", re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*\}", "", text))
    rules = re.findall(r"[^{}]+\{[^{}]*\}", text)
    wanted = re.compile(
        r"^\s*(:root\{|\.(grid|tick|mid|end|line|dot|sector|pale|whisker|median|cells|c\d|p-)|svg)"
    )
    return "".join(rule.strip() for rule in rules if wanted.match(rule) and "data-theme" not in rule)
