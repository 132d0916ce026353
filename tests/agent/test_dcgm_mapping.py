"""The files from which DCGM-exporter learns which job uses a GPU."""

from __future__ import annotations

import pytest

from holter.agent.machine.dcgm_mapping import ENV_FOLDER, DcgmMapping


def test_each_gpu_has_a_file_with_the_job_until_its_end(tmp_path):
    mapping = DcgmMapping({ENV_FOLDER: str(tmp_path)}, "resnet-1")
    assert mapping.write(["gpu0", "gpu3"]) == ""
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "0": "resnet-1\n",
        "3": "resnet-1\n",
    }
    assert (tmp_path / "0").stat().st_mode & 0o004, "the exporter is another user"
    mapping.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_a_scheduler_wrote_stays(tmp_path):
    (tmp_path / "0").write_text("4711\n")
    mapping = DcgmMapping({ENV_FOLDER: str(tmp_path)}, "resnet-1")
    assert mapping.write(["gpu0", "gpu1"]) == f"{tmp_path}/0 exists; its owner says which job uses gpu0"
    (tmp_path / "1").write_text("4712\n")  # a prolog that came later
    mapping.remove()
    assert (tmp_path / "0").read_text() == "4711\n"
    assert (tmp_path / "1").read_text() == "4712\n"


@pytest.mark.parametrize("variables", [{}, {ENV_FOLDER: ""}])
def test_without_the_variable_nothing_is_written(tmp_path, monkeypatch, variables):
    monkeypatch.chdir(tmp_path)
    mapping = DcgmMapping(variables, "resnet-1")
    assert mapping.write(["gpu0"]) == ""
    mapping.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_missing_is_said(tmp_path):
    mapping = DcgmMapping({ENV_FOLDER: str(tmp_path / "none")}, "resnet-1")
    assert mapping.write(["gpu0"]) == f"{tmp_path}/none/0: No such file or directory"


def test_files_that_another_program_removed_or_replaced_end_nothing(tmp_path):
    mapping = DcgmMapping({ENV_FOLDER: str(tmp_path)}, "resnet-1")
    mapping.write(["gpu0", "gpu1", "gpu2"])
    (tmp_path / "0").unlink()
    (tmp_path / "1").write_bytes(b"\xff\xfe")
    mapping.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
