"""Tables that can be sorted and searched where scripts run: numbers carry their value."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from holter.pages.islands import island

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


_LONGEST = 240
"""Letters of a cell; the middle of what is longer is in its tooltip."""


class Raw(str):
    """A cell that is markup already."""


class Number(str):
    """A cell that shows a number, and knows it."""

    value: float | None

    def __new__(cls, value: float | None, text: str | None = None) -> Number:
        """Return the cell; `text` is how it reads, by default the number with thousands apart."""
        said = "" if value is None else f"{value:,.0f}" if text is None else text
        made = super().__new__(cls, said)
        made.value = value
        return made


def sortable(
    key: str, caption: str, heads: Sequence[str], rows: Callable[[], Iterable[Sequence[str]]]
) -> str:
    """Return a table whose rows can be sorted by any column, and searched.

    Args:
        key: Tells it from the page's other tables.
        caption: What it lists; the table's accessible name.
        heads: The columns.
        rows: Makes the rows; cells are text, `Number` or `Raw`. A column is set to the right where its first
            cell is a number.
    """

    def paint() -> str:
        listed = list(rows())
        right = {at for at, cell in enumerate(listed[0]) if isinstance(cell, Number)} if listed else set()
        head = "".join(
            f'<th scope="col"{" class=n" if at in right else ""}>{escape(text)}</th>'
            for at, text in enumerate(heads)
        )
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in listed)
        return (
            f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption, quote=True)}">'
            f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>"
        )

    return island("table", paint, key=key)


def _cell(cell: str) -> str:
    if isinstance(cell, Number):
        value = "" if cell.value is None else f' data-value="{float(cell.value)!r}"'
        return f"<td class=n{value}>{escape(cell)}</td>"
    if len(cell) > _LONGEST and not isinstance(cell, Raw):
        half = _LONGEST // 2
        return f'<td title="{escape(cell, quote=True)}">{escape(cell[:half])}…{escape(cell[-half:])}</td>'
    return f"<td>{cell if isinstance(cell, Raw) else escape(cell)}</td>"
