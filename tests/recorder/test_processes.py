"""Forks, spawned children, threads: each process and each thread writes its own files, never another's."""

import os
import subprocess
import sys
import threading

import pytest
from tests.recorder.reading import environment, only, read, run

from holter.schema.phases import Phase

CHILDREN = """
import multiprocessing, sys
import holter
def work():
    with holter.annotate("child"): pass
if __name__ == "__main__":
    with holter.annotate("before"): pass
    context = multiprocessing.get_context(sys.argv[1])
    with holter.annotate("outer"):
        children = [context.Process(target=work) for _ in range(3)]
        for child in children: child.start()
        for child in children: child.join()
    with holter.annotate("after"): pass
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_have_their_own_files(spool, tmp_path, method):
    script = tmp_path / "script.py"
    script.write_text(CHILDREN)
    done = subprocess.run(
        [sys.executable, script, method], env=environment(spool), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    processes = read(spool).values()
    names = sorted([s.name for s in p.spans()] for p in processes)
    assert names == [["before", "outer", "after"], ["child"], ["child"], ["child"]]
    assert all(len(p.facts("process")) == len(p.facts("end")) == 1 for p in processes)
    assert len({p.identity["pid"] for p in processes}) == 4
    if method == "fork":
        (parent,) = [p.key for p in processes if len(p.spans()) == 3]
        assert [p.identity["parent"] for p in processes if p.key != parent] == [parent] * 3


def test_fork_inside_an_open_span_and_from_a_thread(spool):
    code = """
import os, threading
import holter
def forks():
    with holter.annotate("in thread"):
        pid = os.fork()
        with holter.annotate("child" if pid == 0 else "parent"): pass
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
with holter.annotate("main"):
    thread = threading.Thread(target=forks); thread.start(); thread.join()
"""
    done = run(spool, code)
    assert (done.returncode, done.stderr) == (0, "")
    child, parent = sorted(read(spool).values(), key=lambda p: len(p.threads))
    # The span that was open at the fork goes on in the parent alone.
    assert [s.name for s in child.main.spans] == ["child"]
    assert [s.name for s in parent.threads[0].spans] == ["main"]
    assert [s.name for s in parent.threads[1].spans] == ["parent", "in thread"]


def test_fork_while_other_threads_record_never_deadlocks(spool):
    code = """
import os, threading
import holter
from holter.recorder import session
stop = False
def busy(n):
    i = 0
    while not stop:
        with holter.annotate(f"name {n} {i % 50}"): pass
        session.current.journal("signal", i)
        i += 1
with holter.annotate("main"): pass
threads = [threading.Thread(target=busy, args=(n,)) for n in range(3)]
for t in threads: t.start()
for i in range(30):
    pid = os.fork()
    if pid == 0:
        with holter.annotate(f"child {i}"): pass
        session.current.journal("signal", "child")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop = True
for t in threads: t.join()
"""
    done = run(spool, code)
    assert (done.returncode, done.stderr) == (0, "")
    children = [p for p in read(spool).values() if p.facts("signal") == ["child"]]
    assert sorted(s.name for p in children for s in p.spans()) == sorted(f"child {i}" for i in range(30))


def test_threads_have_their_own_stacks(session, spool):
    barrier = threading.Barrier(4)

    def work(number):
        thread_spool = session.thread_spool()
        thread_spool.begin(session.name(f"thread {number}") << 8 | Phase.ANNOTATION)
        barrier.wait()
        thread_spool.end()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    process = only(spool)
    assert sorted(process.threads) == [1, 2, 3, 4]
    assert sorted(s.name for s in process.spans()) == [f"thread {n}" for n in range(4)]
    assert len({t.native for t in process.threads.values()}) == 4


def test_many_short_threads_share_few_files(session, spool):
    for n in range(200):
        thread = threading.Thread(target=session.scalar, args=("n", n))
        thread.start()
        thread.join()
    process = only(spool)
    assert len(process.threads) <= 2
    assert sorted(s.value for s in process.spans()) == list(range(200))


def test_idle_process_leaves_no_file(spool):
    done = run(spool, "import holter, threading; holter.annotate; import multiprocessing; print('ok')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
    assert list(spool.iterdir()) == []


def test_facts_wait_for_the_first_span_and_framework_follows_into_forks(session, spool):
    session.journal("framework", {"name": "pytorch", "version": "2.0", "device": "cpu"})
    assert list(spool.iterdir()) == []
    session.thread_spool().begin(Phase.FORWARD)
    pid = os.fork()
    if pid == 0:
        session.thread_spool().begin(Phase.FORWARD)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    processes = read(spool).values()
    assert [p.facts("framework") for p in processes] == [
        [{"name": "pytorch", "version": "2.0", "device": "cpu"}]
    ] * 2
    assert all(next(iter(p.lines[0])) == "process" for p in processes)


SLURM = {"SLURM_PROCID": "7", "SLURM_LOCALID": "3", "SLURM_NTASKS": "64"}
TF_CONFIG = '{"cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}, "task": %s}'


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, (3, 1, 8)),
        (
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"},
            (2, 0, 4),
        ),
        ({"PMI_RANK": "5", "PMI_SIZE": "6"}, (5, None, 6)),
        ({**SLURM, "SLURM_STEP_NUM_TASKS": "16"}, (7, 3, 16)),
        ({"RANK": "1", **SLURM, "SLURM_STEP_NUM_TASKS": "16"}, (1, None, None)),
        ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "16"}, (None, None, None)),  # sbatch
        ({"HOROVOD_RANK": "3", "HOROVOD_LOCAL_RANK": "1", "HOROVOD_SIZE": "4"}, (3, 1, 4)),
        ({"TF_CONFIG": TF_CONFIG % '{"type": "chief", "index": 0}'}, (0, None, 3)),
        ({"TF_CONFIG": TF_CONFIG % '{"type": "worker", "index": 1}'}, (2, None, 3)),
        ({"TF_CONFIG": TF_CONFIG % '{"type": "ps", "index": 0}'}, (None, None, None)),
        ({"TF_CONFIG": "{", **SLURM, "SLURM_STEP_NUM_TASKS": "16"}, (7, 3, 16)),
        ({"DMLC_TASK_ID": "5", "DMLC_NUM_WORKER": "8", "DMLC_ROLE": "worker"}, (5, None, 8)),
        ({"DMLC_TASK_ID": "1", "DMLC_ROLE": "server"}, (None, None, None)),
        ({"KERAS_DISTRIBUTION_PROCESS_ID": "1", "KERAS_DISTRIBUTION_NUM_PROCESSES": "2"}, (1, None, 2)),
        ({"JOB_COMPLETION_INDEX": "2"}, (2, None, None)),
        ({"JOB_COMPLETION_INDEX": "2", "JAX_PROCESS_ID": "17"}, (17, None, None)),
        ({"RANK": "one", "PMI_RANK": "4"}, (4, None, None)),
        ({}, (None, None, None)),
    ],
)
def test_rank_is_read_from_the_launcher(env, expected):
    from holter.recorder.rank import from_environment

    assert tuple(from_environment(env).values()) == expected


def test_workers_that_torchrun_starts_again_are_of_one_run():
    from holter.recorder.rank import run_from_environment

    first = {"TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_RUN_ID": "none"}
    again = {**first, "TORCHELASTIC_RESTART_COUNT": "1"}
    assert run_from_environment(first, 70) == run_from_environment(again, 70)
    assert run_from_environment(first, 70) != run_from_environment(first, 71)
    assert run_from_environment({"RANK": "0"}, 70) is None
