"""What takes traces apart does nothing that C leaves undefined, whatever the trace says."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.builds import UNDEFINED, build

SCAN = """
import sys
from holter.importers.kineto import scanning, usual_events
scanner = scanning.Scanner(usual_events.RULES)
found = scanner.scan(memoryview(sys.argv[1].encode()))
print(found[0].events, len(scanner.new_names()))
"""
USUAL = '{"ph":"X","cat":"cpu_op","name":%s,"pid":1,"tid":2,"ts":1,"dur":1}'


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """The package, each undefined behaviour of whose C ends the process."""
    source, failed = build(tmp_path_factory.mktemp("undefined"), flags=UNDEFINED)
    if "scanning.c" in failed:
        pytest.skip(f"cannot be compiled here with {UNDEFINED}: {failed}")
    return source


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[{"ph":"X","cat":1,"name":"a","pid":1,"tid":2,"ts":1}]', "0 0"),
        ('[{"ph":1,"cat":"cpu_op","name":2,"pid":1,"tid":2,"ts":1}]', "0 0"),
        ("[%s]" % (USUAL % '""'), "1 1"),
        ("[{}]".format(",".join(USUAL % name for name in ('""', '""', '"a"'))), "3 2"),
        ("[]", "0 0"),
    ],
    ids=["a category that is a number", "other fields", "an empty name", "twice", "nothing"],
)
def test_nothing_is_undefined(checked, text, found):
    done = subprocess.run(
        [sys.executable, "-c", SCAN, text],
        env={"PYTHONPATH": str(checked)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, found, "")
