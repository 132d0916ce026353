"""Tokens that only read, links of one job, TLS, guesses of tokens, and the log of orders."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import SOURCE, job
from tests.dashboard.asking import ask
from tests.dashboard.serving import PATIENCE_S

from holter.cli import main
from holter.dashboard.access import MOST_WRONG, WINDOW_S, Access, Guesses, job_of
from holter.dashboard.audit import Audit
from holter.dashboard.server import application

SECRET = "secret-token"
OWN = [(b"host", b"localhost"), (b"origin", b"http://localhost")]


@pytest.fixture(scope="module")
def access() -> Access:
    return Access(SECRET)


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("access") / "store"
    for name in ("one", "other"):
        job(name, str(folder), status="InProgress", age_s=-3600)
    return folder


@pytest.fixture(scope="module")
def app(store, access):
    return application([str(store)], access, ("localhost",))


def order(app, token: str, name: str = "one", **more):
    path = f"/api/v1/jobs/{name}/stop"
    return ask(app, path, method="POST", token=token.encode(), **more)


def test_the_read_only_token_reads_everything_and_gives_no_order(app, access):
    for path in ("/", "/jobs/one", "/api/v1/jobs", "/api/v1/jobs/other", "/metrics"):
        assert ask(app, path, token=access.read.encode()).status == 200, path
    answer = order(app, access.read)
    assert answer.status == 403
    assert b"only reads" in answer.body
    assert ask(app, "/api/v1/jobs/one/link", token=access.read.encode()).status == 403


def test_the_link_of_a_job_shows_this_job_only(app, access):
    answer = ask(app, "/api/v1/jobs/one/link")
    address = json.loads(answer.body)["address"]
    assert address == f"http://localhost/jobs/one?store=0&token={access.of_job(0, 'one')}"
    token = access.of_job(0, "one").encode()
    moved = ask(app, "/jobs/one", b"store=0&token=" + token, token=b"")
    assert (moved.status, moved.headers["location"]) == (303, "/jobs/one?store=0")
    assert token.decode() in moved.headers["set-cookie"]
    for path in ("/jobs/one", "/jobs/one/findings", "/api/v1/jobs/one", "/api/v1/jobs/one/figures"):
        assert ask(app, path, token=token).status == 200, path
    for path, query in (
        ("/", b""), ("/jobs/other", b""), ("/jobs/one", b"store=1"), ("/jobs/one", b"store=0&store=1"),
        ("/api/v1/jobs", b""), ("/api/v1/jobs/other", b""), ("/metrics", b""),
        ("/compare", b"job=0/one&job=0/other"),
        ("/events", b""), ("/events", b"job=other"), ("/events", b"job=one&job=other"),
        ("/api/v1/jobs/one/link", b""),
    ):  # fmt: skip
        answer = ask(app, path, query, token=token)
        assert answer.status == 403, (path, query)
        assert b"other" not in answer.body
    assert order(app, token.decode()).status == 403
    assert order(app, token.decode(), "other").status == 403


def test_files_of_the_app_belong_to_every_page(app, access):
    token = access.of_job(0, "one").encode()
    assert ask(app, "/app/x/nothing.js", token=token).status == 404
    assert ask(app, "/app/x/nothing.js", token=b"").status == 401


@pytest.mark.parametrize(
    "token", ["", ".", "..", ".0.one", "x.0.one", "x.²2.one", "x.99999999.one", "é.0.one", "\x00"]
)
def test_what_is_no_token_opens_nothing(app, access, token):
    assert access.right(token, "/jobs/one", "") is None


def test_tokens_depend_on_the_secret_the_store_and_the_job(access):
    tokens = {
        access.read,
        access.of_job(0, "a"),
        access.of_job(1, "a"),
        access.of_job(0, "b"),
        Access("x").read,
    }
    assert len(tokens) == 5
    assert Access(SECRET).of_job(3, "a.b") == access.of_job(3, "a.b")
    assert access.right(access.of_job(3, "a.b"), "/jobs/a.b", "store=3") == "job"


@pytest.mark.parametrize(
    ("path", "query", "job"),
    [
        ("/jobs/a", "", (0, "a")), ("/jobs/a/tensors", "store=2", (2, "a")), ("/jobs/a/b/c", "", None),
        ("/jobs", "", None), ("/jobs/", "", None), ("/", "", None), ("/api/v1/jobs/a/stop", "", (0, "a")),
        ("/events", "job=a&store=1", (1, "a")), ("/jobs/a", "store=1&store=", (0, "a")),
        ("/jobs/a", "store=-1", None),
        ("/api/v1/compare/figures", "job=0/a", None),
    ],
)  # fmt: skip
def test_addresses_of_one_job(path, query, job):
    assert job_of(path, query) == job


def test_a_client_that_guesses_is_refused_for_a_minute_and_nobody_else():
    now = [100.0]
    guesses = Guesses(lambda: now[0])
    for number in range(MOST_WRONG):
        assert guesses.wait_s("guesser") == 0
        guesses.wrong("guesser", f"token {number}")
    assert guesses.wait_s("guesser") == WINDOW_S
    assert guesses.wait_s("other") == 0
    now[0] += WINDOW_S + 1
    assert guesses.wait_s("guesser") == 0
    for _ in range(10 * MOST_WRONG):  # a page that is still open from another start of the server
        guesses.wrong("page", "old token")
    assert guesses.wait_s("page") == 0


def test_a_guesser_gets_no_answer_even_to_the_right_token(app):
    for number in range(MOST_WRONG):
        assert ask(app, "/", token=f"wrong-{number}".encode(), client="guesser").status == 401
    answer = ask(app, "/", client="guesser")
    assert answer.status == 429
    assert 0 < int(answer.headers["retry-after"]) <= WINDOW_S
    assert ask(app, "/", client="other").status == 200
    assert ask(app, "/", token=b"", client="nobody").status == 401


def test_a_proxy_that_adds_the_token_opens_no_way_for_other_sites(app):
    foreign = [(b"host", b"localhost"), (b"origin", b"https://evil.example")]
    assert order(app, SECRET, headers=foreign).status == 403
    assert order(app, SECRET, headers=[(b"host", b"localhost"), (b"origin", b"null")]).status == 403


def test_each_order_is_logged(store, access, tmp_path):
    said: list[str] = []
    path = tmp_path / "audit.jsonl"
    with path.open("a", encoding="utf-8") as file:
        app = application([str(store)], access, ("localhost",), Audit(file, said.append))
        ask(app, "/jobs/one")
        user = [*OWN, (b"x-forwarded-user", b"ada")]
        assert order(app, SECRET, headers=user, client="10.0.0.7").status == 200
        assert order(app, access.read, client="10.0.0.8").status == 403
        assert order(app, "wrong", client="10.0.0.9").status == 401
        assert order(app, SECRET, "nothing", headers=OWN).status == 404
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    about = [
        (one["client"], one["user"], one["right"], one["job"], one["order"], one["status"]) for one in lines
    ]
    assert about[:3] == [
        ("10.0.0.7", "ada", "all", "one", "stop", 200),
        ("10.0.0.8", None, "read", "one", "stop", 403),
        ("10.0.0.9", None, None, "one", "stop", 401),
    ]
    assert about[3][3:] == ("nothing", "stop", 404)
    assert said[0] == "order stop of job one from ada: taken"
    assert SECRET not in path.read_text()


def test_a_full_disk_of_the_log_stops_no_order(store, access):
    said: list[str] = []
    full = open("/dev/full", "w", encoding="utf-8")  # noqa: SIM115 - closing it fails, too
    app = application([str(store)], access, ("localhost",), Audit(full, said.append))
    assert order(app, SECRET, "other", headers=OWN).status == 200
    assert "missing in the audit log" in said[0]
    with contextlib.suppress(OSError):  # what is left to write
        full.close()


@pytest.mark.parametrize("path", ["/nothing", "/jobs/nothing", "/api/v1/jobs/nothing"])
def test_a_query_that_is_no_text_is_answered_with_a_sentence(app, path):
    assert ask(app, path, b"a=\x80\xff").status == 404


@pytest.fixture
def certificate(tmp_path):
    if shutil.which("openssl") is None:
        pytest.skip("a certificate is made with openssl, which is not here")
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path / "cert.pem", tmp_path / "key.pem"


def test_pages_over_tls(store, certificate):
    cert, key = map(str, certificate)
    words = [
        sys.executable,
        "-m",
        "holter",
        "ui",
        str(store),
        "--port",
        "0",
        "--certfile",
        cert,
        "--keyfile",
        key,
    ]
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "HOLTER_TOKEN": SECRET}
    server = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        found = re.search(r"https://127\.0\.0\.1:(\d+)/\?token=", server.stdout.readline())
        assert found
        context = ssl.create_default_context(cafile=cert)
        with closing(
            http.client.HTTPSConnection("127.0.0.1", int(found[1]), timeout=PATIENCE_S, context=context)
        ) as asked:
            asked.request("GET", f"/?token={SECRET}")
            answer = asked.getresponse()
            assert answer.status == 303
            assert "Secure" in answer.headers["set-cookie"]
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
        server.stdout.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--certfile", "cert.pem"], "--certfile and --keyfile belong together"),
        (["--certfile", "c", "--keyfile", "k"], "cannot use --certfile c with --keyfile k: No such file"),
        (["--audit", "no/folder/audit"], "cannot write --audit no/folder/audit: No such file"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_used_are_refused(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["ui", "--port", "0", *words]) == 64
    assert said in capsys.readouterr().err
