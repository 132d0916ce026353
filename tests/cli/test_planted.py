"""A store to which others write runs nothing: a payload on every route, and every command that reads."""

from __future__ import annotations

import ast
import json
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.cli.conftest import SOURCE, command, told

from holter.dashboard.pages import pages
from holter.store.job import find

pytestmark = pytest.mark.slow

HUSH = "the-private-key-of-somebody"
CHILD = """
import asyncio, contextlib, io, json, os, sys, traceback
store, out, work = map(os.path.realpath, sys.argv[1:4])
plan = json.load(sys.stdin)
STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork", "os.forkpty", "os.spawn")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
allowed = (store + "/", out + "/", work + "/", "/dev/null")
wrong, now = [], ""

def look(event, given):
    if event in STARTS:
        wrong.append(f"{now}: {event} {given[0]!r}")
    elif event == "open" and isinstance(given[0], (str, bytes)):
        path = os.path.realpath(os.fsdecode(given[0]))
        writes = given[2] & WRITES or set(str(given[1] or "")) & set("wax+")
        if writes and not path.startswith(allowed):
            wrong.append(f"{now}: writes {path}")
    elif event == "compile" and given[1] and str(given[1]).startswith((store, work + "/planted")):
        wrong.append(f"{now}: compiles {given[1]!r}")
    elif event in ("pickle.find_class", "marshal.loads") and event.startswith("pickle"):
        wrong.append(f"{now}: unpickles {given!r}")

from holter.cli import main
from holter.dashboard.server import application
sys.addaudithook(look)
said = {}

def here(words):
    with contextlib.redirect_stdout(io.StringIO()) as o, contextlib.redirect_stderr(io.StringIO()) as e:
        try:
            code = main(words)
        except BaseException:
            code = traceback.format_exc()
    return code, o.getvalue() + e.getvalue()

async def page(app, path):
    told, body = [], []
    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}
    async def send(message):
        body.append(message.get("body", b""))
        told.append(message.get("status"))
    headers = [(b"host", b"127.0.0.1:8080"), (b"authorization", b"Bearer token")]
    path, _, query = path.partition("?")
    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
             "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": query.encode(),
             "headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080)}
    await app(scope, receive, send)
    return told[0], b"".join(body).decode(errors="replace")

for now, words in plan["commands"]:
    said[now] = here(words)
app = application([store], "token", ["127.0.0.1"])
for now, path in plan["pages"]:
    try:
        said[now] = asyncio.run(page(app, path))
    except Exception:
        said[now] = ("", traceback.format_exc())
print(json.dumps({"said": said, "wrong": wrong}))
"""
PAGES = (
    *(f"/jobs/{{job}}/{name.replace('_', '-')}" for name in pages()),
    *(
        f"/api/v1/jobs/{{job}}{name}"
        for name in ("", "/issues", "/figures", "/tensors", "/timeline", "/report")
    ),
)
FORMATS = ("chrome", "csv", "json", "otlp", "parquet", "perfetto", "pstats", "speedscope", "tensorboard")
ROUTES = (
    "rules", "rule-texts", "actions", "evaluations", "manifest", "messages", "tables", "tensors", "traces",
    "configuration", "report", "plug-ins", "links", "control",
)  # fmt: skip


