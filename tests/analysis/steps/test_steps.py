"""Steps: exclusive parts, evaluation found, and nothing depends on the order in which spans come."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.generated.story import story

from holter.analysis.steps.steps import StepBuilder, steps
from holter.schema.phases import BREAKDOWN
from holter.schema.table import Table


def span(begin, end, phase, mode="train", step=0, rank=0, worker=-1, thread=0, value=math.nan, name=""):
    return {
        "time": begin, "duration": end - begin, "phase": phase, "mode": mode, "step": step, "rank": rank,
        "worker": worker, "thread": thread, "value": value, "name": name, "node": "n",
    }  # fmt: skip


def table(*rows):
    return Table.of("spans", rows)


def one(*rows):
    (row,) = steps(table(*rows)).to_rows()
    assert sum(row[part] for part in BREAKDOWN) == row["duration"]
    return row


def named(row):
    return {part: row[part] for part in BREAKDOWN if row[part]}


def test_time_goes_to_the_innermost_part_and_the_rest_is_other():
    row = one(
        span(100, 200, "step"), span(100, 130, "data_loading"), span(130, 150, "forward"),
        span(150, 155, "loss"), span(151, 153, "h2d"), span(155, 185, "backward"),
        span(180, 185, "communication"), span(185, 198, "optimizer"),
    )  # fmt: skip
    expected = {"data_loading": 30, "h2d": 2, "forward": 20, "loss": 3, "backward": 25, "optimizer": 13}
    assert named(row) == {**expected, "communication": 5, "other": 2}
    assert (row["time"], row["duration"], row["step"], row["mode"]) == (100, 100, 0, "train")


def test_what_is_transparent_belongs_to_the_part_around_it():
    row = one(
        span(0, 100, "step"), span(0, 40, "data_loading"), span(1, 39, "fetch"), span(20, 30, "collate"),
        span(2, 8, "stack"), span(35, 70, "annotation"), span(40, 90, "forward"), span(41, 51, "compile"),
        span(45, 60, "compile"), span(60, 62, "gc"),
    )  # fmt: skip
    assert named(row) == {"data_loading": 40, "forward": 50, "other": 10}
    assert row["compile"] == 19


def test_only_the_main_thread_of_the_training_process_counts():
    row = one(
        span(0, 100, "step"), span(0, 50, "forward", worker=2), span(0, 50, "checkpoint", thread=1),
        span(0, 20, "data_loading"),
    )  # fmt: skip
    assert named(row) == {"data_loading": 20, "other": 80}


def test_a_span_over_two_steps_is_shared_between_them():
    first, second = steps(table(
        span(0, 100, "step", step=0), span(100, 200, "step", step=1), span(80, 150, "checkpoint"),
    )).to_rows()  # fmt: skip
    assert (first["checkpoint"], second["checkpoint"]) == (20, 50)


def test_a_marked_evaluation_holds_all_that_is_in_it():
    row = one(
        span(0, 100, "step"), span(10, 60, "eval"), span(12, 20, "data_loading"),
        span(20, 58, "forward", "eval"), span(60, 90, "forward"), span(90, 100, "backward"),
    )  # fmt: skip
    assert named(row) == {"eval": 50, "forward": 30, "backward": 10, "other": 10}


def test_a_validation_loop_is_evaluation_until_training_resumes():
    row = one(
        span(200, 400, "step", step=1), span(200, 203, "checkpoint"),
        span(205, 210, "data_loading", value=1), span(210, 220, "forward", "eval"),
        span(225, 230, "data_loading", value=1), span(230, 240, "forward", "eval"),
        span(241, 242, "data_loading", value=1), span(250, 260, "data_loading", value=0),
        span(260, 300, "forward"), span(300, 350, "backward"), span(350, 400, "optimizer"),
    )  # fmt: skip
    expected = {
        "checkpoint": 3,
        "eval": 47,
        "data_loading": 10,
        "forward": 40,
        "backward": 50,
        "optimizer": 50,
    }
    assert named(row) == expected


def test_a_checkpoint_after_evaluation_is_a_checkpoint():
    row = one(
        span(0, 200, "step"), span(5, 10, "data_loading", value=1), span(10, 20, "forward", "eval"),
        span(25, 30, "data_loading", value=1), span(30, 40, "forward", "eval"),
        span(41, 42, "data_loading", value=1), span(50, 80, "checkpoint"),
        span(85, 90, "data_loading", value=0), span(90, 110, "forward"),
        span(110, 150, "backward"), span(150, 200, "optimizer"),
    )  # fmt: skip
    assert named(row) == {
        "eval": 50, "checkpoint": 30, "data_loading": 5, "forward": 20, "backward": 40, "optimizer": 50,
        "other": 5,
    }  # fmt: skip


def test_a_teacher_after_evaluation_is_forward():
    """Each loader is asked once more to learn that it is exhausted, the training's before the evaluation."""
    row = one(
        span(0, 200, "step"),
        span(0, 5, "data_loading", value=0),
        span(5, 10, "data_loading", value=1), span(10, 20, "forward", "eval"),
        span(20, 30, "data_loading", value=1), span(30, 40, "forward", "eval"),
        span(40, 50, "data_loading", value=1),
        span(60, 70, "data_loading", value=0), span(70, 80, "forward", "eval"),
        span(80, 110, "forward"), span(110, 150, "backward"), span(150, 200, "optimizer"),
    )  # fmt: skip
    assert named(row) == {"eval": 55, "data_loading": 15, "forward": 40, "backward": 40, "optimizer": 50}


