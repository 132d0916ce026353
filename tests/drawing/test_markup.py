"""Elements escape their text; only markup is kept."""

from __future__ import annotations

import pytest

from holter.drawing.markup import html, tag, trusted
from holter.drawing.ring import Sector, ring
from holter.pages.islands import Rendering
from holter.pages.tables import Number, sortable

HOSTILE = "<script>alert('1')</script>\" onload=\"x"


def test_text_and_attributes_are_escaped():
    made = tag("td", HOSTILE, title=HOSTILE)
    assert "<script" not in made
    assert made.count('"') == 2, "the attribute's own quotes"
    assert made == html(made), "markup is not escaped again"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (tag("p", "a", None, 1, class_="note"), '<p class="note">a1</p>'),
        (tag("input", name="x", checked=True, hidden=False, max=None), '<input name="x" checked>'),
        (tag("div", data_page="a", aria_label="b"), '<div data-page="a" aria-label="b"></div>'),
        (tag("rect", x=1), '<rect x="1"/>'),
        (tag("path", tag("title", "t"), d="M0"), '<path d="M0"><title>t</title></path>'),
        (tag("style", trusted("a>b{}")), "<style>a>b{}</style>"),
        (html("a<b", tag("br")), "a&lt;b<br>"),
    ],
)
def test_elements(made, expected):
    assert made == expected


def test_names_of_a_job_stay_text_in_tables_and_rings():
    drawn = sortable(Rendering(), "k", HOSTILE, (HOSTILE,), [[HOSTILE], [HOSTILE * 20], [Number(1.0)]])
    drawn += ring(HOSTILE, [Sector(HOSTILE, 100.0, HOSTILE, "c0", HOSTILE)])
    assert "<script" not in drawn
    assert 'onload="' not in drawn