class Payload:
    """What runs when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self):
        return (os.system, (f"touch {self.canary}",))


def code(canary: Path) -> str:
    """Return a module that runs when it is imported, and is a rule besides."""
    return (
        f"open({str(canary)!r}, 'w').close()\nfrom holter.rules import Rule\n"
        "class Evil(Rule):\n    reads = ('steps',)\n    def evaluate(self, window):\n        yield from ()\n"
    )


def planted_action(canary: Path) -> dict[str, object]:
    """Return an action as a manifest holds it, which would run a command."""
    return {
        "name": "run", "action": "run_command", "options": {"argv": ["touch", str(canary)]}, "on": [],
        "severity": "info", "dry_run": False,
    }  # fmt: skip


def plant(route: str, folder, canary: Path, home: Path) -> None:
    """Put a payload into a job, by one route."""
    path = Path(folder.url)
    evil = path / "payload.py"
    shell = f"$(touch {canary}); `touch {canary}`; | touch {canary}"
    text = (
        f"<script>x</script>{shell}\n!touch {canary}\n%%bash\ntouch {canary}\n{{0.__class__}}__import__('os')"
    )
    rotten = pickle.dumps(Payload(canary))
    if route in ("rules", "actions", "plug-ins", "evaluations"):
        evil.write_text(code(canary))
    if route == "rules":
        folder.update(rules=[{"name": "x", "rule": f"{evil}:Evil", "parameters": {}}])
    elif route == "rule-texts":
        evil.write_text(code(canary))
        folder.update(rules=[f"{evil}:Evil", str(evil), {"name": f"{evil}:Evil"}, ["x"], None, 3])
    elif route == "actions":
        folder.update(rules=[{"name": "DataloaderBottleneck"}], actions=[planted_action(canary)])
    elif route == "evaluations":
        rule = {"name": f"{evil}:Evil", "rule": f"{evil}:Evil", "status": "IssuesFound", "issues": []}
        folder.write_evaluations({"schema": 1, "rules": [rule], "actions": {"run": {}}, "progress": {}})
    elif route == "manifest":
        folder.update(
            command=["sh", "-c", text], name=text, launch={"id": text}, recorded={"code": {"revision": text}},
            verdict={"headline": text}, tags={text: text}, stopped_by=text, framework={"name": text},
        )  # fmt: skip
        folder.write_node("n", {"node": text, "cpus": 1})
    elif route == "messages":
        from holter.store.writer import Writer

        writer, detail = Writer(folder, "n"), json.dumps({"type": text, "message": text, "traceback": text})
        for kind in ("exception", "fault", "hang", "control", "window", "stacks"):
            now = folder.manifest()["start"] + 1
            row = {"time": [now], "rank": [0], "kind": [kind], "name": [text], "detail": [detail]}
            writer.append("events", row)
        writer.close()
    elif route == "tables":
        import pyarrow
        import pyarrow.parquet

        field = pyarrow.field(
            "time", pyarrow.int64(), metadata={
                "ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": rotten
            },
        )  # fmt: skip
        own = pyarrow.table([pyarrow.array([1])], schema=pyarrow.schema([field], metadata={"pandas": rotten}))
        target = path / "scalars/node=n/0000000000000000001-00000000-00000000.parquet"
        target.parent.mkdir(parents=True)
        pyarrow.parquet.write_table(own, target)
        (target.parent / "0000000000000000002-00000001-00000001.parquet").write_bytes(rotten)
    elif route == "tensors":
        raw = path / "tensors-raw/node=n/rank=0"
        raw.mkdir(parents=True)
        (raw / "000000001-train.safetensors").write_bytes(rotten)
        with zipfile.ZipFile(raw / "000000002-train.safetensors", "w") as archive:
            archive.writestr("archive/data.pkl", rotten)
        (raw / "000000003-train.safetensors").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr': '|O'}" + rotten)
        (path / "tensors.json").write_bytes(rotten)
    elif route == "traces":
        for name in ("trace.json", "trace.pt", "trace.pkl", "stats.pstats", "snapshot.pickle", "a.nsys-rep"):
            (path / name).write_bytes(rotten)
    elif route == "configuration":
        settings = (
            f'rule = ["{evil}:Evil"]\n[[actions]]\narmed = true\ndo = ["run_command:argv=touch {canary}"]\n'
        )
        evil.write_text(code(canary))
        for name in ("holter.toml", "../holter.toml", "pyproject.toml"):
            (path / name).write_text(settings)
        (path / "profilerconfig.json").write_text(json.dumps({"RuleConfigurations": [str(evil)]}))
    elif route == "report":
        for name in ("description.bin", "heatmap.bin", "small.zst", "otlp.json", "tiles/0.bin"):
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_bytes(rotten)
        kept = path / "rule-output/ProfilerReport-1/profiler-output"
        kept.mkdir(parents=True)
        (kept / "profiler-report.ipynb").write_bytes(rotten)
    elif route == "plug-ins":
        plant_plug_ins(path, canary)
    elif route == "links":
        for name in ("evaluations.json", "control.json", "nodes/x.json", "tensors.json", "otlp.json"):
            (path / name).unlink(missing_ok=True)
            (path / name).symlink_to(home / "private.json")
        for name in ("description.bin", "heatmap.bin"):
            (path / name).symlink_to(home / "made-by-a-link")
        for name in ("tiles", "rule-output", "tensors"):
            shutil.rmtree(path / name, ignore_errors=True)
            (path / name).symlink_to(home)
    elif route == "control":
        order = {"python": str(evil), "operators": str(evil), "argv": ["touch", str(canary)]}
        folder.write_control({"profile": order, "stop": {"by": text}, "run": str(evil), "rules": [str(evil)]})


def plant_plug_ins(path: Path, canary: Path) -> None:
    """Put into a folder what Python imports by itself where the folder is on its path."""
    names = ("sitecustomize", "usercustomize", "conftest", "evil", "numpy", "rich", "duckdb", "tomllib")
    for name in names:
        (path / f"{name}.py").write_text(code(canary))
    (path / "x.pth").write_text(f"import os; os.system('touch {canary}')\n")
    package = path / "evil-1.0.dist-info"
    package.mkdir(exist_ok=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    points = "[holter.rules]\nEvil = evil:Evil\n[holter.actions]\nevil = evil:Evil\n"
    (package / "entry_points.txt").write_text(points)


@pytest.fixture(scope="module")
def looked(tmp_path_factory):
    """Run every command that reads over a store with a payload on every route; return what was said."""
    root = tmp_path_factory.mktemp("planted")
    store, out, home, work = (root / name for name in ("store", "out", "home", "work"))
    for folder in (store, out, home, work):
        folder.mkdir()
    (home / "private.json").write_text(json.dumps({"rules": [{"name": HUSH, "rule": HUSH}], "node": HUSH}))
    before = {path: path.stat().st_mtime_ns for path in home.iterdir()}
    told("before", str(store), ranks=1, cores=1, steps=60, samples=120)
    commands, addresses = [], [("jobs page", "/"), ("list", "/api/v1/jobs"), ("metrics", "/metrics")]
    for route in ROUTES:
        shutil.copytree(store / "before", store / route)
        plant(route, find(str(store), route), root / f"canary-{route}", home)
        given = ["--store", str(store)]
        commands += [
            (f"{route}: {name}", [*words, *given])
            for name, words in {
                "describe": ["describe", route, "--json"],
                "describe as text": ["describe", route],
                "diagnose": ["diagnose", route],
                "rules run": ["rules", "run", route],
                "rules of the catalogue": ["rules", "run", route, "DataloaderBottleneck"],
                "report": ["report", route, "-o", str(out / f"{route}.html")],
                "notebook": ["report", route, "-o", str(out / f"{route}.ipynb")],
                "compare": ["compare", "before", route],
                "check": ["check", route, "--baseline", "before"],
                **{
                    f"export {form}": ["export", route, "--format", form, "-o", str(out / f"{route}-{form}")]
                    for form in FORMATS
                },
            }.items()
        ]
        addresses += [(f"{route}: page {page}", page.format(job=route)) for page in PAGES]
    for name in ("trace.json", "trace.pt", "trace.pkl", "stats.pstats", "snapshot.pickle", "a.nsys-rep"):
        into = ["--store", str(work / "imported")]
        commands.append((f"traces: import {name}", ["import", str(store / "traces" / name), *into]))
    commands += [("jobs", ["jobs", "--store", str(store)]), ("rules list", ["rules", "list"])]
    plan = {"commands": commands, "pages": addresses}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLTER_", "PYTHON"))}
    environment = {
        **kept, "HOME": str(work), "XDG_CACHE_HOME": str(work), "TMPDIR": str(work),
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    script = f"import sys; sys.path.insert(0, {str(SOURCE)!r})\n{CHILD}"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script, str(store), str(out), str(work)],
        input=json.dumps(plan), capture_output=True, text=True, timeout=900, check=False,
        cwd=store / "plug-ins", env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return {"root": root, "out": out, "store": store, "home": home, "before": before, "plan": plan, **found}


@pytest.mark.parametrize("route", ROUTES)
def test_nothing_of_a_store_runs(looked, route):
    assert not (looked["root"] / f"canary-{route}").exists()


def test_no_program_starts_and_nothing_is_written_outside(looked):
    assert looked["wrong"] == []


def test_all_commands_did_their_work(looked):
    """A command that refuses at once would prove nothing."""
    said = looked["said"]
    assert set(said) == {name for name, _ in [*looked["plan"]["commands"], *looked["plan"]["pages"]]}
    assert [name for name, (_, text) in said.items() if "Traceback" in text] == []
    for name in ("describe", "diagnose", "rules of the catalogue", "report", "export json", "export parquet"):
        assert said[f"messages: {name}"][0] in (0, 3), said[f"messages: {name}"]
    assert [(name, code) for name, (code, _) in said.items() if " page" in name and code != 200] == []
    assert "data" in said["messages: diagnose"][1]


def test_a_rule_of_a_file_is_named_and_not_run(looked):
    path = looked["store"] / "rules/payload.py"
    text = " ".join(looked["said"]["rules: rules run"][1].split())
    assert f"rule x of this job is defined in {path}; name it with --rule {path}:Evil to run it" in text


def test_no_link_is_followed(looked):
    assert {path: path.stat().st_mtime_ns for path in looked["home"].iterdir()} == looked["before"]
    assert [name for name, (_, text) in looked["said"].items() if HUSH in text] == []
    written = [path for path in looked["out"].rglob("*") if path.is_file()]
    assert written
    assert [path.name for path in written if HUSH.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("route", ROUTES)
def test_a_notebook_holds_no_code_of_the_store(looked, route):
    path = looked["out"] / f"{route}.ipynb"
    cells = json.loads(path.read_text())["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    assert code
    for source in code:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                assert [one.name for one in node.names] == ["holter"]
            elif isinstance(node, ast.Call):
                assert ast.unparse(node.func).startswith(("holter.open", "job."))
    assert "touch" not in json.dumps([cell["source"] for cell in cells if cell["cell_type"] != "code"])


@pytest.mark.parametrize("words", [("rules", "list"), ("jobs", "--store", ".")], ids=lambda words: words[0])
def test_plug_ins_of_the_current_folder_are_not_loaded(tmp_path, words):
    canary = tmp_path / "canary"
    folder = tmp_path / "here"
    folder.mkdir()
    plant_plug_ins(folder, canary)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HOLTER_", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-m", "holter", *words],
        cwd=folder, env=kept, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "Evil" not in done.stdout
    assert not canary.exists(), done.stderr


TAMPERS = """
import json, os, sys, time
path, canary = sys.argv[1] + "/job.json", sys.argv[2]
evil = os.path.abspath("evil.py")
rule = f"open({canary!r} + '-rule', 'w').close()\\nfrom holter.rules import Rule\\nclass Evil(Rule): pass\\n"
open(evil, "w").write(rule)
action = {"name": "run", "action": "run_command", "options": {"argv": ["touch", canary]}, "on": [],
          "severity": "info", "dry_run": False}
