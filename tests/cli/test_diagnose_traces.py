"""`holter diagnose TRACE`: files and folders of other tools, judged without a job."""

from __future__ import annotations

import gzip
import html
import json
from pathlib import Path

import jsonschema
import pytest
from tests.analysis.jobs.worker_timelines import pipeline

import holter.views as holter_views

US = 1
MS = 1000


class Kineto:
    """Writes a small trace of torch.profiler; times in microseconds."""

    def __init__(self, rank: int = 0, ranks: int = 1) -> None:
        self.events: list[dict] = []
        self.rank, self.ranks, self.correlation = rank, ranks, 0

    def host(self, name: str, at: float, length: float, category: str = "cpu_op", **args: object) -> None:
        event = {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, "ts": at, "dur": length}
        self.events.append({**event, "args": args})

    def kernel(
        self, name: str, at: float, length: float, *, launched: float, stream: int = 7, **args: object
    ) -> None:
        self.correlation += 1
        self.host("cudaLaunchKernel", launched, 5, "cuda_runtime", correlation=self.correlation)
        given = {"device": 0, "stream": stream, "correlation": self.correlation, **args}
        event = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": at, "dur": length}
        self.events.append({**event, "args": given})

    def write(self, path: Path) -> Path:
        document = {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
            "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": self.ranks},
            "traceEvents": self.events,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(document)
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
        return path


def waiting_for_batches() -> Kineto:
    trace = Kineto()
    for step in range(6):
        begin = step * 10 * MS
        trace.host(f"ProfilerStep#{step}", begin, 10 * MS, "user_annotation")
        name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        trace.host(name, begin, 6 * MS, "user_annotation")
        for i in range(10):
            at = begin + 6 * MS + i * 300
            trace.kernel("ampere_sgemm_128x64_tn", at + 10, 290, launched=at)
    return trace


def late_rank(rank: int) -> Kineto:
    """One of four ranks; rank 2's host asks for each collective 3 ms after the others' hosts."""
    trace = Kineto(rank, 4)
    for step in range(12):
        begin = step * 10 * MS
        trace.host(f"ProfilerStep#{step}", begin, 10 * MS, "user_annotation")
        for i in range(4):
            trace.kernel("ampere_sgemm_128x64_tn", begin + i * 500 + 10, 490, launched=begin + i * 500)
        start = begin + 2 * MS + (3 * MS if rank == 2 else rank * 5)
        trace.kernel(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, begin + 6 * MS - start, launched=start - 9
        )
        trace.kernel("ampere_sgemm_128x64_tn", begin + 6 * MS, 4 * MS, launched=begin + 5 * MS)
    return trace


def test_a_trace_gets_a_verdict_and_a_card(holter, tmp_path):
    waiting_for_batches().write(tmp_path / "trace.json.gz")
    shown = holter("diagnose", "trace.json.gz")
    assert shown.code == 0
    assert "Data loading holds the accelerator up: it idles 60 % of each step (10 ms)" in shown.out
    assert "num_workers" in shown.out
    assert len(shown.out.splitlines()) <= 20
    assert max(map(len, shown.out.splitlines())) <= 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trace.json.gz"]


def test_programs_get_one_document(holter, tmp_path):
    waiting_for_batches().write(tmp_path / "trace.json")
    document = json.loads(holter("diagnose", "trace.json", "--json").out)
    assert document["verdict"]["suspect"] == "data_pipeline"
    assert abs(sum(document["breakdown"].values()) - 100) < 0.5
    assert document["trace"]["devices"] == ["NVIDIA H100 80GB HBM3"]
    assert {part["definition"] for part in document["trace"]["breakdowns"]} == {"all", "hta", "tracelens"}
    (kernel,) = document["operators"]["gpu"]
    assert (kernel["name"], kernel["count"], kernel["total_ms"]) == ("ampere_sgemm_128x64_tn", 60, 17.4)
    assert document["trace"]["precision"] == {"fp32": 100.0}


def test_a_folder_of_ranks_tells_who_is_late(holter, tmp_path):
    for rank in range(4):
        late_rank(rank).write(tmp_path / "ranks" / f"rank{rank}.pt.trace.json")
    document = json.loads(holter("diagnose", "ranks", "--json").out)
    assert document["ranks"] == [0, 1, 2, 3]
    assert document["verdict"]["suspect"] == "communication"
    assert document["verdict"]["sentence"].startswith("Rank 2 holds the others up: it is late at 12 of 12")
    (late,) = document["trace"]["late_ranks"]
    assert (late["rank"], late["cause"]) == (2, "host")


