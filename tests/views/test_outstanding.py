"""Charts of a large job draw the series that differ most."""

from __future__ import annotations

from holter.views.figure import Series
from holter.views.figures._outstanding import outstanding


def test_a_sick_machine_stays_in_the_chart():
    series = [Series(f"n{at}", [90.0 + at % 3, None, 91.0]) for at in range(100)]
    series[41] = Series("n41", [20.0, None, 30.0])
    series[77] = Series("n77", [None])
    drawn, note = outstanding(series, 16, "nodes")
    names = [one.name for one in drawn]
    assert len(names) == 16
    assert "n41" in names
    assert "n77" not in names, "nothing is known of it"
    assert names == sorted(names, key=lambda name: int(name[1:])), "the order stays"
    assert note == "The 16 nodes that differ most from the median are drawn; 84 more are not."


def test_few_series_are_all_drawn():
    series = [Series("a", [1.0]), Series("b", [None])]
    assert outstanding(series, 2, "nodes") == (series, "")
