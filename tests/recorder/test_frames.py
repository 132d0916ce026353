"""Names of places in code: those of notebooks by the cell."""

import subprocess
import sys

import pytest
from tests.recorder.reading import environment

from holter.recorder.sampling.frames import frame_text

pytest.importorskip("ipykernel", reason="ipykernel runs the code of notebooks")

NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
from ipykernel.compiler import XCachingCompiler
from holter.recorder.sampling.frames import frame_text
shell = InteractiveShell.instance()
print(KERNEL)
if KERNEL:
    shell.compile = XCachingCompiler()
shell.run_cell("x = 1", store_history=True)
shell.run_cell("\\ndef train():\\n    pass", store_history=True)
print(frame_text(shell.user_ns["train"].__code__, 3))
"""


@pytest.mark.parametrize("kernel", [True, False])
def test_code_of_a_notebook_has_the_number_of_its_cell(spool, kernel):
    done = subprocess.run(
        [sys.executable, "-c", f"KERNEL = {kernel}{NOTEBOOK}"],
        env=environment(spool), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == f"{kernel}\ntrain (cell 2:3)\n", done.stderr


def test_other_code_has_its_path_below_the_search_path():
    code = test_other_code_has_its_path_below_the_search_path.__code__
    name = "test_other_code_has_its_path_below_the_search_path"
    assert frame_text(code, 7).startswith(name)
    assert frame_text(code, 7).endswith("test_frames.py:7)")
