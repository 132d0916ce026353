"""The sentence that leads when a job went wrong."""

from __future__ import annotations

import json
import math

import pytest

from holter.analysis.verdict.failure import first_non_finite, headline
from holter.schema.table import Table


def scalars(*values, name="loss", rank=0):
    rows = [
        {"time": i, "rank": rank, "step": i, "mode": "train", "name": name, "value": v}
        for i, v in enumerate(values)
    ]
    return Table.of("scalars", rows)


IN_A_WORKER = """KeyError: Caught KeyError in DataLoader worker process 1.
Original Traceback (most recent call last):
  File "/lib/torch/utils/data/_utils/fetch.py", line 54, in fetch
    data = [self.dataset[idx] for idx in possibly_batched_index]
  File "/home/ada/photos.py", line 6, in __getitem__
    return self.photos[name]
           ~~~~~~~~~~~^^^^^^
KeyError: 'cat.png'
"""


def failed(kind, **more):
    at = {"step": 812, "phase": "backward", "rank": 0, "exception": None}
    return {"status": "Failed", "exit_code": 1, "signal": None, "failure": {"kind": kind, **at, **more}}


@pytest.mark.parametrize(
    ("manifest", "said"),
    [
        ({**failed("signal"), "signal": 9}, "Killed (SIGKILL) in step 812 while in backward (rank 0)."),
        (
            {**failed("signal"), "signal": "SIGSEGV"},
            "Killed (SIGSEGV) in step 812 while in backward (rank 0).",
        ),
        (
            failed("exception", exception="ValueError: no such layer\nmore"),
            "ValueError: no such layer in step 812 while in backward (rank 0).",
        ),
        (
            failed("exception", phase="data_loading", exception=IN_A_WORKER),
            "KeyError: 'cat.png' in __getitem__ (photos.py:6) of DataLoader worker process 1 in step 812 "
            "while in data loading (rank 0).",
        ),
        (
            failed("exception", step=None, phase=None, exception="E: " + "a word or two, " * 10),
            f"E: {'a word or two, ' * 7}a word or… (rank 0).",
        ),
        (
            failed("exception", step=None, phase=None, rank=None, exception="x" * 200),
            f"{'x' * 119}…",
        ),
        (failed("hang"), "Hangs in step 812 while in backward (rank 0): no progress since then."),
        (failed("oom"), "Out of memory in step 812 while in backward (rank 0)."),
        (failed("lost", phase=None), "A rank was lost in step 812 (rank 0)."),
        ({"status": "Failed", "exit_code": 3, "failure": None}, "Failed with exit code 3."),
        ({"status": "Completed", "exit_code": 0, "failure": None}, None),
        ({"status": "Stopped", "exit_code": 143, "signal": 15}, None),
    ],
)
def test_what_went_wrong(manifest, said):
    assert headline(manifest, None, None) == said


def test_the_text_of_an_exception_is_looked_up():
    events = Table.of("events", [
        {"time": 1, "rank": 1, "kind": "exception", "detail": '{"type": "OSError", "message": "gone"}'},
        {"time": 2, "rank": 0, "kind": "exception", "detail": '{"type": "KeyError", "message": "x"}'},
        {"time": 3, "rank": 0, "kind": "exception", "detail": "{cut"},
    ])  # fmt: skip
    assert headline(failed("exception"), events, None).startswith("KeyError: x in step 812")


def test_the_first_loss_that_is_no_number():
    found = first_non_finite(scalars(0.5, 0.25, math.nan, math.nan))
    assert (found.step, found.last_finite) == (2, 0.25)
    assert headline({"status": "Completed"}, None, scalars(0.5, 0.25, math.nan)) == (
        "The loss turned NaN in step 2 (rank 0); it was 0.25 before."
    )
    assert "infinite" in headline({"status": "Completed"}, None, scalars(-math.inf))


def test_a_metric_that_never_was_a_number_is_no_trouble():
    assert first_non_finite(scalars(math.nan, math.nan, name="f1 of an empty class")) is None
    assert first_non_finite(scalars(0.5, math.nan, name="accuracy")).name == "accuracy"
    assert first_non_finite(scalars(math.nan)).last_finite is None
    assert first_non_finite(scalars(1.0, 2.0)) is None


def test_a_job_that_died_after_its_loss_did():
    said = headline(failed("oom"), None, scalars(1.0, math.nan))
    assert said == (
        "Out of memory in step 812 while in backward (rank 0). "
        "Before that, the loss turned NaN in step 1 (rank 0); it was 1 before."
    )


def seen(**detail):
    return {"time": detail["step"], "rank": 0, "kind": "nonfinite", "detail": json.dumps(detail)}


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        (
            {"direction": "forward", "module": "enc.1", "parameter": "enc.1.weight", "step": 2},
            " It first appears in the output of module enc.1 (parameter weight), "
            "in the forward pass of step 2.",
        ),
        (
            {"direction": "forward", "module": "act", "parameter": "enc.1.weight", "step": 2},
            " It first appears in the output of module act (the last parameter before it is enc.1.weight), "
            "in the forward pass of step 2.",
        ),
        (
            {"direction": "backward", "module": "", "parameter": "scale", "step": 1},
            " It first appears in parameter scale, in the backward pass of step 1.",
        ),
        (
            {"direction": "backward", "module": "fc", "parameter": "fc.bias", "step": 1, "noticed": 2},
            " It first appears in module fc (parameter bias), in the update of step 1.",
        ),
        ({"direction": "forward", "module": "", "parameter": "", "step": 2}, ""),
        (
            {"direction": "forward", "module": "", "parameter": "fc.bias", "step": 2, "operation": "Log"},
            " It first appears in the loss (the last parameter before it is fc.bias), "
            "in the forward pass of step 2.",
        ),
        ({"direction": "forward", "module": "later", "parameter": "", "step": 3}, ""),
    ],
)
def test_where_numbers_stopped_being_finite_is_named(detail, said):
    skipped = seen(direction="backward", module="got.over", parameter="got.over.weight", step=0)
    events = Table.of("events", [skipped, {"time": 1, "kind": "nonfinite", "detail": "{cut"}, seen(**detail)])
    numbers = scalars(2.0, 1.5, math.nan)
    assert (
        headline({}, events, numbers) == f"The loss turned NaN in step 2 (rank 0); it was 1.5 before.{said}"
    )


def hang(at, rank, ranks=None, **detail):
    told = {"text": f"ranks {ranks}", "step": 40, "phase": "forward", "ranks": ranks, **detail}
    return {"time": at, "rank": rank, "kind": "hang", "name": "", "detail": json.dumps(told)}


def test_a_hang_leads_until_every_rank_in_it_has_left_it():
    both, later, one = hang(1, -1, [0, 1]), hang(2, 2, [2]), hang(3, 2, recovered=True)
    ended = {"status": "Stopped"}
    said = headline(ended, Table.of("events", [both, later, one, hang(4, 1, recovered=True)]), None)
    assert said == "Hung in step 40 while in forward: ranks [0, 1]."
    left = [hang(4, 1, recovered=True), hang(5, 0, recovered=True)]
    assert headline(ended, Table.of("events", [both, later, one, *left]), None) is None
    assert headline(ended, Table.of("events", [hang(1, 0, "nonsense")]), None).startswith("Hung in step 40")
