"""Masks secrets in all their forms, and leaves ordinary words unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from holter.schema.masking import masked, masked_in, masked_text
from holter.store import job
from holter.store.layout import MANIFEST

S = "s3cr3t"
HF, LONG = "hf_" + S * 5, "0a1B2c3D4e5F6g7H8i9J"
BLOCK = f"-----BEGIN RSA PRIVATE KEY-----\n{LONG}\n{LONG}\n-----END RSA PRIVATE KEY-----"
JWT = f"eyJ{LONG}.{LONG}.{LONG}"
HOOK = f"https://hooks.slack.com/services/T000/B000/{S}"

COMMANDS = [
    (["t.py", "--api-key=s3cr3t", "--lr=0.1"], ["t.py", "--api-key=***", "--lr=0.1"]),
    (["t.py", "--api_key", "s3cr3t", "5"], ["t.py", "--api_key", "***", "5"]),
    (["t.py", "--wandb_key=s3cr3t"], ["t.py", "--wandb_key=***"]),
    (["t.py", "--wandb-key", "s3cr3t"], ["t.py", "--wandb-key", "***"]),
    (["t.py", "--openaiKey=s3cr3t"], ["t.py", "--openaiKey=***"]),
    (["t.py", "--key", "s3cr3t"], ["t.py", "--key", "***"]),
    (["t.py", "--key=s3cr3t"], ["t.py", "--key=***"]),
    (["t.py", "--pass", "s3cr3t"], ["t.py", "--pass", "***"]),
    (["t.py", "--pass=s3cr3t 2"], ["t.py", "--pass=***"]),
    (["t.py", "--db_pass=s3cr3t"], ["t.py", "--db_pass=***"]),
    (["t.py", "--pat", "s3cr3t"], ["t.py", "--pat", "***"]),
    (["t.py", "--github-pat=s3cr3t"], ["t.py", "--github-pat=***"]),
    (["t.py", "--secret_id", "s3cr3t"], ["t.py", "--secret_id", "***"]),
    (["t.py", "--secret-id=s3cr3t"], ["t.py", "--secret-id=***"]),
    (["t.py", "--client-secret-value", "s3cr3t"], ["t.py", "--client-secret-value", "***"]),
    (["t.py", "--passphrase", "s3cr3t"], ["t.py", "--passphrase", "***"]),
    (["t.py", "--credentials", "s3cr3t"], ["t.py", "--credentials", "***"]),
    (["t.py", "--connection-string", "s3cr3t;x"], ["t.py", "--connection-string", "***"]),
    (["t.py", "--hf-token", "s3cr3t"], ["t.py", "--hf-token", "***"]),
    (["t.py", "+wandb.apiKey=s3cr3t"], ["t.py", "+wandb.apiKey=***"]),
    (["t.py", "+logger.wandb.key=s3cr3t"], ["t.py", "+logger.wandb.key=***"]),
    (["t.py", "--password=s3cr3t;s3cr3t 2"], ["t.py", "--password=***"]),
    (["curl", "-u", "me:s3cr3t"], ["curl", "-u", "me:***"]),
    (["curl", "--user", "me:s3cr3t:2"], ["curl", "--user", "me:***"]),
    (["curl", "--user=me:s3cr3t"], ["curl", "--user=me:***"]),
    (["mysql", "-p", "words"], ["mysql", "-p", "***"]),
    (["/usr/bin/mysqldump", "-pwords", "db"], ["/usr/bin/mysqldump", "-p***", "db"]),
    (["sshpass", "-p", "words", "ssh", "h"], ["sshpass", "-p", "***", "ssh", "h"]),
    (["t.py", "-p", "s3cr3t"], ["t.py", "-p", "***"]),
    (["env", "WANDB_API_KEY=s3cr3t", "t.py"], ["env", "WANDB_API_KEY=***", "t.py"]),
    (["env", "PGPASSWORD=s3cr3t", "t.py"], ["env", "PGPASSWORD=***", "t.py"]),
    (["env", "MYSQL_PWD=s3cr3t", "t.py"], ["env", "MYSQL_PWD=***", "t.py"]),
    (["env", "AWS_SECRET_ACCESS_KEY=s3cr3t"], ["env", "AWS_SECRET_ACCESS_KEY=***"]),
    (["t.py", '{"hf_token": "s3cr3t", "lr": 1}'], ["t.py", '{"hf_token": ***, "lr": 1}']),
    (["t.py", "--header", "Authorization: Bearer s3cr3t"], ["t.py", "--header", "Authorization: ***"]),
    (["t.py", "-H", "X-Api-Key: s3cr3t"], ["t.py", "-H", "X-Api-Key: ***"]),
    (["t.py", "s3://id:s3cr3t@host/data"], ["t.py", "s3://id:***@host/data"]),
    (["t.py", "--hub", HF], ["t.py", "--hub", "***"]),
    (
        ["sh", "-c", "export HF_TOKEN='s3cr3t 2'; t.py --secret s3cr3t --lr 1"],
        ["sh", "-c", "export HF_TOKEN=***; t.py --secret *** --lr 1"],
    ),
    (["sh", "-c", "curl -u me:s3cr3t https://h/"], ["sh", "-c", "curl -u me:*** https://h/"]),
    (["sh", "-c", "mysql -u me -ps3cr3t db; ls -l"], ["sh", "-c", "mysql -u me -p*** db; ls -l"]),
]

TEXTS = [
    ("login failed: password=s3cr3t at db", "login failed: password=*** at db"),
    ("KeyError: {'api_key': 's3cr3t', 'lr': 1}", "KeyError: {'api_key': ***, 'lr': 1}"),
    ("postgres://me:s3cr3t@db.example.org/x", "postgres://me:***@db.example.org/x"),
    ("https://s3cr3ts3cr3ts3cr3t@git.example.org/x", "https://***@git.example.org/x"),
    ("cannot reach me:s3cr3t@db.example.org:5432", "cannot reach me:***@db.example.org:5432"),
    ("Authorization: Basic czNjcjN0OnM=", "Authorization: ***"),
    ("sent with Bearer s3cr3t.x and failed", "sent with Bearer *** and failed"),
    (f"POST {HOOK} gave 404", "POST https://hooks.slack.com/services/*** gave 404"),
    (f"https://discord.com/api/webhooks/1/{S}", "https://discord.com/api/webhooks/***"),
    (f"https://api.telegram.org/bot1:{S}/send", "https://api.telegram.org/***"),
    ("https://b.example.org/c?sv=2&sig=s3cr3t%2F&se=9", "https://b.example.org/c?sv=2&sig=***&se=9"),
    ("https://b.example.org/c?X-Amz-Signature=s3cr3t&x=1", "https://b.example.org/c?X-Amz-Signature=***&x=1"),
    ("https://b.example.org/c?key=s3cr3t", "https://b.example.org/c?key=***"),
    (f"using {HF} for the hub", "using *** for the hub"),
    ("bad key sk-proj-" + LONG, "bad key ***"),
    ("ghp_" + LONG + " is revoked", "*** is revoked"),
    ("github_pat_" + LONG, "***"),
    ("glpat-" + LONG, "***"),
    ("xoxb-12345678901-" + S, "***"),
    ("AKIA" + "ABCDEFGH01234567", "***"),
    ("AIza" + LONG + LONG, "***"),
    ("npm_" + LONG + LONG, "***"),
    ("nvapi-" + LONG, "***"),
    ("sk_live_" + LONG, "***"),
    (f"jwt {JWT} expired", "jwt *** expired"),
    (f"loaded\n{BLOCK}\nand more", "loaded\n***\nand more"),
    ("cut -----BEGIN PRIVATE KEY-----\n" + LONG, "cut ***"),
    ("Protocol=https;AccountName=a;AccountKey=s3cr3t==", "Protocol=https;AccountName=a;AccountKey=***"),
    ("Cookie: s3cr3t", "Cookie: ***"),
]  # fmt: skip

PLAIN_COMMANDS = [
    ["--tokenizer", "bert", "--max-tokens", "2048", "--token-dim=64", "--num_tokens=3"],
    ["--pad-token", "<pad>", "--eos_token=</s>", "--use-auth-token", "True", "--image-token=img"],
    ["--token-file", "/run/token", "--author=me", "--label-key", "class", "--password", "--lr", "1"],
    ["-c", "import torch; print(key, token)", "https://host/path?x=1", "a=b", "--", "=", "--=x", ""],
    ["--keys-per-batch", "4", "--key-size", "3", "--passes", "3", "--patience", "5", "--max-tokens", "100"],
    ["--sort-key=date", "--forward-pass", "eager", "--pass-through", "x1", "--pattern", "a1"],
    ["t.py", "-p", "8"],
    ["t.py", "-p", "configs/a1.yaml"],
    ["mkdir", "-p", "run1"],
    ["srun", "-p", "gpu4", "t.py"],
    ["docker", "run", "-p", "80:80", "--user", "1000:1000", "-u", "1000:1000", "image:1.2"],
    ["python", "-u", "train.py", "--path", "C:/data", "-u", "https://host/x"],
    ["--num-token", "100", "--secret-santa", "off", "--eos-token-id", "50256", "--auth-type", "basic"],
]

PLAIN_TEXTS = [
    "KeyError: unexpected key: layer1.weight",
    'Missing key(s) in state_dict: "encoder.embed_tokens.weight"',
    "backward pass: failed at layer 3",
    "RuntimeError: size mismatch, got 3, expected 4: x = torch.randn(3, 4)",
    'File "train.py", line 12, in check_password',
    "https://huggingface.co/bert?revision=main&page=2",
    "Bearer authentication failed; Basic usage: see the manual",
    "git@github.com:owner/name.git, image@sha256:0123456789abcdef0123",
    "repo:latest@sha256:0123456789abcdef",
    "9fceb02d0ae598e95dc970b74767f19372d61af8",
    "loss = 3.25; accuracy: 0.97 (token accuracy 0.5)",
]


@pytest.mark.parametrize(("command", "kept"), COMMANDS, ids=lambda words: " ".join(words))
def test_secrets_of_a_command_are_masked(command: list[str], kept: list[str]) -> None:
    assert masked(command) == kept
    assert masked(kept) == kept


@pytest.mark.parametrize(("text", "kept"), TEXTS)
def test_secrets_of_a_text_are_masked(text: str, kept: str) -> None:
    assert masked_text(text) == kept
    assert masked_text(kept) == kept


@pytest.mark.parametrize("words", PLAIN_COMMANDS)
def test_what_is_no_secret_of_a_command_is_kept(words: list[str]) -> None:
    assert masked(words) == words


@pytest.mark.parametrize("text", PLAIN_TEXTS)
def test_what_is_no_secret_of_a_text_is_kept(text: str) -> None:
    assert masked_text(text) == text


def test_all_texts_of_a_document_are_masked() -> None:
    given = {
        "hf_token": S,
        "argv": ["--pass", S],
        "deep": [{"text": f"password={S}"}, 1, None],
        "token": "none",
    }
    assert masked_in(given) == {
        "hf_token": "***",
        "argv": ["--pass", "***"],
        "deep": [{"text": "password=***"}, 1, None],
        "token": "none",
    }


def test_a_long_hostile_text_takes_no_long_time() -> None:
    for piece in ("a:", "a =", "?key", "-p ", "://", "x:y@", "mysql ", "a.", "-----BEGIN PRIVATE KEY-----"):
        assert masked_text(piece * 8000)


def test_a_jobs_manifest_has_no_secret(tmp_path: Path) -> None:
    folder = job.create(
        str(tmp_path), "a", command=["t.py", "--api-key", "s3cr3t"], interval_ms=500, rules=[], now_ns=1
    )
    assert folder.manifest()["command"] == ["t.py", "--api-key", "***"]
    assert "s3cr3t" not in (tmp_path / "a" / MANIFEST).read_text()
