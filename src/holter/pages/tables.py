"""Tables that a script makes sortable and searchable; cells with numbers carry their value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from holter.drawing.markup import tag
from holter.pages.islands import island
from holter.views.wording import milliseconds, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holter.pages.islands import Rendering


_LONGEST = 240
"""Letters of a cell; a longer text is shortened in the middle and complete in the tooltip."""


class Number(str):
    """A cell with a number and its text."""

    value: float | None

    def __new__(cls, value: float | None, text: str | None = None) -> Number:
        """Return the cell; `text` is how it reads, by default the number with thousands apart."""
        said = "" if value is None else f"{value:,.0f}" if text is None else text
        made = super().__new__(cls, said)
        made.value = value
        return made


def time_cell(ns: float | None) -> Number:
    """Return a cell with a time that is given in ns."""
    return Number(None) if ns is None else Number(float(ns), milliseconds(ns / 1e6))


def share_cell(value: float | None) -> Number:
    """Return a cell with a percentage."""
    return Number(value, percent(value))


def sortable(
    rendering: Rendering,
    key: str,
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
) -> Markup:
    """Return a table whose rows can be sorted by any column, and searched.

    `key` identifies the table on its page. The rows are read only if the table is drawn; cells are text,
    `Number` or `Markup`. A column is set to the right where its first cell is a number.
    """

    def paint() -> Markup:
        listed = list(rows)
        right = {at for at, cell in enumerate(listed[0]) if isinstance(cell, Number)} if listed else set()
        head = (
            tag("th", text, scope="col", class_="n" if at in right else None) for at, text in enumerate(heads)
        )
        body = tag("tbody", *(tag("tr", *map(_cell, row)) for row in listed))
        return tag(
            "div",
            tag("table", tag("caption", caption), tag("thead", tag("tr", *head)), body),
            class_="scroll",
            tabindex="0",
            role="region",
            aria_label=caption,
        )

    return island(rendering, "table", paint, key=key)


def _cell(cell: str) -> Markup:
    if isinstance(cell, Number):
        value = None if cell.value is None else repr(float(cell.value))
        return tag("td", str(cell), class_="n", data_value=value)
    if len(cell) > _LONGEST and not isinstance(cell, Markup):
        half = _LONGEST // 2
        return tag("td", cell[:half], "…", cell[-half:], title=cell)
    return tag("td", cell)
