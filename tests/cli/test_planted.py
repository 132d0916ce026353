"""A store that others write executes nothing: a payload on every route, for every command that reads."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys

import pytest
from tests.cli.conftest import SOURCE, command, told
from tests.cli.planting import ROUTES, plant, plant_plug_ins

from holter.pages.job import pages
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
    # Text cells name the files that could not be read; they hold no text of the store.
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
