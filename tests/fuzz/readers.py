"""Every reader of what others may have written, each with sound files and the call that reads them."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sqlite3
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.agent.spool import Writer as SpoolWriter
from tests.cli.conftest import told
from tests.compat.profiler_output import write as write_profiler_output
from tests.dashboard.asking import ask
from tests.importers.test_mutations import kineto
from tests.importers.test_nsight_and_xplane import field, named

from holter.agent.drain.clock import Clock
from holter.agent.drain.drain import Drain
from holter.cli import main
from holter.cli.options import Refusal
from holter.cli.run.configuration import read_file
from holter.compat import smdebug
from holter.dashboard.server import application
from holter.importers import UnreadableError, import_paths
from holter.rules import BadRule
from holter.rules.own.parser import parse
from holter.store.job import create

DATA = Path(__file__).parents[1] / "importers/data"
JOB = "before"
EXPRESSIONS = (
    "avg_over(gpu.util, 5m) < 30 and max_over(cpu.util, 1m) > 5 for 10m",
    'rms(grad("decoder.*")) > 1e1 or not (loss < -3.5 * lr) for 3 steps',
)
TOML = """
interval = "500ms"
save = ["gradients@100"]
[rules.LowGPUUtilization]
threshold_p95 = 70
[[actions]]
on = "StepOutlier"
do = "webhook"
url = "https://example.org"
"""
PROFILER = {
    "ProfilingIntervalInMilliseconds": 500,
    "ProfilingParameters": {
        "DetailedProfilingConfig": '{"StartStep": 5, "NumSteps": 1}',
        "PythonProfilingConfig": '{"StartStep": 9, "ProfilerName": "cprofile", "cProfileTimer": "cpu_time"}',
    },
}


@dataclass(frozen=True)
class Reader:
    """Writes files into an empty folder; reads them after one of them was changed."""

    prepare: Callable[[Path], None]
    read: Callable[[Path], object]
    refuses: tuple[type[Exception], ...] = ()
    """Errors that say in words that the file is not readable."""


def _one(name: str, content: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(content) and None


def _import(folder: Path) -> None:
    """Import the one entry of a folder into a store beside it."""
    store = folder.parent / "imported"
    made = create(str(store), "job", command=[], interval_ms=500, rules=[], now_ns=0)
    import_paths([next(folder.iterdir())], made)


def _nsight(folder: Path) -> None:
    database = sqlite3.connect(folder / "run.sqlite")
    database.executescript("""
        CREATE TABLE StringIds (id INTEGER, value TEXT);
        INSERT INTO StringIds VALUES (1, 'sgemm'), (2, 'cudaLaunchKernel_v7000');
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
            start, "end", deviceId, streamId, correlationId, demangledName
        );
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100, 150, 1, 7, 5, 1);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, "end", globalTid, correlationId, nameId);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (90, 95, 16777218, 5, 2);
    """)
    database.close()


def _xplane(folder: Path) -> None:
    event = field(1, 1) + field(2, 5000) + field(3, 7000) + field(4, field(1, 9) + field(3, 77))
    line = field(3, field(1, 14) + field(2, "Stream #14(Compute)") + field(3, 1000) + field(4, event))
    plane = field(2, "/device:GPU:3") + line + named(4, 1, "gemm") + named(5, 9, "correlation_id")
    (folder / "host.xplane.pb").write_bytes(field(1, plane))


def _smdebug(folder: Path) -> None:
    with zipfile.ZipFile(DATA / "golden_raw.zip") as packed:
        packed.extractall(folder)


def _read_smdebug(folder: Path) -> None:
    trial = smdebug.create_trial(str(folder))
    for name in trial.tensor_names()[:3]:
        tensor = trial.tensor(name)
        for step in tensor.steps()[:3]:
            tensor.value(step)


def _profiler(folder: Path) -> None:
    write_profiler_output(folder / "profiler-output")


def _store(folder: Path) -> None:
    told(JOB, str(folder), ranks=1, cores=1, steps=12, samples=12)


def _commands(folder: Path) -> None:
    """Ask the commands that read a job; a refusal is a sentence and an exit code."""
    (job,) = (one for one in folder.iterdir() if one.is_dir())
    for words in (("describe", job.name, "--json"), ("jobs", "--json")):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            code = main([*words, "--store", str(folder)])
        if code not in (0, 1, 3, 4, 65) or (code and not said.getvalue().strip()):
            raise AssertionError(f"holter {words[0]} ends with {code}: {said.getvalue()}")


@functools.cache
def _application(store: str) -> Any:
    return application([store], "secret-token")


def _web(folder: Path) -> None:
    """Ask for what the file `request` says: a method, a path and a query."""
    method, _, rest = (folder / "request").read_bytes().partition(b" ")
    path, _, query = rest.partition(b"?")
    method_text = "POST" if method.startswith(b"P") else "GET"
    app = _application(str(folder.parent.parent / "sound/store"))
    answer = ask(app, b"/" + path.lstrip(b"/"), query, method=method_text)
    if answer.status >= 500:
        raise AssertionError(f"{answer.status}: {answer.body[:200]!r}")


def _prepare_web(folder: Path) -> None:
    _store(folder / "store")
    path = b"/api/v1/jobs/before/figures/utilization"
    (folder / "request").write_bytes(b"GET " + path + b"?store=0&from=0&to=5&width=100")


def _spool(folder: Path) -> None:
    writer = SpoolWriter(folder, rank=0)
    writer.steps(20)


def _expressions(folder: Path) -> None:
    for number, text in enumerate(EXPRESSIONS):
        (folder / str(number)).write_text(text)


def _parse(folder: Path) -> None:
    for path in sorted(folder.iterdir()):
        parse(path.read_bytes().decode("utf-8", "surrogateescape"))


def _sagemaker(folder: Path) -> None:
    read_file(str(folder / "p.json"))


READERS = {
    "Chrome trace": Reader(_one("trace.json", kineto()), _import, (UnreadableError,)),
    "Nsight Systems": Reader(_nsight, _import, (UnreadableError,)),
    "XPlane": Reader(_xplane, _import, (UnreadableError,)),
    "torchtitan log": Reader(
        _one("torchtitan.jsonl", (DATA / "torchtitan.jsonl").read_bytes()), _import, (UnreadableError,)
    ),
    "SageMaker profiler": Reader(_profiler, _import, (UnreadableError,)),
    "smdebug tensors (tfevents)": Reader(_smdebug, _read_smdebug, (ValueError, LookupError, OSError)),
    "store (JSON and Parquet)": Reader(_store, _commands),
    "spool": Reader(_spool, lambda folder: Drain(folder, Clock.now()).poll(final=True)),
    "configuration (TOML)": Reader(
        _one("holter.toml", TOML.encode()), lambda folder: read_file(str(folder / "holter.toml")), (Refusal,)
    ),
    "configuration (SageMaker)": Reader(
        _one("p.json", json.dumps(PROFILER).encode()), _sagemaker, (Refusal,)
    ),
    "expression": Reader(_expressions, _parse, (BadRule,)),
    "web address": Reader(_prepare_web, _web),
}
