"""`holter import`: a job that all commands read, exit codes, what it says."""

from __future__ import annotations

import json
import os

import pytest

from holter.cli import main

EVENT = {"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 10**15, "dur": 5}


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("HOLTER_STORE", str(tmp_path / "jobs"))
    return tmp_path / "jobs"


def test_a_job_is_made_and_described(written, store, capsys):
    steps = [
        dict(EVENT, cat="user_annotation", name=f"ProfilerStep#{n}", ts=10**15 + n * 10, dur=10)
        for n in range(4)
    ]
    path = written([EVENT, *steps], "rank3.pt.trace.json.gz")
    assert main(["import", str(path), "--job", "mine", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["job"], told["ranks"], told["rows"]["spans"]) == ("mine", {str(path): 3}, 4)
    assert main(["describe", "mine", "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["job"]["status"] == "Completed"
    assert described["job"]["duration_s"] == pytest.approx(40e-6)
    assert described["steps"]["count"] == 4
    assert main(["jobs", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["jobs"]
    assert listed["verdict"]["sentence"] == described["verdict"]["sentence"]


def test_it_says_in_words_what_it_did_and_skipped(written, store, capsys):
    path = written(json.dumps({"traceEvents": [EVENT]}).encode()[:-2])
    assert main(["import", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "1 file, 1 rank, 1 event\n" in out
    assert "cut off before its events end" in err
    (job,) = store.iterdir()
    assert job.name.startswith("trace-")


def test_refusals(written, store, capsys, tmp_path):
    assert main(["import", str(tmp_path / "nothing")]) == 4
    assert "nothing" in capsys.readouterr().err
    path = written(b'{"a": 1}')
    assert main(["import", str(path), "--job", "x"]) == 65
    error = capsys.readouterr().err
    assert "trace.json" in error
    assert "no list of trace events" in error
    assert not (store / "x").exists()  # there is no job without rows
    assert main(["import", str(written([EVENT])), "--job", "no/name"]) == 64
    assert main(["import"]) == 64
    assert main(["import", str(written([EVENT])), "--job", "twice"]) == 0
    assert main(["import", str(written([EVENT])), "--job", "twice"]) == 64


def test_a_trace_of_which_no_event_can_be_read_makes_no_job(written, store, capsys):
    path = written([{"ph": "X", "name": "a", "ts": "x", "dur": 1, "pid": 1, "tid": 1}])
    assert main(["import", str(path), "--job", "x"]) == 65
    assert "a time" in capsys.readouterr().err
    assert not (store / "x").exists()


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "a.zip", "a.nsys-rep", "report.sqlite"])
def test_a_pointer_of_git_lfs_is_called_one(name, store, capsys, tmp_path):
    path = tmp_path / name
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    assert main(["import", str(path)]) == 65
    assert "git lfs pull" in capsys.readouterr().err
    assert main(["import", str(tmp_path)]) == 65
    assert "git lfs pull" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["import", "diagnose"])
def test_a_pipe_is_refused_and_not_waited_for(command, store, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo.json")
    assert main([command, "fifo.json"]) == 65
    assert "it is no file: a pipe cannot be read twice" in capsys.readouterr().err


def test_a_second_list_of_events_is_told(written, store, capsys):
    events = json.dumps([EVENT])
    path = written(f'{{"traceEvents": {events}, "traceEvents": {events}}}'.encode())
    assert main(["import", str(path)]) == 0
    out, err = capsys.readouterr()
    assert "1 event" in out
    assert "a second list of trace events" in err


def test_a_damaged_import_says_so_and_advises_no_new_recording(written, store, capsys):
    assert main(["import", str(written([EVENT])), "--job", "mine"]) == 0
    (table,) = (store / "mine/operators").rglob("*.parquet")
    table.write_bytes(table.read_bytes()[:60])
    for command, named in (("describe", table.name), ("diagnose", "a file of operators")):  # a card is short
        capsys.readouterr()
        assert main([command, "mine"]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert named in out
        assert "DamagedError" not in out
        assert "holter run --" not in out
        assert "cannot be read" in out


def test_gpus_that_only_readings_tell_of_are_counted(tmp_path, store, capsys):
    reading = {"Type": "gpu", "Dimension": "GPUUtilization", "Value": 5.0, "NodeId": "algo-1"}
    lines = [json.dumps({**reading, "Name": f"gpu{n % 2}", "Timestamp": 1.7e9 + n // 2}) for n in range(6)]
    core = {**reading, "Type": "cpu", "Name": "cpu0", "Dimension": "CPUUtilization", "Timestamp": 1.7e9}
    lines.append(json.dumps(core))
    (path := tmp_path / "1700000000.algo-1.json").write_text("\n".join(lines))
    assert main(["import", str(path), "--job", "old"]) == 0
    capsys.readouterr()
    assert main(["describe", "old"]) == 0
    assert "memory, 2 GPUs\n" in capsys.readouterr().out
    page = tmp_path / "old.html"
    assert main(["report", "old", "-o", str(page)]) == 0
    assert "memory, 2 GPUs<" in page.read_text()
    assert "no GPU" not in page.read_text()
