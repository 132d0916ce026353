"""Spans of one thread: how they nest, what the head page says, and what bad use costs (nothing)."""

import math
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.recorder.reading import only

import holter
from holter.recorder import session as sessions
from holter.recorder.spool.thread_memory import coldness
from holter.recorder.unsupported import not_recorded
from holter.schema.phases import Mode, Phase

pytestmark = pytest.mark.usefixtures("writer")


def code(session, phase, name=""):
    return session.name(name) << 8 | phase


def test_spans_nest_and_are_written_when_they_end(session, spool):
    thread_spool = session.thread_spool()
    thread_spool.begin(code(session, Phase.FORWARD, "Net"))
    thread_spool.begin(code(session, Phase.ANNOTATION, "inner"))
    thread_spool.end()
    thread_spool.end(7.5, Mode.EVAL)
    inner, outer = only(spool).main.spans
    assert (inner.phase, inner.name, inner.step, inner.mode) == ("annotation", "inner", 0, Mode.TRAIN)
    assert math.isnan(inner.value)
    assert (outer.phase, outer.name, outer.value, outer.mode) == ("forward", "Net", 7.5, Mode.EVAL)
    assert outer.begin <= inner.begin <= inner.end <= outer.end


def test_head_lists_open_spans_outermost_first(session, spool):
    thread_spool = session.thread_spool()
    thread_spool.begin(code(session, Phase.BACKWARD))
    thread_spool.begin(code(session, Phase.COMMUNICATION, "all_reduce"))
    assert only(spool).main.open == [("backward", ""), ("communication", "all_reduce")]
    thread_spool.end()
    assert only(spool).main.open == [("backward", "")]
    thread_spool.end()
    assert only(spool).main.open == []


def test_add_writes_a_finished_span_with_its_own_step_and_mode(session, spool):
    session.thread_spool().add(Phase.FETCH, session.name("batch"), 100, 50, 32.0, -1, Mode.EVAL)
    (span,) = only(spool).main.spans
    assert (span.begin, span.duration, span.value, span.step, span.name) == (100, 50, 32.0, -1, "batch")
    assert (span.phase, span.mode) == ("fetch", Mode.EVAL)


def test_steps_are_numbered_and_begin_where_the_last_one_ended(session, spool):
    thread_spool = session.thread_spool()
    for _ in range(3):
        thread_spool.begin(code(session, Phase.DATA_LOADING))
        thread_spool.end()
        thread_spool.begin(code(session, Phase.OPTIMIZER, "SGD"))
        thread_spool.end()
        session.boundary()
    main = only(spool).main
    steps = [s for s in main.spans if s.phase == "step"]
    assert [s.step for s in steps] == [0, 1, 2]
    assert [s.begin for s in steps[1:]] == [s.end for s in steps[:-1]]
    assert steps[0].begin == main.spans[0].begin
    assert [s.step for s in main.spans if s.phase == "optimizer"] == [0, 1, 2]
    assert main.step == session.step == 3


def test_first_step_begins_with_the_loop_not_with_an_annotation_before_it(session, spool):
    thread_spool = session.thread_spool()
    thread_spool.begin(code(session, Phase.ANNOTATION, "build the model"))
    thread_spool.end()
    thread_spool.begin(code(session, Phase.FORWARD))
    thread_spool.end()
    session.boundary()
    annotation, forward, step = only(spool).main.spans
    assert annotation.end < step.begin == forward.begin


def test_end_without_begin_is_counted_and_harms_nothing(session, spool, capfd):
    thread_spool = session.thread_spool()
    for _ in range(3):
        thread_spool.end()
    thread_spool.begin(code(session, Phase.FORWARD))
    thread_spool.end()
    process = only(spool)
    assert [s.phase for s in process.main.spans] == ["forward"]
    assert session.fault_counts == {"spans": 3}
    assert capfd.readouterr().err.count("\n") == 1


def test_nesting_beyond_the_head_page_is_dropped_and_counted(session, spool):
    thread_spool = session.thread_spool()
    annotation = code(session, Phase.ANNOTATION, "deep")
    for _ in range(400):
        thread_spool.begin(annotation)
    for _ in range(400):
        thread_spool.end()
    thread_spool.end()  # one too many, right after the deepest nesting
    process = only(spool)
    assert len(process.main.spans) == 248
    assert process.main.dropped == 400 - 248
    assert process.main.open == []
    assert session.fault_counts == {"spans": 1}


@pytest.mark.parametrize("bad", ["text", None, object()])
def test_value_that_is_no_number_costs_the_value_only(session, spool, bad):
    thread_spool = session.thread_spool()
    forward = code(session, Phase.FORWARD)
    thread_spool.begin(forward)
    thread_spool.end()
    thread_spool.begin(forward)
    thread_spool.end(bad)
    thread_spool.add(Phase.FETCH, 0, 1, 2, bad)
    thread_spool.begin(forward)
    thread_spool.end(3.0)
    spans = only(spool).main.spans
    assert [s.phase for s in spans] == ["forward", "forward", "fetch", "forward"]
    assert math.isnan(spans[1].value)
    assert spans[3].value == 3.0


