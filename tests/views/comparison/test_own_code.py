"""Own code of two jobs compared: what appeared, disappeared and changed."""

from holter.views.comparison.own_code import functions, lines


def entry(function, pct, file="train.py", line=1):
    known = {"calls": "", "waits_in": None, "data_loading": False}
    return {"function": function, "file": file, "line": line, "pct": pct, **known}


def test_functions_are_compared_by_their_time_in_a_step():
    before = [entry("stays", 50), entry("gone", 30), entry("small", 1)]
    after = [
        entry("stays", 25, line=7),
        entry("new", 40),
        entry("new", 10, file="other.py"),
        entry("grows", 3),
    ]
    found = functions(before, 10.0, after, 20.0)
    assert [(one["function"], one["file"]) for one in found] == [
        ("new", "train.py"),
        ("gone", "train.py"),
        ("new", "other.py"),
    ]
    assert list(lines(found)) == [
        "own code: new (train.py) appeared: 8 ms of a step",
        "own code: gone (train.py) disappeared: it took 3 ms of a step",
        "own code: new (other.py) appeared: 2 ms of a step",
    ]
    (changed,) = functions([entry("slow", 50)], 10.0, [entry("slow", 75)], 20.0)
    assert list(lines([changed])) == ["own code: slow (train.py): 5 ms → 15 ms of a step"]


def test_jobs_without_steps_have_no_differences():
    assert functions([], None, [entry("new", 40)], 20.0) == []
