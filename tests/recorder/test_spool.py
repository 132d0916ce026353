"""Files of the spool: they rotate, they are bounded, and no disk problem reaches the training."""

import itertools
import os
import subprocess
import sys
import time

import pytest
from tests.recorder.reading import environment, only, read, run

from holter.recorder.spool.files import create
from holter.schema import record
from holter.schema.phases import Phase


def write(session, count, first=0):
    add = session.thread_spool().add
    for i in range(first, first + count):
        add(Phase.FETCH, 0, i, 1, float(i))


def segments(spool):
    return sorted(int(p.name.split(".")[2]) for p in spool.glob("*.seg"))


def test_segments_rotate_and_no_record_is_lost(start, spool):
    session = start(segment_records=10)
    write(session, 95)
    assert segments(spool) == list(range(10))
    assert [s.begin for s in only(spool).main.spans] == list(range(95))
    assert {p.stat().st_size for p in spool.glob("*.seg")} == {10 * record.RECORD_SIZE}


def test_beyond_the_cap_records_are_dropped_and_counted_until_the_agent_takes_some(start, spool, monkeypatch):
    session = start(segment_records=10, max_segments=3)
    write(session, 50)
    main = only(spool).main
    assert [s.begin for s in main.spans] == list(range(30))
    assert main.dropped == 20
    next(spool.glob("*.0.0.seg")).unlink()  # what the agent does with a segment it has read
    time.sleep(1.1)  # the recorder tries again once a second
    write(session, 5, first=100)
    main = only(spool).main
    assert [s.begin for s in main.spans] == [*range(10, 30), *range(100, 105)]
    assert main.dropped == 20
    assert session.fault_counts == {}  # a slow agent is no fault


def test_files_have_their_blocks_so_that_a_full_disk_cannot_kill(tmp_path):
    create(str(tmp_path / "a"), 1 << 20).close()
    assert (tmp_path / "a").stat().st_blocks * 512 >= 1 << 20


FILL = """
import holter, os, sys
from holter.recorder import session
current = session.activate()
add = current.thread_spool().add
for i in range(200_000):
    add(12, 0, i, 1)
print("trained", current.fault_counts)
"""


