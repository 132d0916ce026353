"""Arranges a page: cards in a grid of twelve columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.drawing.markup import html, tag

if TYPE_CHECKING:
    from markupsafe import Markup

ALL_RANKS = tag("span", "all ranks", class_="all-ranks", title="The choice of a rank does not change this.")
"""The mark of numbers that cover all ranks; styles show it while a rank is chosen."""
WHOLE = html(tag("span", "whole job", class_="whole", title="A time window does not change this."), ALL_RANKS)
"""The marks of numbers that cover the whole job; styles show each while a part of the job is chosen."""


def grid(*cards: object) -> Markup:
    """Return cards side by side; on a narrow screen one below the other."""
    return tag("div", *cards, class_="board")


def card(
    title: str, *inside: object, columns: int = 6, whole: bool = False, more: object = None, key: str = ""
) -> Markup:
    """Return a card.

    Args:
        title: Its heading.
        inside: Its contents; empty contents give no card.
        columns: Its width, of 12 columns.
        whole: Whether its numbers cover the whole job, whatever time window is chosen.
        more: What stands at the right of the heading.
        key: Its `id`, for links to it.
    """
    if not html(*inside):
        return html()
    head = tag("div", tag("h2", title), WHOLE if whole else None, more, class_="card-head")
    return tag("section", head, *inside, class_=f"card w{columns}", id=key or None)


def bare(*inside: object, columns: int = 6, whole: bool = False) -> Markup:
    """Return a card without a heading, for a chart that has one of its own."""
    marks = WHOLE if whole else None
    return tag("section", *inside, marks, class_=f"card w{columns}") if html(*inside) else html()