def test_end_of_finds_its_span_below_those_an_exception_left_open(session, spool):
    thread_spool = session.thread_spool()
    outer = code(session, Phase.ANNOTATION, "epoch")
    thread_spool.begin(outer)
    thread_spool.begin(code(session, Phase.FORWARD))  # its end was never called
    thread_spool.end_of(outer, 3.0, Mode.EVAL)
    main = only(spool).main
    assert [(s.name, s.value, s.mode) for s in main.spans] == [("epoch", 3.0, Mode.EVAL)]
    assert main.open == []


def test_end_of_keeps_annotations_begun_since(session, spool):
    thread_spool = session.thread_spool()
    first, second = (code(session, Phase.ANNOTATION, name) for name in ("first", "second"))
    thread_spool.begin(first)
    thread_spool.begin(second)
    thread_spool.end_of(first)
    assert only(spool).main.open == [("annotation", "second")]
    thread_spool.end_of(second)
    assert [s.name for s in only(spool).main.spans] == ["first", "second"]
    assert session.fault_counts == {}


def test_unwind_forgets_what_is_deeper(session, spool):
    thread_spool = session.thread_spool()
    for phase in (Phase.ANNOTATION, Phase.FORWARD, Phase.BACKWARD):
        thread_spool.begin(code(session, phase))
    thread_spool.unwind(1)
    assert thread_spool.depth() == 1
    assert only(spool).main.open == [("annotation", "")]


def test_step_of_a_worker_is_minus_one_and_spoils_no_other_field(session, spool):
    session.become_worker(3, "12-34")
    thread_spool = session.thread_spool()
    thread_spool.begin(code(session, Phase.COLLATE, "default_collate"))
    thread_spool.end()
    session.scalar("loss", float("inf"))
    process = only(spool)
    collate, loss = process.main.spans
    assert (collate.step, collate.name, collate.mode) == (-1, "default_collate", Mode.TRAIN)
    assert (loss.phase, loss.value) == ("scalar", float("inf"))
    assert (process.identity["role"], process.identity["worker"], process.identity["parent"]) == (
        "worker",
        3,
        "12-34",
    )


def test_cost_is_measured_and_shown(session, spool):
    thread_spool = session.thread_spool()
    for _ in range(1000):
        thread_spool.begin(Phase.FORWARD)
        thread_spool.end()
    session.boundary()
    assert session.mark_ns > 0
    assert 1000 * session.mark_ns <= only(spool).main.cost_ns < 1e9
    session.close()
    assert only(spool).facts("end")[0]["cost_ns"] >= 1000 * session.mark_ns


def test_hooks_between_long_work_are_told_for_more(session, spool):
    thread_spool = session.thread_spool()
    for _ in range(10):
        thread_spool.begin(Phase.FORWARD)
        time.sleep(0.006)
        thread_spool.end()
    session.close()
    told = only(spool).facts("end")[0]["cost_ns"]
    assert 10 * session.mark_ns * coldness(6e6) <= told
    assert [coldness(gap) for gap in (0, 1e6, 6e6, 1e12)] == [1.0, 2.0, 6.0, 6.0]


def test_a_range_is_told_for_what_it_costs_without_a_hook(session, spool):
    for _ in range(1002):  # the first two of a name take another way
        with holter.annotate("augment"):
            pass
    session.close()
    told = only(spool).facts("end")[0]["cost_ns"]
    assert 1000 * session.range_ns <= told <= 1000 * session.range_ns + 2 * session.mark_ns + 1e8
    assert session.range_ns < session.mark_ns


def test_what_is_no_code_is_refused_and_harms_nothing(session, spool, capfd):
    thread_spool = session.thread_spool()
    thread_spool.begin("text")
    thread_spool.end_of("text")
    thread_spool.begin(1 << 70)
    thread_spool.end_of(None)
    thread_spool.begin(code(session, Phase.FORWARD))
    thread_spool.end_of(code(session, Phase.FORWARD))
    assert [s.phase for s in only(spool).main.spans] == ["forward"]
    assert session.fault_counts.keys() == {"spans"}


def test_names_are_told_once_and_the_same_text_is_the_same_id(session, spool):
    first = session.name("first of its kind")
    session.thread_spool().begin(first << 8 | Phase.ANNOTATION)
    second = session.name("second of its kind")
    assert session.name("first of its kind") == first != second
    assert session.name("") == 0
    told = [text for _, text in only(spool).facts("name")]
    assert told.count("first of its kind") == told.count("second of its kind") == 1


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.one_of(st.integers(1, 18), st.none()), max_size=80))
def test_any_sequence_of_begins_and_ends_keeps_brackets(tmp_path_factory, sequence):
    spool = tmp_path_factory.mktemp("spool")
    session = sessions.Session(str(spool), segment_records=16)
    session.fault = lambda where, error: None
    thread_spool = session.thread_spool()
    expected, stack = [], []
    for phase in sequence:
        if phase is None:
            thread_spool.end()
            if stack:
                expected.append(stack.pop())
        else:
            thread_spool.begin(phase)
            stack.append(Phase(phase).name.lower())
    session.close()
    if all(phase is None for phase in sequence):
        # Nothing was recorded: no file was made but a journal, if it names a framework that was imported.
        assert len(list(spool.iterdir())) == bool(not_recorded())
        return
    main = only(spool).main
    assert [s.phase for s in main.spans] == expected
    assert [phase for phase, _ in main.open] == stack[:32]
