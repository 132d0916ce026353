"""Draw the parts of a step as one bar with a legend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.views.wording import LEAST_PCT, percent, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.text import Text

_SHADES = "█▓▒░▚▞▌▄▖≡▐"
"""One for each part of a step."""
_COLORS = {
    "data_loading": "red",
    "h2d": "magenta",
    "forward": "green",
    "loss": "bright_green",
    "backward": "blue",
    "optimizer": "cyan",
    "compute": "green",
    "communication": "yellow",
    "checkpoint": "bright_magenta",
    "eval": "bright_blue",
    "other": "bright_black",
}


def bar(breakdown: Mapping[str, float | None], cells: int) -> Text:
    """Return the parts of a step as one bar of `cells` cells."""
    from rich.text import Text

    text = Text()
    for name, shade, length in _drawn(breakdown, cells):
        text.append(shade * length, style=_COLORS.get(name, ""))
    return text


def legend(breakdown: Mapping[str, float | None], width: int, not_seen: Iterable[str] = ()) -> list[Text]:
    """Return the legend of a bar of this width: the parts with their shares, and those not seen."""
    from rich.text import Text

    lines = [Text()]
    entries = [
        Text.assemble((shade, _COLORS.get(name, "")), f" {words(name)} {percent(breakdown[name])}  ")
        for name, shade, _ in _drawn(breakdown, width)
    ]
    for entry in [*entries, *(Text(f"{words(name)}: not seen  ") for name in not_seen)]:
        if lines[-1].cell_len + entry.cell_len - 2 > width:
            lines.append(Text())
        lines[-1].append_text(entry)
    return lines


def _drawn(breakdown: Mapping[str, float | None], cells: int) -> Iterator[tuple[str, str, int]]:
    """Yield part, shade and length; each part has its own shade, for terminals without color."""
    parts = shown(breakdown)
    whole = sum(share for _, share in parts) or 100.0
    drawn, total, shades = 0, 0.0, 0
    for name, share in parts:
        total += share
        end = round(total / whole * cells)
        yield name, _SHADES[shades % len(_SHADES)] if end > drawn else "·", end - drawn
        shades += end > drawn
        drawn = end


def shown(breakdown: Mapping[str, float | None]) -> list[tuple[str, float]]:
    """Return the parts that are large enough for the bar, in the order of a step."""
    return [(name, share) for name, share in breakdown.items() if share is not None and share >= LEAST_PCT]
