"""Draws what a time consists of as one bar of colored parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holter.drawing.markup import tag

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from markupsafe import Markup


def bar_of_parts(
    shares: Mapping[str, float],
    texts: Mapping[str, str],
    label: str,
    *,
    named: Container[str] = (),
    kind: str = "",
    width_pct: float = 100.0,
) -> Markup:
    """Return the bar; parts without a share are left out.

    Args:
        shares: Part of a step → its share in percent.
        texts: Part → its tooltip.
        label: What the bar is, for screen readers.
        named: Parts that have their text inside the bar too.
        kind: A class of the bar.
        width_pct: How wide the bar is, of its place.
    """
    drawn = (
        tag(
            "span",
            tag("em", texts[part]) if part in named else None,
            class_=f"p-{part}",
            style=f"width:{share:.3f}%",
            title=texts[part],
        )
        for part, share in shares.items()
        if share
    )
    width = None if width_pct == 100.0 else f"width:{width_pct:.2f}%"
    return tag(
        "div", *drawn, class_=f"bar-of-parts {kind}".strip(), style=width, role="img", aria_label=label
    )
