"""Builds HTML and SVG: text is escaped, markup is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Mapping

_VOID = frozenset({"br", "input", "link", "meta"})
"""Elements that have no end tag."""
_SHAPES = frozenset({"circle", "image", "line", "path", "polygon", "polyline", "rect"})
"""Elements of SVG that end themselves where they have no contents."""


def tag(name: str, /, *inside: object, **attributes: object) -> Markup:
    """Return an element.

    Args:
        name: The name of the element.
        inside: Its contents. Text is escaped, `Markup` is kept as it is, None adds nothing.
        attributes: Written `class_` for `class` and `data_key` for `data-key`. True gives an attribute
            without a value; None and False leave it out.
    """
    begin = f"<{name}{_attributes(attributes)}"
    if name in _VOID:
        return Markup(f"{begin}>")
    if not inside and name in _SHAPES:
        return Markup(f"{begin}/>")
    return Markup(f"{begin}>{html(*inside)}</{name}>")


def html(*parts: object) -> Markup:
    """Return parts one after the other: text is escaped, `Markup` is kept as it is, None adds nothing."""
    return Markup("".join(escape(part) for part in parts if part is not None))


def trusted(text: str) -> Markup:
    """Return text that is markup already, such as a style sheet; never text that comes from a job."""
    return Markup(text)


def _attributes(values: Mapping[str, object]) -> Markup:
    """Return attributes as they stand in a start tag, each with a space before it."""
    return Markup(
        "".join(
            f" {name.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(value)}"')
            for name, value in values.items()
            if value is not None and value is not False
        )
    )
