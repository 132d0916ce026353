"""One range in many threads, too deep, across sessions and forks: each span lies where it was made."""

import contextlib
import os
import threading

import pytest
from tests.recorder.reading import only, read

import holter

pytestmark = pytest.mark.usefixtures("writer")


def by_thread(spool):
    return sorted([s.name for s in thread.spans] for thread in only(spool).threads.values())


def on_another_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_kept_range_writes_for_whatever_thread_enters_it(session, spool):
    kept = holter.annotate("kept")
    barrier = threading.Barrier(2)

    def work(name):
        for _ in range(3):
            with kept:
                barrier.wait()
                with holter.annotate(name):
                    barrier.wait()

    other = threading.Thread(target=work, args=("there",))
    other.start()
    work("here")
    other.join()
    assert by_thread(spool) == [["here", "kept"] * 3, ["there", "kept"] * 3]
    assert [thread.open for thread in only(spool).threads.values()] == [[], []]
    assert session.fault_counts == {}


def test_a_name_first_used_by_a_thread_that_ended_serves_the_next(session, spool):
    def work():
        for _ in range(3):
            with holter.annotate("short-lived"):
                pass

    for _ in range(3):
        on_another_thread(work)
    work()
    assert by_thread(spool) == [["short-lived"] * 3, ["short-lived"] * 9]


def test_a_range_entered_here_and_left_there_costs_itself_only(session, spool):
    def generator():
        with holter.annotate("moved"):
            yield

    for _ in range(3):  # the first uses of a name take another way
        moved = generator()
        next(moved)
        on_another_thread(lambda moved=moved: list(moved))
        with holter.annotate("after"):
            pass
    assert by_thread(spool) == [["after"] * 3]
    assert session.fault_counts == {"spans": 3}


def test_nesting_beyond_what_is_kept_is_dropped_and_counted(session, spool):
    with contextlib.ExitStack() as stack:
        for _ in range(400):
            stack.enter_context(holter.annotate("deep"))
    with holter.annotate("after"):
        pass
    main = only(spool).main
    assert [s.name for s in main.spans] == ["deep"] * 248 + ["after"]
    assert all(s.begin for s in main.spans)
    assert (main.dropped, main.open, session.fault_counts) == (152, [], {})


def test_ranges_follow_from_one_session_to_the_next(spool, start):
    def work():
        for _ in range(3):
            with holter.annotate("again"):
                pass

    first = start()
    work()
    first.close()
    kept = {path.name: path.read_bytes() for path in spool.iterdir()}
    work()
    assert {path.name: path.read_bytes() for path in spool.iterdir()} == kept
    for path in spool.iterdir():
        path.unlink()
    start()
    work()
    assert by_thread(spool) == [["again"] * 3]


def test_a_forked_child_writes_what_it_annotates_into_its_own_files(session, spool):
    for _ in range(3):
        with holter.annotate("both"):
            pass
    child = os.fork()
    if not child:
        for _ in range(2):
            with holter.annotate("both"):
                pass
        os._exit(0)
    os.waitpid(child, 0)
    assert sorted(len(one.main.spans) for one in read(spool).values()) == [2, 3]