def test_full_disk_costs_records_and_nothing_else(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3200k", "none", small], check=False).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        done = run(small, FILL)
        assert (done.returncode, done.stdout[:7]) == (0, "trained"), done.stderr
        main = only(small).main
        # Three segments fit; the counting of what did not goes into a page that was there before.
        assert len(main.spans) == 3 * record.SEGMENT_RECORDS
        assert main.dropped == 200_000 - len(main.spans)
        assert done.stderr.count("\n") == 1
        assert "No space left" in done.stderr
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_disk_that_is_full_from_the_start_and_gets_room_later(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2200k", "none", small], check=False).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        (small / "ballast").write_bytes(bytes(2200 << 10))
        later = """
import time
os.remove(os.environ["HOLTER_SPOOL"] + "/ballast")
time.sleep(1.1)
add(12, current.name("late"), 7, 1)
"""
        done = run(small, FILL + later)
        assert (done.returncode, done.stdout[:7]) == (0, "trained"), done.stderr
        process = only(small)
        assert [(s.begin, s.name) for s in process.main.spans] == [(7, "late")]
        assert process.main.dropped == 200_000
        assert process.identity["pid"] > 0
        assert "damaged" not in str(process.lines)
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_file_size_limit_costs_records_and_nothing_else(spool):
    done = run(
        spool, f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({100_000}, {100_000}))\n" + FILL
    )
    assert (done.returncode, done.stdout[:7]) == (0, "trained"), done.stderr
    assert only(spool).main.spans == []
    assert only(spool).main.dropped == 200_000


def test_read_only_directory_costs_the_recording_and_nothing_else(tmp_path):
    ro = tmp_path / "ro"
    ro.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", ro], check=False).returncode:
        ro.chmod(0o500)
        if os.access(ro, os.W_OK):
            pytest.skip("root may write anywhere, and mounting is not allowed here")
    try:
        # So long that its stack is sampled, too.
        done = run(ro, FILL + "import time\nend = time.time() + 3\nwhile time.time() < end: pass\n")
        assert (done.returncode, done.stdout[:7]) == (0, "trained"), done.stderr
        assert list(ro.iterdir()) == []
        assert done.stderr.count("\n") == 1
    finally:
        subprocess.run(["umount", "-l", ro], check=False)


def test_spool_that_vanishes_costs_the_rest_of_the_recording(spool):
    code = FILL.replace("for i in", "import shutil; shutil.rmtree(os.environ['HOLTER_SPOOL'])\nfor i in")
    done = run(spool, code)
    assert (done.returncode, done.stdout[:7]) == (0, "trained"), done.stderr


SPANS = int(os.environ.get("HOLTER_TEST_SPANS", 3_000_000))
"""The full test: HOLTER_TEST_SPANS=100000000, about a minute."""


def test_hundred_million_spans_scaled_down(spool):
    """Real marks, and an agent that deletes what is full: bounded disk, bounded memory, none lost."""
    code = """
import os, sys, time
from holter.recorder import session
current = session.activate()
thread_spool = current.thread_spool()
begin, end = thread_spool.begin, thread_spool.end
begin(4); end()
def wait():
    # On a busy machine, what deletes the segments may get no core for longer than they last.
    while len(os.listdir(os.environ["HOLTER_SPOOL"])) > 8: time.sleep(0.001)
def rss(): return int(open("/proc/self/statm").read().split()[1]) * 4096
for i in range(200_000): begin(4); end()
before = rss()
for i in range(int(sys.argv[1]) - 200_001):
    begin(4); end()
    if not i % 10_000: wait()
until = time.monotonic() + 10  # the thread that closes segments may get no core for a while
while rss() - before >= 4 << 20 and time.monotonic() < until: time.sleep(0.01)
print(rss() - before)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(SPANS)], env=environment(spool), stdout=subprocess.PIPE, text=True
    )
    most = taken = 0
    while child.poll() is None:
        numbers = segments(spool)
        most = max(most, len(numbers))
        for path in spool.glob("*.seg"):
            if int(path.name.split(".")[2]) < numbers[-1]:
                taken += record.SEGMENT_RECORDS
                path.unlink()
        time.sleep(0.005)
    main = only(spool).main
    assert taken + len(main.spans) == SPANS
    assert main.dropped == 0
    assert most <= record.MAX_SEGMENTS
    assert int(child.communicate()[0]) < 4 << 20


def test_two_ranks_on_one_node_share_a_spool(spool):
    code = """
import holter, os
for _ in range(100):
    with holter.step():
        with holter.annotate("rank " + os.environ["RANK"]): pass
"""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=environment(spool, RANK=r, LOCAL_RANK=r, WORLD_SIZE=2)
        )
        for r in range(2)
    ]
    assert [child.wait(180) for child in children] == [0, 0]
    processes = list(read(spool).values())
    assert sorted(p.identity["rank"] for p in processes) == [0, 1]
    for process in processes:
        assert {s.name for s in process.spans("annotation")} == {f"rank {process.identity['rank']}"}
        assert [s.step for s in process.spans("step")] == list(range(100))


SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
#include <stdlib.h>
/* The wall clock jumps back by an hour at its 20th reading, as after a bad time synchronization. */
int clock_gettime(clockid_t id, struct timespec *t) {
  static int (*real)(clockid_t, struct timespec *); static int n;
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int r = real(id, t);
  if (id == CLOCK_REALTIME && ++n > 20) t->tv_sec -= 3600;
  return r;
}
"""


def test_wall_clock_that_steps_back_changes_no_record(spool, tmp_path):
    (tmp_path / "shim.c").write_text(SHIM)
    shim = tmp_path / "shim.so"
    if subprocess.run(
        ["cc", "-shared", "-fPIC", "-o", shim, tmp_path / "shim.c", "-ldl"], check=False
    ).returncode:
        pytest.skip("stepping a process's wall clock back needs a C compiler")
    code = """
import holter, time
first = time.time()
for _ in range(50):
    with holter.step():
        time.time()
print(time.time() - first < -3000)
"""
    done = run(spool, code, env=environment(spool, LD_PRELOAD=shim))
    assert done.stdout == "True\n", done.stderr
    steps = only(spool).spans("step")
    assert [s.step for s in steps] == list(range(50))
    assert all(0 <= s.duration < 600 * 10**9 for s in steps)
    assert all(a.end == b.begin for a, b in itertools.pairwise(steps))