import holter
for step in range(80):
    if step in (0, 79):
        told = json.load(open(path))
        told["rules"] += [{"name": "x", "rule": f"{evil}:Evil", "parameters": {}}]
        told["actions"] = [action]
        json.dump(told, open(path, "w"))
    with holter.step():
        holter.log(loss=float("nan") if step > 40 else 1.0)
        time.sleep(0.1)
"""


def test_a_manifest_that_changes_while_the_job_runs_runs_nothing(tmp_path):
    canary = tmp_path / "canary"
    (tmp_path / "tampers.py").write_text(TAMPERS)
    job = tmp_path / "holter-jobs/a"
    own = ("--action", f"run_command:argv='touch {tmp_path}/own'", "--rule", "NonFiniteLoss")
    done = command("run", "--job", "a", *own, "--", sys.executable, "tampers.py", str(job), str(canary))
    assert done.returncode == 0, done.stderr
    issues = {r["name"]: r["issues"] for r in json.loads((job / "evaluations.json").read_text())["rules"]}
    assert issues["NonFiniteLoss"], "what an action would follow"
    assert (tmp_path / "own").exists(), "what the command line says is done"
    assert not canary.exists()
    assert not (tmp_path / "canary-rule").exists()
    shown = command("describe", "a", "--json")
    assert shown.returncode == 0
    again = command("rules", "run", "a")
    assert not canary.exists()
    assert not (tmp_path / "canary-rule").exists()
    assert "name it with --rule" in again.stderr
