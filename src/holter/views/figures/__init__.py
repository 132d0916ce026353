"""The registry of charts: one chart, one file.

To add a chart, add a file with `MISSING`, the sentence to show if there is nothing to draw, and
`draw(reading) -> Figure | None`. Keyword-only parameters of `draw` are the options of the chart, as a rank
or a tensor; each is `int`, `float` or `str` and None by default.
"""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from holter.plugins import modules
from holter.views.wording import meant

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from holter.views.figure import Figure
    from holter.views.reading import Reading

SUBJECTS = ("steps", "loading", "device", "machine", "training", "tensors")
"""The folders that hold charts."""
_FRACTION = re.compile(r"\d{1,18}(\.\d{0,18})?")


def names() -> list[str]:
    """Return the names of all charts."""
    return list(_charts())


def draw(name: str, reading: Reading, **options: Any) -> Figure | str:
    """Draw one chart, or return a sentence that explains why it is empty and how to get its data.

    Raises:
        KeyError: There is no such chart; the text names the valid ones.
        ValueError: The job has no such rank, device or tensor; the text names the valid ones.
    """
    chart = _chart(name)
    key = (name, tuple(sorted(options.items())), reading.node, reading.devices, reading.window, reading.width)
    if reading.kept is not None and key in reading.kept:
        return reading.kept[key]
    figure: Figure | None = chart.draw(reading, **options)
    drawn = _lacking(chart, options) if figure is None else figure
    if reading.kept is not None:
        reading.kept[key] = drawn
    return drawn


def chosen(name: str, asked: Mapping[str, str]) -> dict[str, int | float | str]:
    """Return the options of a chart from the parameters of an address, with numbers parsed.

    An unknown chart raises `KeyError`, a text that is not a number `ValueError`.
    """
    found: dict[str, int | float | str] = {}
    for parameter in inspect.signature(_chart(name).draw).parameters.values():
        text = asked.get(parameter.name, "")
        if parameter.kind is parameter.KEYWORD_ONLY and text:
            kind = str(parameter.annotation).partition(" ")[0]
            if kind == "int" and not (text.isdecimal() and len(text) < 19):
                raise ValueError(f"{parameter.name} is {text!r}; expected a whole number")
            if kind == "float" and not _FRACTION.fullmatch(text):
                raise ValueError(f"{parameter.name} is {text!r}; expected a number")
            found[parameter.name] = {"int": int, "float": float}.get(kind, str)(text)
    return found


def _lacking(chart: Any, options: Mapping[str, Any]) -> str:
    """Return why there is nothing to draw."""
    if options.get("rank") is None:
        return str(chart.MISSING)
    return f"Rank {options['rank']}: {chart.MISSING}"


@cache
def _charts() -> dict[str, ModuleType]:
    return modules(__name__, *SUBJECTS)


def _chart(name: str) -> Any:
    charts = _charts()
    if name not in charts:
        raise KeyError(f"no chart {name!r}{meant(name, charts)}; there are: {', '.join(charts)}")
    return charts[name]