def test_evaluation_after_the_next_batch_was_fetched():
    row = one(
        span(0, 100, "step"), span(0, 10, "data_loading", value=0), span(10, 20, "data_loading", value=1),
        span(20, 30, "forward", "eval"), span(30, 40, "data_loading", value=1),
        span(40, 50, "forward", "eval"), span(60, 80, "forward"), span(80, 90, "backward"),
        span(90, 100, "optimizer"),
    )  # fmt: skip
    assert named(row) == {"data_loading": 10, "eval": 50, "forward": 20, "backward": 10, "optimizer": 10}


def test_one_batch_of_another_loader_is_evaluation():
    row = one(
        span(0, 100, "step"), span(0, 10, "data_loading", value=1), span(10, 30, "forward", "eval"),
        span(30, 40, "data_loading", value=0), span(40, 60, "forward"), span(60, 80, "backward"),
        span(80, 100, "optimizer"),
    )  # fmt: skip
    assert named(row) == {"eval": 30, "data_loading": 10, "forward": 20, "backward": 20, "optimizer": 20}


def test_evaluation_on_tensors_without_a_loader():
    row = one(
        span(0, 100, "step"), span(0, 20, "forward", "eval"), span(25, 40, "forward", "eval"),
        span(40, 60, "forward"), span(60, 80, "backward"), span(80, 100, "optimizer"),
    )  # fmt: skip
    assert named(row) == {"eval": 40, "forward": 20, "backward": 20, "optimizer": 20}


def test_one_pass_of_a_model_that_is_also_trained_is_evaluation_but_where_it_labels_the_batch():
    training = [span(40, 60, "forward"), span(60, 80, "backward"), span(80, 100, "optimizer")]
    after_training = one(span(0, 100, "step"), span(0, 35, "forward", "eval", value=1), *training)
    assert named(after_training) == {"eval": 40, "forward": 20, "backward": 20, "optimizer": 20}
    teacher = one(span(0, 100, "step"), span(0, 35, "forward", "eval"), *training)
    assert named(teacher) == {"forward": 55, "backward": 20, "optimizer": 20, "other": 5}
    loading = span(0, 10, "data_loading", value=0)
    labels = one(span(0, 100, "step"), loading, span(10, 40, "forward", "eval", value=1), *training)
    assert named(labels) == {"data_loading": 10, "forward": 50, "backward": 20, "optimizer": 20}


@pytest.mark.parametrize("teachers", [1, 2])
def test_a_frozen_teacher_is_forward(teachers):
    wide = 20 // teachers
    frozen = [span(10 + i * wide, 10 + (i + 1) * wide, "forward", "eval") for i in range(teachers)]
    row = one(
        span(0, 100, "step"), span(0, 5, "data_loading", value=0), span(5, 10, "data_loading", value=1),
        *frozen, span(30, 60, "forward"), span(60, 80, "backward"), span(80, 100, "optimizer"),
    )  # fmt: skip
    assert named(row) == {"data_loading": 10, "forward": 50, "backward": 20, "optimizer": 20}


