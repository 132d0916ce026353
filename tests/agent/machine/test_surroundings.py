"""What a job starts from is read without running anything, and holds no secret."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holter.agent.machine.surroundings import surroundings


def git(folder: Path, *words: str) -> str:
    base = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(folder)]
    return subprocess.run([*base, *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "code"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "trunk")
    (folder / "train.py").write_text("pass\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_the_revision_is_gits_own_word_for_it(repository):
    inside = repository / "deep" / "down"
    inside.mkdir(parents=True)
    told = {"revision": git(repository, "rev-parse", "HEAD"), "branch": "trunk"}
    assert surroundings(["true"], inside, {})["code"] == told
    git(repository, "pack-refs", "--all")
    assert surroundings(["true"], inside, {})["code"] == told
    git(repository, "worktree", "add", "-q", "-b", "other", str(repository.parent / "tree"))
    assert surroundings(["true"], repository.parent / "tree", {})["code"] == {**told, "branch": "other"}
    git(repository, "checkout", "-q", "--detach")
    assert surroundings(["true"], repository, {})["code"] == {"revision": told["revision"]}


@pytest.mark.parametrize(
    ("head", "planted"),
    [
        ("ref: ../../private", {}),
        ("ref: refs/../../../private", {}),
        ("ref: refs/heads/../../../private", {}),
        ("ref: /etc/passwd", {}),
        ("the word itself is hush", {}),
        ("ref: refs/heads/linked", {}),
        ("ref: refs/heads/packed", {"packed-refs": "hush refs/heads/packed\n"}),
        (None, {}),
    ],
)
def test_what_git_never_wrote_is_not_told(tmp_path, head, planted):
    folder = tmp_path / "downloaded"
    git_folder = folder / ".git"
    (git_folder / "refs/heads").mkdir(parents=True)
    (tmp_path / "private").write_text("hush\n")
    (git_folder / "refs/heads/linked").symlink_to(tmp_path / "private")
    for name, text in planted.items():
        (git_folder / name).write_text(text)
    if head is None:
        (git_folder / "HEAD").symlink_to(tmp_path / "private")
    else:
        (git_folder / "HEAD").write_text(head + "\n")
    told = surroundings(["true"], folder, {}).get("code", {})
    assert "revision" not in told
    assert "hush" not in str(told)


def test_a_git_folder_may_be_a_link(repository, tmp_path):
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / ".git").symlink_to(repository / ".git")
    assert surroundings(["true"], other, {})["code"] == surroundings(["true"], repository, {})["code"]


def test_settings_are_those_that_decide_speed_and_never_secrets(tmp_path):
    environment = {
        "OMP_NUM_THREADS": "4",
        "NCCL_DEBUG": "INFO",
        "TOKENIZERS_PARALLELISM": "false",
        "TORCH_API_KEY": "hush",
        "TF_AUTH_TOKEN": "hush",
        "TF_VAR_database": "hush",
        "TF_VAR_DATABASE": "hush",
        "TF_CLI_CONFIG_FILE": "hush",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "XLA_FLAGS": "--dump_to=s3://id:hush@host/a",
        "CUDA_PASSWORD": "hush",
        "AWS_SECRET_ACCESS_KEY": "hush",
        "HOME": "/home/somebody",
    }
    found = surroundings(["true"], tmp_path, environment)["settings"]
    assert found == {
        "NCCL_DEBUG": "INFO",
        "OMP_NUM_THREADS": "4",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TOKENIZERS_PARALLELISM": "false",
        "XLA_FLAGS": "--dump_to=s3://id:***@host/a",
    }


def test_packages_are_those_of_the_commands_own_python(tmp_path):
    found = surroundings([sys.executable], tmp_path, {})["packages"]
    import numpy

    assert found["numpy"] == numpy.__version__
    script = tmp_path / "launcher"
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o755)
    assert surroundings([str(script)], tmp_path, {})["packages"] == found


@pytest.mark.parametrize("command", [["no-such-program"], ["sh", "-c", "true"]])
def test_what_cannot_be_found_is_left_out(tmp_path, command):
    assert surroundings(command, tmp_path, {"PATH": "/usr/bin:/bin"}) == {}