def test_several_files_are_one_job(holter, tmp_path):
    paths = [late_rank(rank).write(tmp_path / f"worker{rank}.json") for rank in range(4)]
    document = json.loads(holter("diagnose", *(path.name for path in paths), "--json").out)
    assert document["ranks"] == [0, 1, 2, 3]
    assert document["job"]["name"] == "worker0.json and 3 more"


def test_what_cannot_be_read_says_where_and_why(holter, tmp_path):
    (tmp_path / "notes.txt").write_text("no trace")
    holter("diagnose", "notes.txt").refused(65, "notes.txt")
    (tmp_path / "cut.json").write_text('{"traceEvents": [{"ph": "X", "ts"')
    assert holter("diagnose", "cut.json").code in (0, 65)
    (tmp_path / "empty").mkdir()
    holter("diagnose", "./empty").refused(65, "./empty")


def test_what_is_not_there_is_not_found(holter, tmp_path):
    waiting_for_batches().write(tmp_path / "trace.json")
    holter("diagnose", "gone.json").refused(4, "gone.json")
    holter("diagnose", "trace.json", "gone.json").refused(4, "gone.json")


def test_a_trace_without_kernels_is_no_reason_to_guess(holter, tmp_path):
    trace = Kineto()
    trace.host("aten::mm", 0, 100)
    trace.host("aten::add", 200, 50)
    trace.write(tmp_path / "cpu.json")
    document = json.loads(holter("diagnose", "cpu.json", "--json").out)
    assert document["verdict"]["suspect"] == "inconclusive"
    assert "aten::mm" in document["verdict"]["sentence"]
    assert document["breakdown"] is None


@pytest.mark.parametrize("category", ["kernel", "cpu_op"])
def test_events_without_duration_have_no_shares_of_time(holter, tmp_path, category):
    trace = Kineto()
    for name in ("a", "b"):
        trace.host(name, 10, 0, category, device=0, stream=7)
    path = trace.write(tmp_path / "moment.json")
    answer = holter("diagnose", str(path))
    assert "All events of the trace have the same time and no duration" in answer.out
    assert "0 %" not in answer.out
    assert "0.0 %" not in holter("diagnose", str(path), "--detail").out.partition("Operators")[0]
    assert json.loads(holter("diagnose", str(path), "--json").out)["breakdown"] is None
    assert holter("import", str(path), "--job", "moment").code == 0
    assert holter("report", "moment").code == 0


def test_an_imported_job_gets_the_same_verdict(holter, tmp_path):
    waiting_for_batches().write(tmp_path / "trace.json")
    assert holter("import", "trace.json", "--job", "slow").code == 0
    of_job = json.loads(holter("diagnose", "slow", "--json").out)
    of_file = json.loads(holter("diagnose", "trace.json", "--json").out)
    assert of_job["verdict"] == of_file["verdict"]


def test_all_that_is_told_of_an_imported_job_has_its_verdict(holter, tmp_path):
    trace = waiting_for_batches().write(tmp_path / "slow.pt.trace.json")
    assert holter("import", str(trace), "--job", "slow").code == 0
    verdict = json.loads(holter("diagnose", "slow", "--json").out)["verdict"]
    described = json.loads(holter("describe", "slow", "--json").out)
    assert verdict["suspect"] == "data_pipeline"
    assert described["verdict"] == verdict
    assert sum(described["breakdown"].values()) == pytest.approx(100)
    assert described["breakdown"]["data_loading"] > 50
    published = Path(holter_views.__file__).with_name("description.schema.json").read_text()
    jsonschema.validate(described, json.loads(published))
    assert "of the accelerators' time" in holter("describe", "slow").out
    page = holter("report", "slow", "-o", "-").out
    assert verdict["sentence"] in html.unescape(page)
    assert "A trace holds no samples of the machine" in page