def test_training_in_eval_mode_is_no_evaluation():
    row = one(
        span(0, 100, "step"), span(0, 10, "data_loading", value=0), span(10, 30, "forward", "eval"),
        span(30, 40, "backward"), span(40, 50, "data_loading", value=0), span(50, 60, "forward", "eval"),
        span(60, 80, "backward"), span(80, 100, "optimizer"),
    )  # fmt: skip
    assert named(row) == {"data_loading": 20, "forward": 30, "backward": 30, "optimizer": 20}


def test_inference_is_forward():
    row = one(
        span(0, 30, "step", "predict"), span(0, 10, "data_loading", value=0), span(10, 30, "forward", "eval")
    )
    assert named(row) == {"data_loading": 10, "forward": 20}
    assert row["mode"] == "predict"


def test_a_step_whose_record_was_dropped_is_absent_and_others_keep_their_times():
    rows = list(steps(table(
        span(0, 100, "step", step=0), span(200, 300, "step", step=2), span(110, 150, "forward", step=1),
        span(210, 240, "forward", step=2),
    )).to_rows())  # fmt: skip
    assert [(r["step"], r["duration"], r["forward"]) for r in rows] == [(0, 100, 0), (2, 100, 30)]


def test_no_steps_from_nothing():
    assert steps(Table.empty("spans")).rows == 0
    assert steps(table(span(0, 10, "forward"))).rows == 0


def test_ranks_and_nodes_are_kept_apart():
    rows = table(*(span(0, 100, "step", rank=r) for r in range(3)), span(0, 40, "forward", rank=2))
    assert steps(rows)["forward"].tolist() == [0, 0, 40]


SPAN = st.tuples(
    st.integers(0, 400), st.integers(0, 200), st.sampled_from([*BREAKDOWN, "fetch", "annotation", "compile"]),
    st.sampled_from(["train", "eval"]), st.sampled_from([math.nan, 0.0, 1.0]), st.integers(0, 1),
)  # fmt: skip
BOUNDS = st.lists(st.integers(0, 500), min_size=2, max_size=8, unique=True).map(sorted)


def recording(bounds, spans):
    rows = [span(a, b, "step", step=i, rank=r) for r in (0, 1) for i, (a, b) in enumerate(pairwise(bounds))]
    rows += [span(b, b + d, phase, mode, rank=r, value=v) for b, d, phase, mode, v, r in spans]
    return table(*rows)


def same(a, b):
    return {n: c.tolist() for n, c in a.columns.items()} == {n: c.tolist() for n, c in b.columns.items()}


@settings(max_examples=150, deadline=None)
@given(BOUNDS, st.lists(SPAN, max_size=25))
def test_parts_add_up_whatever_the_spans(bounds, spans):
    result = steps(recording(bounds, spans))
    parts = np.stack([result[part] for part in BREAKDOWN])
    assert result.rows == 2 * (len(bounds) - 1)
    assert (parts >= 0).all()
    assert (parts.sum(axis=0) == result["duration"]).all()
    assert (result["compile"] <= result["duration"]).all()


