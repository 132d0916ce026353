"""The compiled parts under AddressSanitizer and UndefinedBehaviorSanitizer: the tests that use them most."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.builds import ROOT, build

FLAGS = "-g -fsanitize=address,undefined -fno-sanitize-recover=undefined"
TESTS = (
    "tests/recorder/test_thread_spool.py",
    "tests/recorder/test_ranges.py",
    "tests/recorder/test_spool.py",
    "tests/recorder/test_processes.py",
    "tests/recorder/test_python_windows.py",
    "tests/recorder/frameworks/test_step_hooks.py",
    "tests/recorder/tensors/test_statistics.py",
    "tests/importers/kineto/test_usual_events.py",
    "tests/importers/kineto/test_scanning_fuzz.py",
)
"""Not all of tests/recorder and tests/importers, which would take many minutes under the sanitizers."""
LEFT_OUT = ("hundred_million", "steps_back", "both_write_the_same")
"""The first measures memory, of which the sanitizer takes much. The second preloads a library of its own.
The third starts two processes for each training; `test_trainings_that_follow_one_another…` starts one."""
CHOSEN = " and ".join(f"not {name}" for name in LEFT_OUT)
PLUGINS = ("-p", "no:cacheprovider", "-p", "no:faulthandler")
PLANTED = """
#include <stdlib.h>
int holter_planted(int count) {
    char *memory = calloc((size_t)count, 1);
    int beyond = memory[count];
    free(memory);
    return beyond;
}
"""
HIT = """
import ctypes, sys
ctypes.CDLL(sys.argv[1]).holter_planted(8)
print("not noticed")
"""


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    """A checkout whose C is sanitized, and the environment in which it can be loaded."""
    compiler = os.environ.get("CC", "cc").split()[0]
    if shutil.which(compiler) is None:
        pytest.skip("there is no C compiler here")
    runtime = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    words = [compiler, "-print-file-name=libstdc++.so.6"]  # else torch's exceptions are not found
    exceptions = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(runtime).is_file():
        pytest.skip(f"{compiler} has no AddressSanitizer")
    checkout = tmp_path_factory.mktemp("sanitized")
    source, failed = build(checkout, flags=FLAGS)
    assert failed == ""
    shutil.copytree(ROOT / "tests", checkout / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "hatch_build.py"):
        shutil.copy(ROOT / name, checkout)
    settings = "detect_leaks=0:handle_sigbus=0:handle_segv=0:abort_on_error=1"  # Python gives little back
    env = {
        **os.environ,
        "LD_PRELOAD": f"{runtime} {exceptions}",
        "ASAN_OPTIONS": settings,
        "PYTHONMALLOC": "malloc",  # else memory of Python's objects is one piece to the sanitizer
        "PYTHONPATH": str(source),
        "HOLTER_FUZZ_TRACES": "300",
    }
    env = {name: value for name, value in env.items() if not name.startswith("PYTEST_")}
    return checkout, env


@pytest.mark.slow
def test_a_fault_that_is_planted_is_noticed(sanitized):
    checkout, env = sanitized
    source, library = checkout / "planted.c", checkout / "planted.so"
    source.write_text((checkout / "src/holter/recorder/native/sums.c").read_text() + PLANTED)
    compiler = os.environ.get("CC", "cc").split()
    command = [*compiler, *FLAGS.split(), "-shared", "-fPIC", str(source), "-o", str(library)]
    subprocess.run(command, capture_output=True, timeout=300, check=True)
    done = subprocess.run(
        [sys.executable, "-c", HIT, str(library)],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "not noticed" not in done.stdout


@pytest.mark.slow
def test_the_compiled_parts_do_nothing_that_is_not_allowed(sanitized):
    checkout, env = sanitized
    found = [name for name in TESTS if (checkout / name).is_file()]
    assert found == list(TESTS)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *PLUGINS,
            *TESTS,
            "-k",
            CHOSEN,
        ],
        cwd=checkout,
        env=env,
        capture_output=True,
        text=True,
        timeout=420,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Sanitizer" not in done.stdout + done.stderr
