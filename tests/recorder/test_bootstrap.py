"""Every Python child is found, however it is started, and none is harmed: isolated, old, or broken."""

import os
import subprocess
import sys
import venv
import zipapp
from pathlib import Path

import pytest
from tests.recorder.reading import BOOTSTRAP, SOURCE, environment, only, pythons, read, run

RECORDS = "import holter\nwith holter.annotate('here'): pass\nprint('done')"


def names(spool):
    return [s.name for p in read(spool).values() for s in p.spans()]


def test_the_scripts_own_sitecustomize_runs_after_ours(spool, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.mine = __name__, __file__")
    env = environment(spool)
    env["PYTHONPATH"] += os.pathsep + str(tmp_path)
    done = run(
        spool,
        "import sys, sitecustomize; print(sys.mine[0], sys.modules['sitecustomize'].__file__)\n" + RECORDS,
        env=env,
    )
    assert done.stdout == f"sitecustomize {tmp_path / 'sitecustomize.py'}\ndone\n", done.stderr
    assert names(spool) == ["here"]


@pytest.mark.parametrize(
    "body", ["raise RuntimeError('mine')", "import a_module_that_is_not_there", "syntax error"]
)
def test_a_broken_sitecustomize_is_as_broken_as_without_us(spool, tmp_path, body):
    (tmp_path / "sitecustomize.py").write_text(body)
    env = environment(spool)
    env["PYTHONPATH"] += os.pathsep + str(tmp_path)
    recorded = run(spool, RECORDS, env=env)
    alone = run(None, "print('done')", env=environment(PYTHONPATH=tmp_path))
    assert (recorded.returncode, recorded.stdout) == (alone.returncode, alone.stdout) == (0, "done\n")
    assert recorded.stderr == alone.stderr != ""


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-s", "-B", "-O", "-u"])
def test_options_that_hide_the_path_leave_the_script_alone(spool, option):
    done = run(spool, "print('done')", option)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_script_that_hides_the_path_but_imports_holter_itself(spool):
    done = run(
        spool, f"import sys; sys.path.append({str(SOURCE)!r})\n{RECORDS}\nprint(sys.meta_path[0])", "-E"
    )
    assert done.stderr == ""
    assert names(spool) == ["here"]
    assert "ImportWatch" in done.stdout  # frameworks are watched for, too


@pytest.mark.parametrize("version", pythons())
def test_every_supported_python_records(spool, version):
    """The core of the recorder in one go: spans, steps, scalars, threads, forks, an exception."""
    code = """
import os, sys, threading
import holter
@holter.annotate("work")
def work(): pass
for i in range(3):
    with holter.step():
        work()
        holter.log(loss=i)
t = threading.Thread(target=work); t.start(); t.join()
if os.fork() == 0:
    work()
    os._exit(0)
os.wait()
sys.stdout.write(sys.version.split()[0])
raise ValueError("at the end")
"""
    done = run(spool, code, "-W", "ignore::DeprecationWarning", python=pythons()[version])
    assert done.returncode == 1
    assert "holter" not in done.stderr, done.stderr
    child, parent = sorted(read(spool).values(), key=lambda p: len(p.spans()))
    assert [s.name for s in child.spans()] == ["work"]
    assert parent.identity["python"] == done.stdout
    assert done.stdout.startswith(version)
    assert [s.step for s in parent.spans("step")] == [0, 1, 2]
    assert [s.value for s in parent.spans("scalar")] == [0.0, 1.0, 2.0]
    assert len(parent.spans("annotation")) == 4
    assert sorted(parent.threads) == [0, 1]
    assert parent.facts("exception")[0]["message"] == "at the end"
    assert len(parent.facts("end")) == 1


OLD = [
    path
    for minor in ("2.7", "3.6", "3.7", "3.8", "3.9")
    for path in sorted(
        (Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions").glob(
            f"{minor}.*/bin/python"
        )
    )
]


@pytest.mark.skipif(not OLD, reason="no Python older than the recorder supports is installed here")
@pytest.mark.parametrize("python", OLD, ids=lambda path: path.parts[-3])
def test_old_pythons_run_unrecorded_and_chain(spool, tmp_path, python):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.mine = 'mine'")
    env = environment(spool)
    env["PYTHONPATH"] += os.pathsep + str(tmp_path)
    done = run(spool, "import sys; sys.stdout.write(sys.mine)", python=str(python), env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "mine", "")
    assert list(spool.iterdir()) == []
    bare = run(spool, "import sys; sys.stdout.write('bare')", python=str(python))
    assert (bare.returncode, bare.stdout, bare.stderr) == (0, "bare", "")


def test_module_script_and_zipapp(spool, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(RECORDS)
    zipapp.create_archive(tmp_path / "package", tmp_path / "app.pyz")
    for command in (["-m", "package"], ["package/__main__.py"], ["app.pyz"]):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment(spool),
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.stdout, done.stderr) == ("done\n", "")
    assert names(spool) == ["here"] * 3


def test_a_virtual_environment_without_holter(spool, tmp_path):
    venv.create(tmp_path / "venv", with_pip=False)
    done = run(spool, RECORDS, python=str(tmp_path / "venv" / "bin" / "python"))
    assert (done.stdout, done.stderr) == ("done\n", "")
    assert names(spool) == ["here"]


def test_holter_brings_nothing_else_onto_the_path(spool):
    path = "import sys; print(sys.path)"
    alone = run(spool, path, env={**os.environ, "PYTHONPATH": ""})
    assert run(spool, path).stdout == alone.stdout


def test_a_read_only_installation(spool, tmp_path):
    installed = tmp_path / "installed"
    installed.mkdir()
    if subprocess.run(["mount", "--bind", "-o", "ro", SOURCE, installed], check=False).returncode:
        pytest.skip("mounting read-only needs root")
    try:
        env = environment(spool, PYTHONPATH=installed / "holter" / "recorder" / "bootstrap")
        done = run(spool, RECORDS + "\nprint(holter.__file__)", env=env)
    finally:
        subprocess.run(["umount", "-l", installed], check=True)
    assert (done.stdout, done.stderr) == (f"done\n{installed / 'holter' / '__init__.py'}\n", "")
    assert names(spool) == ["here"]


def test_spool_that_is_not_there_is_one_line_on_stderr(tmp_path):
    done = run(
        tmp_path / "missing", RECORDS + "\nfor _ in range(1000):\n  with holter.annotate('more'): pass"
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("\n") == 1
    assert "No such file" in done.stderr


def test_nothing_without_a_spool_and_nothing_when_disabled(spool):
    for env in (
        environment(PYTHONPATH=BOOTSTRAP),
        environment(spool, HOLTER_DISABLE=1),
        environment(HOLTER_SPOOL="", PYTHONPATH=BOOTSTRAP),
    ):
        code = "import sys; print([m for m in sys.modules if 'holter' in m], sys.meta_path)"
        done = run(None, code, env=env)
        assert done.stdout.startswith("[] ")
        assert "ImportWatch" not in done.stdout
        assert done.stderr == ""
    assert list(spool.iterdir()) == []


def test_children_that_import_no_framework_load_almost_nothing(spool):
    code = "import sys; print('\\n'.join(sorted(sys.modules)))"
    alone = set(run(None, code, "-S", env=environment(PYTHONPATH=BOOTSTRAP)).stdout.split())
    load = f"import sys; sys.path.insert(0, {str(BOOTSTRAP)!r}); import sitecustomize\n"
    ours = set(run(spool, load + code, "-S").stdout.split()) - alone
    assert "holter.recorder.imports" in ours
    assert {m for m in ours if "holter" not in m} <= {
        "__future__",
        "atexit",
        "gc",
        "importlib",
        "importlib.machinery",
        "sitecustomize",
        "warnings",
        "_warnings",
        "importlib._bootstrap",
        "importlib._bootstrap_external",
        "os",
        "stat",
        "_stat",
        "posixpath",
        "genericpath",
        "os.path",
        "_collections_abc",
        "abc",
        "_abc",
    }
    assert not ours & {"json", "threading", "struct", "mmap", "typing", "signal", "re", "enum"}


def test_environment_reaches_children_of_children(spool, tmp_path):
    script = tmp_path / "train.sh"
    launcher = tmp_path / "launcher.py"
    launcher.write_text("import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])")
    script.write_text(f'#!/bin/sh\n"{sys.executable}" "{launcher}" "$1"\n')
    script.chmod(0o755)
    done = subprocess.run(
        [script, RECORDS], env=environment(spool), capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
    assert only(spool).identity["argv"][-1] == RECORDS
