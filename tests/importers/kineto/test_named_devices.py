"""Traces in which no category, but the name of a process or a thread says what ran on a device."""

from __future__ import annotations

import zipfile

import pytest

from holter.importers import UnreadableError


def meta(kind, name, pid, tid=None):
    event = {"ph": "M", "name": kind, "pid": pid, "args": {"name": name}}
    return event if tid is None else {**event, "tid": tid}


def slice_(name, pid, tid, ts, dur=5, **more):
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, **more}


def test_tensorflow_and_jax(written, imported):
    path = written(
        [
            meta("process_name", "/device:GPU:1", 2),
            meta("thread_name", "Stream #14(Compute)", 2, 14),
            meta("thread_name", "XLA Modules", 2, 1),
            meta("process_name", "/host:CPU", 701),
            slice_("fusion.3", 2, 14, 10, args={"correlation_id": "77"}),
            slice_("MemcpyD2H", 2, 14, 20, args={"num_bytes": "4096"}),
            slice_("jit_step", 2, 1, 10, 50),
            slice_("ExecuteReplicated", 701, 5, 1, 40),
        ]
    )
    tables, report = imported(path)
    (kernel,) = tables.table("kernels").to_rows()
    assert [kernel[k] for k in ("name", "device", "stream", "correlation")] == ["fusion.3", 1, 14, 77]
    (copy,) = tables.table("memory_operations").to_rows()
    assert (copy["kind"], copy["bytes"]) == ("d2h", 4096)
    assert sorted(tables.table("operators")["name"]) == ["ExecuteReplicated", "jit_step"]
    assert report.skipped == {}


def test_a_tpu_has_no_streams(written, imported):
    events = [
        meta("process_name", "/device:TPU:0", 3),
        meta("thread_name", "XLA Ops", 3, 2),
        meta("thread_name", "Steps", 3, 1),
        slice_("fusion", 3, 2, 10),
        slice_("4", 3, 1, 10),
    ]
    tables, _ = imported(written(events))
    assert tables.table("kernels")["name"].tolist() == ["fusion"]


def test_the_first_profiler_of_pytorch_and_rocprof(written, imported):
    events = [
        slice_("aten::mm", "CPU functions", 0, 1),
        slice_("sgemm", "CUDA functions", 1, 5),
        meta("process_name", "GPU0", 6),
        slice_("Cijk_gemm.kd", 6, 3, 9, args={"dev-id": "0", "queue-id": "3"}),
    ]
    tables, _ = imported(written(events))
    rows = [(r["name"], r["device"], r["stream"]) for r in tables.table("kernels").to_rows()]
    assert rows == [("sgemm", 1, -1), ("Cijk_gemm.kd", 0, 3)]
    assert tables.table("operators")["name"].tolist() == ["aten::mm"]


def test_times_as_text_keep_every_digit(written, imported):
    event = slice_("aten::mm", 1, 1, "1689158474936784.257", dur="2.125", cat="cpu_op")
    tables, report = imported(written([event, {**event, "ts": "soon"}]))
    (row,) = tables.table("operators").to_rows()
    assert (row["time"], row["duration"]) == (1689158474936784257, 2125)
    assert report.skipped  # the one that is no number


def test_an_archive_is_a_folder(written, imported, tmp_path):
    trace = written([slice_("aten::mm", 1, 1, 5, cat="cpu_op")], "rank3.json")
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.write(trace, "../../rank3.json")
        packed.writestr("notes.txt", "nothing")
    tables, report = imported(tmp_path / "all.zip")
    assert set(tables.table("operators")["rank"].tolist()) == {3}
    assert list(report.files) == [f"{tmp_path}/all.zip/../../rank3.json"]
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a.json", b" " * (80 << 20))
    with pytest.raises(UnreadableError, match="too many"):
        imported(bomb)
    (tmp_path / "cut.zip").write_bytes((tmp_path / "all.zip").read_bytes()[:40])
    with pytest.raises(UnreadableError, match=r"cut\.zip: the archive cannot be unpacked"):
        imported(tmp_path / "cut.zip")


@pytest.mark.parametrize(
    ("name", "says"),
    [("run.nsys-rep", "nsys export"), ("snapshot.pickle", "never read"), ("trace.json.zst", "zstd -d")],
)
def test_what_is_not_read_says_what_to_do(name, says, imported, tmp_path):
    (tmp_path / name).write_bytes(b"\x80\x04something")
    with pytest.raises(UnreadableError, match=says):
        imported(tmp_path / name)


def test_a_trace_by_any_name_where_it_is_asked_for(written, imported):
    tables, _ = imported(written([slice_("aten::mm", 1, 1, 5, cat="cpu_op")], "profile.out"))
    assert tables.table("operators")["name"].tolist() == ["aten::mm"]
