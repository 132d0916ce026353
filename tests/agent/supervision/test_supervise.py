"""The command runs as if nobody watched: exit code, streams, signals, stop, companions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from tests.agent.conftest import until

from holter.agent.machine import procfs
from holter.agent.supervision.command import CommandNotFound, find_command
from holter.agent.supervision.supervise import Agent
from holter.schema.companions import FAULT
from holter.store import job


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("code", [0, 1, 3, 64, 255])
def test_the_exit_code_is_the_commands_own(start, code):
    run = start("sh", "-c", f"exit {code}")
    assert run.wait() == code
    manifest = run.folder.manifest()
    assert manifest["exit_code"] == code
    assert manifest["signal"] is None
    assert manifest["status"] == ("Completed" if code == 0 else "Failed")
    assert manifest["end"] >= manifest["start"]
    assert (manifest["failure"] is None) == (code == 0)


def test_a_signal_is_told_as_a_shell_does_and_named(start):
    run = start("sh", "-c", "kill -SEGV $$")
    assert run.wait() == 128 + signal.SIGSEGV
    assert run.outcome["signal"] == signal.SIGSEGV
    assert run.outcome["failure"]["kind"] == "signal"
    assert "SIGSEGV" in run.outcome["failure"]["evidence"]


def test_input_and_output_pass_untouched(start):
    data = bytes(range(256)) * 1000
    run = start(
        "sh",
        "-c",
        "cat; echo problem >&2",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = run.process.communicate(data, timeout=180)
    assert out == data
    assert err == b"problem\n"


def test_the_command_starts_as_if_nobody_watched(start):
    code = (
        "import os, signal, json;"
        "status = dict(line.split(':\\t') for line in open('/proc/self/status') if line.startswith('Sig'));"
        "print(json.dumps([os.nice(0), status['SigBlk'].strip(), signal.getsignal(signal.SIGINT)"
        " is signal.default_int_handler, os.getpgrp(), sorted(os.listdir('/proc/self/fd'))]))"
    )
    run = start(*python(code), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, process_group=0)
    nice, blocked, default, group, descriptors = json.loads(run.process.communicate(timeout=180)[0])
    assert nice == os.nice(0)
    assert int(blocked, 16) == 0
    assert default
    assert group == run.process.pid
    assert descriptors == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT]
)
def test_signals_are_passed_on_once(start, number):
    code = (
        "import signal, time\n"
        f"seen = []\nsignal.signal({int(number)}, lambda *a: seen.append(1))\n"
        "print('ready', flush=True)\n"
        "while not seen: time.sleep(0.01)\n"
        "time.sleep(0.3)\n"
        "raise SystemExit(40 + len(seen))"
    )
    run = start(*python(code), stdout=subprocess.PIPE)
    assert run.process.stdout.readline() == b"ready\n"
    run.process.send_signal(number)
    assert run.wait() == 41
    assert [event["name"] for event in run.events("signal")] == [number.name]


def test_what_is_ignored_stays_ignored(start):
    code = "import signal; raise SystemExit(7 if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else 8)"
    run = start(*python(code), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert run.wait() == 7


def test_processes_that_outlive_the_command_are_left_alone_and_not_waited_for(start, tmp_path):
    run = start("sh", "-c", f"sleep 600 & echo $! > {tmp_path}/pid")
    assert run.wait() == 0
    pid = int((tmp_path / "pid").read_text())
    assert procfs.stat(pid).alive
    os.kill(pid, signal.SIGKILL)


def test_stop_asks_then_kills_what_ignores_it(start, tmp_path):
    inner = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); open('{}', 'w').write('x'); time.sleep(600)"
    )
    ready = tmp_path / "ready"
    run = start("sh", "-c", f'{sys.executable} -c "{inner.format(ready)}"; exit 0')
    until(ready.exists)
    inner_pid = until(
        lambda: [p for p in procfs.tree([run.process.pid]).values() if p.pid != run.process.pid]
    )
    run.folder.order(stop={"grace_s": 1.0})
    assert run.wait() == 128 + signal.SIGTERM
    assert run.folder.manifest()["status"] == "Stopped"
    assert run.folder.manifest()["failure"] is None
    assert not any((stat := procfs.stat(p.pid)) and stat.alive for p in inner_pid)


def test_stop_lets_a_command_end_in_its_own_way(start, tmp_path):
    code = (
        "import signal, sys, time\n"
        "signal.signal(15, lambda *a: sys.exit(9))\n"
        f"open({str(tmp_path / 'ready')!r}, 'w')\n"
        "time.sleep(600)"
    )
    run = start(*python(code))
    until((tmp_path / "ready").exists)
    run.folder.order(stop={})
    assert run.wait() == 9
    assert run.folder.manifest()["status"] == "Stopped"
    assert run.folder.manifest()["exit_code"] == 9


def test_the_interval_can_be_changed_while_it_runs(start):
    run = start("sleep", "600", options={"interval_ms": 1000})

    def gaps() -> list[float]:
        """Return the time between readings, in ms."""
        if not run.rows("samples"):
            return []
        loads = run.trial.sql("select time from samples where metric = 'cpu.load1' order by time")["time"]
        return ((loads[1:] - loads[:-1]) / 1e6).tolist()

    before = until(lambda: gaps()[1:])
    run.folder.order(interval_ms=100)
    until(lambda: len(gaps()) > len(before) + 30)
    run.process.terminate()
    run.wait()
    # A busy machine leaves rounds out; none is early.
    assert max(before) > 900
    assert min(gaps()[-20:]) == pytest.approx(100, abs=50)
    assert run.folder.manifest()["interval_ms"] == 100


def test_a_spool_that_cannot_be_made_costs_only_the_recording(start, tmp_path):
    run = start("sh", "-c", "exit 5", options={"spool_parent": str(tmp_path / "missing")})
    assert run.wait() == 5
    assert any("spool" in fault["where"] for fault in run.outcome["faults"])


def test_a_store_that_vanishes_does_not_touch_the_command(start):
    run = start("sh", "-c", "sleep 2; exit 6")
    job_folder = run.store / "job"
    until(lambda: (job_folder / "nodes").exists())
    subprocess.run(["rm", "-rf", str(run.store)], check=True)
    run.store.write_text("a file where the store was")
    assert run.wait() == 6
    assert run.outcome["exit_code"] == 6
    # Its manifest says InProgress for ever: who shows the job must learn it from here.
    assert "manifest" in {fault["where"] for fault in run.outcome["faults"]}


def test_no_spool_is_left_behind(start, tmp_path):
    parent = tmp_path / "spools"
    parent.mkdir()
    run = start("sh", "-c", 'test -d "$HOLTER_SPOOL"', options={"spool_parent": str(parent)})
    assert run.wait() == 0
    assert list(parent.iterdir()) == []


def test_companions_start_late_and_end_with_the_job(start, tmp_path):
    pid = tmp_path / "companion"
    code = (
        f"import os, time; file = open({str(pid)!r}, 'w')\n"
        f"print({FAULT + 'place: it is away'!r}, flush=True)\n"
        "print(os.getpid(), os.nice(0), time.time_ns(), file=file, flush=True); time.sleep(600)"
    )
    waits = f"until grep -q . {pid}; do sleep 0.1; done 2>/dev/null"
    run = start("sh", "-c", waits, options={"companions": [python(code), ["/proc/nowhere/companion"]]})
    assert run.wait() == 0
    companion, nice, began = map(int, pid.read_text().split())
    assert began - run.folder.manifest()["start"] > 4.9e9
    assert procfs.stat(companion) is None
    assert nice >= 10
    told = {fault["where"]: fault["error"] for fault in run.outcome["faults"]}
    assert set(told) == {"companion companion", "place"}
    assert told["place"] == "it is away"
    assert run.outcome["agent_cpu_s"] > 0


def folder_of(tmp_path):
    return job.create(str(tmp_path), "job", command=["x"], interval_ms=500, rules=[], now_ns=1)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ([], "no command"),
        (["pythn3"], "python3"),
        (["./absent.sh"], "no such file"),
        (["{tmp}"], "is a folder"),
        (["{tmp}/plain.py"], "not executable"),
    ],
)
def test_a_command_that_cannot_run_is_refused_before_anything_starts(tmp_path, command, says):
    (tmp_path / "plain.py").write_text("print()")
    words = [word.format(tmp=tmp_path) for word in command]
    with pytest.raises(CommandNotFound, match=says):
        Agent(folder_of(tmp_path), words, node="n", interval_ms=500)


def test_an_interval_that_is_none_of_the_valid_is_refused(tmp_path):
    with pytest.raises(ValueError, match="300 ms is not possible; valid are, in ms: 100, 200, 500"):
        Agent(folder_of(tmp_path), ["true"], node="n", interval_ms=300)


def test_a_script_without_its_first_line_runs_as_in_a_shell(start, tmp_path):
    script = tmp_path / "plain"
    script.write_text("exit 12\n")
    script.chmod(0o755)
    assert start(str(script)).wait() == 12


def test_a_file_next_to_the_path_is_pointed_out(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandNotFound, match=r"python train\.py"):
        find_command(["train.py"])
