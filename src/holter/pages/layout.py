"""Arranges a page: cards in a grid of twelve columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.drawing.markup import html, tag

if TYPE_CHECKING:
    from markupsafe import Markup

WHOLE = tag("span", "whole job", class_="whole", title="A time window does not change this.")
"""The mark of numbers that cover the whole job; styles show it while a time window is chosen."""


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


def bare(*inside: object, columns: int = 6) -> Markup:
    """Return a card without a heading, for a chart that has one of its own."""
    return tag("section", *inside, class_=f"card w{columns}") if html(*inside) else html()
