"""Help, version, and refusals of wrong arguments."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import struct
import subprocess
import sys
import termios

import pytest
from tests.cli.conftest import SOURCE, command

from holter.cli import COMMANDS
from holter.cli.output import wrapped


def test_no_arguments_shows_every_command(holter):
    answer = holter()
    assert answer.code == 0
    assert all(f"  {name} " in answer.out for name in COMMANDS)
    assert "holter run -- python train.py" in answer.out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example(holter, name):
    answer = holter(name, "--help")
    assert answer.code == 0
    assert f"  holter {name}" in answer.out.partition("examples:")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_unknown_option_is_named(holter, name):
    words = {"rules": ["rules", "list"], "configure": ["configure", "x", "--interval", "1s"]}.get(
        name, [name]
    )
    code = (
        2 if name == "check" else 64
    )  # as tools for continuous integration do; 1 and 3 mean something there
    holter(*words, "--frobnicate").refused(code, "--frobnicate", "valid: --")


def test_unknown_command_suggests_the_nearest(holter):
    holter("descrbe").refused(64, "'descrbe'", "did you mean 'describe'?", "rules")


def test_unknown_option_suggests_the_nearest(holter):
    holter("run", "--stroe", "x", "--", "true").refused(64, "--stroe", "did you mean '--store'?")


def test_an_option_without_a_command_says_which_there_are(holter):
    holter("--vresion").refused(
        64, "'--vresion'", "did you mean '--version'?", "valid: --help, --version", "run"
    )


def test_version(holter):
    assert holter("--version").out.startswith("holter 0.")


@pytest.mark.parametrize("name", ["describe", "diagnose", "stop"])
def test_missing_job_is_not_found(holter, name):
    holter(name, "nope").refused(4, "'nope'", "holter-jobs")


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    program = f"{shlex.quote(sys.executable)} -m holter rules list | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SOURCE), "PATH": "/usr/bin:/bin"},
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "141")


def test_commands_start_fast_and_light():
    program = "import sys, holter.cli; holter.cli.main(['run', '--help']); "
    program += "print([m for m in ('numpy', 'duckdb', 'rich', 'torch') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(SOURCE)},
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_doctor_always_ends_well(holter):
    answer = holter("doctor")
    assert answer.code == 0
    assert "NVIDIA GPUs" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 100


def test_doctor_finds_the_compiled_recorder_of_the_trainings_python(holter):
    answer = holter("doctor", "--json", "--python", sys.executable)
    findings = {finding["what"]: finding["why"] for finding in json.loads(answer.out)["findings"]}
    assert (findings["marks"], findings["sums of tensors"]) == ("compiled", "compiled")


def test_doctor_names_a_store_that_cannot_be_written(holter, tmp_path):
    (tmp_path / "file").write_text("")
    findings = {
        f["what"]: f for f in json.loads(holter("doctor", "--json", "--store", "file/jobs").out)["findings"]
    }
    assert findings["store"]["state"] == "no"


def test_module_is_the_command():
    done = command("--version")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_line_for_people_fits_the_terminal(tmp_path):
    line = "holter: " + "a word " * 20 + "s3://a-bucket/" + "x" * 50
    with open(tmp_path / "log", "w") as file:
        assert wrapped(line, file) == line
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        *words, address = wrapped(line, terminal).splitlines()
    os.close(ours)
    assert len(words) > 3
    assert all(len(one) <= 40 for one in words)
    assert address.strip() == line.split()[-1], "what is copied stays whole"


@pytest.mark.parametrize("words", [("jobs", "--name", "none"), ("describe", "none"), ("descibe",)])
def test_what_commands_say_fits_the_terminal(tmp_path, words):
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    with os.fdopen(theirs, "w") as terminal:
        subprocess.run(
            [sys.executable, "-m", "holter", *words],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdout=terminal,
            stderr=terminal,
        )
    said = os.read(ours, 10_000).decode()
    os.close(ours)
    assert said.startswith(("holter", "No job"))
    assert len(said.splitlines()) > 1
    assert max(map(len, said.splitlines())) <= 60


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ui", "--port", "x"), "--port x is not valid; valid: a whole number from 0 to 65535"),
        (("ui", "--port", "65536"), "--port 65536 is not valid"),
        (("ui", "--port", "7 0"), "--port '7 0' is not valid"),
        (("ui", "--port", ""), "--port '' is not valid"),
        (("top", "--every", "nan"), "--every nan is not valid; valid: a number from 0.5 to 3600 seconds"),
        (("stop", "j", "--grace", "soon"), "valid: a number from 0 to 86400 seconds"),
        (("compare", "a", "b", "--epoch-steps", "1.5"), "valid: a whole number of at least 1"),
        (("compare", "a", "b", "--epochs", "-1"), "--epochs -1 is not valid; valid: a number of at least 0"),
        (("profile", "j", "--count", "few"), "--count few is not valid; valid: a whole number"),
        (("profile", "j", "--seconds", "1m"), "--seconds 1m is not valid; valid: a number of seconds"),
        (("export", "j", "chrome", "--low-gpu", "x"), "--low-gpu x is not valid; valid: a number from 0"),
        (("attach", "1", "--seconds", "0"), "--seconds 0 is not valid; valid: a number from 1 to"),
        (("ui", "--port"), "--port: expected one argument"),
    ],
)  # fmt: skip
def test_a_wrong_number_is_named_with_its_option_and_what_is_valid(holter, words, said):
    holter(*words).refused(64, said, f"see `holter {words[0]} --help`")
