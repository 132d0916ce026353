"""What changed between jobs, in words."""

from holter.views.comparison.changes import changes
from holter.views.document.bill import money


def test_packages_of_a_job_that_told_none_are_one_sentence():
    gone = [{"what": f"packages p{n}", "before": "1.0", "after": None} for n in range(40)]
    ranks = {"what": "ranks", "before": 1, "after": 0}
    change = {
        "missing": [],
        "step": None,
        "disturbance": None,
        "parts": [],
        "own_code": [],
        "saving": None,
        "traces": None,
        "tensors": None,
        "changed": [ranks, *gone],
    }
    said = list(changes(change))
    assert said == [
        "changed: ranks: 1 → 0",
        "packages cannot be compared: of the other job none were recorded",
    ]
    some = {**change, "changed": [*gone, {"what": "packages q", "before": None, "after": "2"}]}
    assert "changed: packages p0: 1.0 → not there" in list(changes(some))


def test_a_small_sum_is_not_nothing():
    assert [money(value) for value in (None, 0, 0.0012, -0.002, 0.01, 3244.234)] == [
        "unknown",
        "0.00",
        "0.0012",
        "-0.002",
        "0.01",
        "3,244.23",
    ]