@settings(max_examples=150, deadline=None)
@given(BOUNDS, st.lists(SPAN, max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_spans_does_not_matter(bounds, spans, random):
    recorded = recording(bounds, spans)
    order = list(range(recorded.rows))
    random.shuffle(order)
    assert same(steps(recorded), steps(recorded.where(np.array(order))))


@settings(max_examples=150, deadline=None)
@given(BOUNDS, st.lists(SPAN, max_size=20), st.randoms(use_true_random=False), st.integers(0, 40))
def test_fed_bit_by_bit_it_is_the_same_as_at_once(bounds, spans, random, lateness):
    """Cut anywhere, out of order by up to the lateness that the builder was told of."""
    # A span over several steps is only known at its end, when the first of them may have been handed out.
    within = [(b, min([b + d, *(e for e in bounds if e > b)]) - b, *rest) for b, d, *rest in spans]
    recorded = recording(bounds, within)
    ends = recorded["time"] + recorded["duration"]
    arrival = np.argsort([e + random.uniform(0, lateness) for e in ends.tolist()], kind="stable")
    recorded = recorded.where(arrival)
    builder = StepBuilder(lateness_ns=lateness)
    cuts = sorted(random.choices(range(recorded.rows + 1), k=4))
    got = [builder.feed(recorded.where(part)) for part in np.split(np.arange(recorded.rows), cuts)]
    whole = Table.concat([*got, builder.finish()]).sorted("time", "rank")
    assert builder.late == 0
    assert same(whole, steps(recorded))


def test_a_span_that_comes_too_late_is_counted_and_changes_nothing():
    builder = StepBuilder(lateness_ns=50)
    done = builder.feed(table(span(0, 100, "step"), span(100, 200, "step", step=1)))
    assert done["step"].tolist() == [0]
    assert builder.feed(table(span(10, 20, "forward"))).rows == 0
    assert builder.late == 1
    assert builder.finish()["step"].tolist() == [1]
    assert builder.finish().rows == 0


def test_memory_is_bounded_when_no_step_ever_ends():
    builder = StepBuilder(max_pending=100)
    for i in range(20):
        builder.feed(table(*(span(100 * i + k, 100 * i + k + 1, "forward") for k in range(20))))
    assert builder.given_up > 0
    row = next(
        builder.feed(table(span(0, 2000, "step"), span(4_000_000_000, 4_000_000_001, "h2d"))).to_rows()
    )
    assert row["duration"] == 2000
    assert row["forward"] + builder.given_up == 400


def test_the_seed_story_has_its_shares():
    before, after = steps(story("before", samples=10).spans), steps(story("after", samples=10).spans)
    share = {p: 100 * before[p].sum() / before["duration"].sum() for p in BREAKDOWN}
    worked = {"data_loading": 60, "forward": 12, "backward": 20, "optimizer": 8}
    assert share == pytest.approx({**dict.fromkeys(BREAKDOWN, 0.0), **worked}, abs=0.01)
    assert (before.rows, before["step"].min(), before["step"].max()) == (4000, 1000, 1499)
    # 2.6 h for 5.9 h.
    assert after["duration"].mean() / before["duration"].mean() == pytest.approx(2.6 / 5.9, rel=0.002)


def test_spans_alike_in_time_count_alike_in_any_order():
    waits = [(0, 0, "data_loading", "train", math.nan, 0)] * 6
    passes = [(0, 1, "forward", "eval", math.nan, 1), (0, 1, "backward", "train", math.nan, 1)]
    recorded = recording([0, 1], [*waits, *passes, passes[0]])
    swapped = np.array([0, 1, 2, 3, 4, 5, 6, 7, 9, 8, 10])
    assert same(steps(recorded), steps(recorded.where(swapped)))


@given(st.lists(st.tuples(st.integers(1, 2000), st.integers(1, 40)), min_size=1, max_size=6))
def test_steps_of_one_call_divide_its_time(calls):
    rows, begin, number = [], 0, 0
    for duration, count in calls:
        end = begin + duration + count
        rows += [
            span(begin, end, "step", step=number, value=count if count > 1 else math.nan),
            span(begin, begin + duration // 3, "data_loading", step=number),
            span(begin + duration // 2, end, "forward", step=number),
        ]
        begin, number = end, number + count
    found = steps(table(*rows))
    assert found["step"].tolist() == list(range(number))
    assert found["at_once"].tolist() == [count for _, count in calls for _ in range(count)]
    parts = np.sum([found[part] for part in BREAKDOWN], axis=0)
    assert np.array_equal(parts, found["duration"])
    assert int(found["duration"].sum()) == begin
    assert np.array_equal(found["time"], np.cumsum(found["duration"]) - found["duration"])
    assert int(found["data_loading"].sum()) == sum(duration // 3 for duration, _ in calls)


def test_a_damaged_number_of_steps_at_once_makes_a_bounded_table():
    found = steps(
        table(span(0, 1_000_000, "step", value=1e300), span(1_000_000, 2_000_000, "step", value=-4))
    )
    assert found.rows == 65_536 + 1


def test_calls_of_a_compiled_function_that_evaluates_are_evaluation():
    """The batches of the evaluation come from another loader than those of the training."""
    rows = [
        span(0, 100, "step"),
        span(1, 2, "data_loading", value=0.0),
        *(span(10 * at, 10 * at + 2, "data_loading", value=1.0) for at in range(1, 6)),
        *(span(10 * at + 2, 10 * at + 9, "compute", mode="eval") for at in range(1, 6)),
        span(62, 70, "data_loading", value=0.0),
        span(70, 99, "compute"),
    ]
    row = one(*rows)
    assert row["eval"] == 60  # with the code around its calls
    assert (row["compute"], row["data_loading"]) == (29, 9)


def test_a_compiled_function_that_trains_is_no_evaluation():
    row = one(span(0, 100, "step"), span(0, 40, "data_loading"), span(40, 100, "compute"))
    assert named(row) == {"data_loading": 40, "compute": 60}