def test_shares_of_the_host_are_of_all_it_did(holter, tmp_path):
    """Much of it lies before the first kernel, and on several threads: of the kernels' time it is more."""
    trace = Kineto()
    for thread in range(4):
        trace.host("aten::uniform_", 0, 90 * MS)
        trace.events[-1]["tid"] = 10 + thread
    trace.host("aten::mm", 100 * MS, 40 * MS)
    trace.kernel("sgemm", 101 * MS, 1 * MS, launched=100 * MS)
    trace.write(tmp_path / "trace.json")
    shares = {
        row["name"]: row["pct"]
        for row in json.loads(holter("diagnose", "trace.json", "--json").out)["operators"]["cpu"]
    }
    assert shares == pytest.approx({"aten::uniform_": 90, "aten::mm": 10}, abs=0.1)


def test_detail_shows_what_lies_behind_the_card(holter, tmp_path):
    trace = Kineto()
    for step in range(6):
        begin = step * 10 * MS
        trace.host(f"ProfilerStep#{step}", begin, 10 * MS, "user_annotation")
        for i in range(20):
            at = begin + i * 400
            shapes = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["c10::BFloat16"] * 2}
            trace.host("aten::mm", at, 20, **shapes)
            trace.kernel("sm90_xmma_gemm_bf16bf16_bf16f32_tn", at + 30, 300, launched=at + 5)
    trace.write(tmp_path / "trace.json")
    plain, detail = holter("diagnose", "trace.json"), holter("diagnose", "trace.json", "--detail")
    assert "MFU" in plain.out
    assert len(plain.out.splitlines()) <= 20
    assert "Roofline" not in plain.out
    said = (
        "Evidence", "Operators", "Critical path", "as HTA defines it", "Roofline", "aten::mm: 120 x",
        "From launch to run", "Queues of the streams", "tracelens: rank 0", "TensorBoard plug-in",
    )  # fmt: skip
    for words in said:
        assert words in detail.out, words
    document = json.loads(holter("diagnose", "trace.json", "--json").out)
    # 2 * 512^3 FLOP, 20 times in each 10 ms, of 989 TFLOP/s.
    assert document["trace"]["mfu"]["pct"] == pytest.approx(100 * 20 * 2 * 512**3 / 0.01 / 989e12, rel=0.02)
    assert document["trace"]["detail"]["launches"]["count"] == 120


def test_a_trace_of_which_nothing_is_left_is_refused_with_the_reason(holter) -> None:
    Path("cut.json").write_text('{"traceEvents":[{"ph":"X","ts":1,')
    answer = holter("diagnose", "cut.json", "--json")
    assert (answer.code, answer.out) == (65, "")
    assert "cut.json" in answer.err


def workers(path: Path, heavy: float) -> None:
    """Write the timeline of a pipeline whose last stage takes `heavy` times as long as the others."""
    operators, tracks = pipeline(lambda _, stage, *__: 10 * (heavy if stage == 2 else 1))
    place = {row["thread"]: row["process"] for row in tracks.to_rows() if row["kind"] == "thread"}
    events = [
        {"ph": "M", "pid": row["process"], "name": f"{row['kind']}_name", "args": {"name": row["name"]}}
        | ({"tid": row["thread"]} if row["kind"] == "thread" else {})
        for row in tracks.to_rows()
    ]
    for row in operators.to_rows():
        event = {"ph": "X", "cat": row["name"], "name": row["name"], "args": json.loads(row["detail"])}
        where = {"pid": place[row["thread"]], "tid": row["thread"]}
        events.append({**event, **where, "ts": row["time"] / 1e3, "dur": row["duration"] / 1e3})
    path.write_text(json.dumps(events))


def test_a_timeline_of_workers_says_how_fast_the_job_is_without_the_cause(holter, tmp_path):
    workers(tmp_path / "timeline.json", 2)
    shown = holter("diagnose", "timeline.json").out
    assert "Stage 2 of the pipeline computes" in shown
    assert "With equal stages the job" in shown
    document = json.loads(holter("diagnose", "timeline.json", "--json").out)
    replay = document["what_if"]
    assert (replay["workers"], replay["causes"][0]["kind"]) == (9, "stage")
    assert replay["causes"][0]["step_ms"] == document["verdict"]["advice"][0]["expected_step_ms"]
    assert set(replay["by_stage"]) == {"0", "1", "2"}
    workers(tmp_path / "twin.json", 1)
    document = json.loads(holter("diagnose", "twin.json", "--json").out)
    assert document["verdict"]["suspect"] == "inconclusive"
    assert abs(document["what_if"]["slowdown"] - 1) < 0.001
