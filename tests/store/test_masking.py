"""Secrets in a command line: what is masked, and what is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from holter.store import job
from holter.store.layout import MANIFEST
from holter.store.masking import masked


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        (["t.py", "--api-key=s3cr3t", "--lr=0.1"], ["t.py", "--api-key=***", "--lr=0.1"]),
        (["t.py", "--api_key", "s3cr3t", "5"], ["t.py", "--api_key", "***", "5"]),
        (["env", "WANDB_API_KEY=s3cr3t", "t.py"], ["env", "WANDB_API_KEY=***", "t.py"]),
        (["t.py", "+wandb.apiKey=s3cr3t"], ["t.py", "+wandb.apiKey=***"]),
        (["t.py", "--password=s3cr3t;s3cr3t 2"], ["t.py", "--password=***"]),
        (["t.py", '{"hf_token": "s3cr3t", "lr": 1}'], ["t.py", '{"hf_token": ***, "lr": 1}']),
        (["t.py", "--header", "Authorization: Bearer s3cr3t"], ["t.py", "--header", "Authorization: ***"]),
        (["t.py", "s3://id:s3cr3t@host/data"], ["t.py", "s3://id:***@host/data"]),
        (["t.py", "--hub", "hf_" + "s3cr3t" * 5], ["t.py", "--hub", "***"]),
        (
            ["sh", "-c", "export HF_TOKEN='s3cr3t 2'; t.py --secret s3cr3t --lr 1"],
            ["sh", "-c", "export HF_TOKEN=***; t.py --secret *** --lr 1"],
        ),
    ],
)
def test_what_a_name_or_its_shape_tells_to_be_a_secret_is_masked(command: list[str], kept: list[str]) -> None:
    assert masked(command) == kept
    assert masked(kept) == kept


@pytest.mark.parametrize(
    "words",
    [
        ["--tokenizer", "bert", "--max-tokens", "2048", "--token-dim=64", "--num_tokens=3"],
        ["--pad-token", "<pad>", "--eos_token=</s>", "--use-auth-token", "True", "--image-token=img"],
        ["--token-file", "/run/token", "--author=me", "--label-key", "class", "--password", "--lr", "1"],
        ["-c", "import torch; print(key, token)", "https://host/path?x=1", "a=b", "--", "=", "--=x", ""],
    ],
)
def test_what_is_no_secret_is_kept(words: list[str]) -> None:
    assert masked(words) == words


def test_a_jobs_manifest_has_no_secret(tmp_path: Path) -> None:
    folder = job.create(
        str(tmp_path), "a", command=["t.py", "--api-key", "s3cr3t"], interval_ms=500, rules=[], now_ns=1
    )
    assert folder.manifest()["command"] == ["t.py", "--api-key", "***"]
    assert "s3cr3t" not in (tmp_path / "a" / MANIFEST).read_text()
