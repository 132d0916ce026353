"""Whatever a request holds, the answer is a sentence: no fault, no other site, nobody else waits."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from contextlib import closing

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from tests.cli.conftest import told
from tests.dashboard.asking import ask, asked
from tests.dashboard.serving import BEARER, serving

from holter.cli.commands.ui import _listen
from holter.dashboard import api, live, site
from holter.dashboard.answers import MOST_AT_ONCE, MOST_WAITING, RefusalError, in_turn
from holter.dashboard.server import application
from holter.dashboard.stores import Stores
from holter.pages.job import pages
from holter.views.figures import names

TOKEN = "secret-token"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "store"
    told("before", str(folder), ranks=1, cores=1, steps=30, samples=30)
    return folder


@pytest.fixture(scope="module")
def app(store):
    return application([str(store)], TOKEN, ("localhost",))


def _paths() -> list[str]:
    """Return an address of every route, for each of what its last part can name."""
    stores = Stores([])
    routes = [*site.routes(stores), *api.routes(stores)]
    found = {"/events", "/nothing"}
    for route in routes:
        path = route.path.replace("{job}", "before")
        for last in (*names(), *pages(), "stop", "configure", "profile"):
            found.add(
                re.sub(r"\{[^}]*\}", str(last).replace("_", "-") if "page" in path else str(last), path)
            )
    return sorted(found)


_WORDS = (
    "1e308 -1e308 nan inf -1 0 1 1e400 ² ٣ 9999-12-31 0001-01-01 4e9 0-3,7 1-99999999 [ 1_000 0x10 before "
    "0/before"
)
_ODD = st.sampled_from([*_WORDS.split(), "\x00", "9" * 18, "9" * 19, "9" * 5000])
_VALUES = _ODD | st.integers().map(str) | st.floats().map(str) | st.text(max_size=20)
_PARAMETERS = (
    "store names html from to width node devices search collection offset limit mode phase rank first last "
    "name status since until page job price epochs nodes epoch_steps paint part pixels lanes from_ns to_ns "
    "most lane time_ns duration_ns text after_ns backward version series axis stamp total_steps loader step "
    "days"
)
_NAMED = st.sampled_from(_PARAMETERS.split())
_QUERIES = st.lists(st.tuples(_NAMED, _VALUES), max_size=6)
_HEADERS = st.sampled_from([b"host", b"origin", b"cookie", b"authorization", b"accept-encoding"])
_HEADS = st.lists(
    st.tuples(_HEADERS, st.binary(max_size=40) | st.sampled_from([b"[", b"http://["])), max_size=3
)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(_paths()), _QUERIES, _HEADS, st.sampled_from(["GET", "GET", "GET", "HEAD", "POST"]))
@example("/", [], [(b"host", b"[")], "GET")
@example("/api/v1/jobs/before/stop", [], [(b"origin", b"http://[")], "POST")
@example("/jobs/before", [("from", "0"), ("to", "1e308")], [], "GET")
@example("/api/v1/jobs/before/figures/utilization", [("to", "1e308")], [], "GET")
@example("/api/v1/jobs/before/heatmap", [("from", "-1e308"), ("to", "1e308")], [], "GET")
@example("/api/v1/jobs", [("until", "9999-12-31")], [], "GET")
@example(
    "/compare", [("job", "0/before"), ("job", "0/before"), ("price", "1e308"), ("epochs", "1e308")], [], "GET"
)
def test_no_request_is_answered_with_a_fault(app, path, query, heads, method):
    own = [] if any(name == b"host" for name, _ in heads) else [(b"host", b"localhost")]
    for given_heads in (own, [*own, *heads]):  # before the token is looked at, and after it
        token = b"" if given_heads is not own and any(name == b"authorization" for name, _ in heads) else None
        answer = ask(app, path, asked(query), method=method, headers=given_heads, token=token)
        assert 200 <= answer.status < 500, answer.body[:300]


@pytest.mark.parametrize(("header", "value"), [(b"host", b"["), (b"host", b"x:99999"), (b"host", b"[::1")])
def test_a_host_that_is_none_is_refused_before_the_token(app, header, value):
    answer = ask(app, "/", headers=[(header, value)], token=b"")
    assert answer.status == 400
    assert "valid: a name or an address" in answer.body.decode()


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/api/v1/jobs/before/figures/utilization?from=0&to=1e308", "to"),
        ("/api/v1/jobs/before/figures/utilization?from=0&to=5&width=1e9", "width"),
        ("/api/v1/jobs?offset=-1", "offset"),
        ("/api/v1/jobs?limit=x", "limit"),
        ("/api/v1/jobs?store=1&until=9999-12-31", "until"),
        ("/jobs/before?store=99999999999999999999", "store"),
        ("/?page=²", "page"),
        ("/compare?job=0/before&job=0/before&price=nan", "price"),
    ],
)
def test_a_number_out_of_range_is_named_with_what_is_valid(app, path, name):
    path, _, query = path.partition("?")
    answer = ask(app, path, query.encode())
    assert answer.status == 400
    said = answer.body.decode()
    assert f"{name} is " in said
    assert "valid: " in said or "a day is expected" in said


@pytest.mark.parametrize(
    "path", ["//evil.example/", "///evil.example", "/\\evil.example/", "/%5Cevil.example"]
)
def test_a_redirect_stays_on_this_site(app, path):
    answer = ask(app, path, f"a=1&token={TOKEN}&b=%2F".encode(), token=b"")
    assert answer.status == 303
    location = answer.headers["location"]
    assert re.match(r"/[^/\\]", location)
    assert location.endswith("?a=1&b=%2F")


def test_servers_on_two_ports_do_not_share_a_cookie(app):
    query = f"token={TOKEN}".encode()
    cookies = [
        ask(app, "/", query, headers=[(b"host", host)], token=b"").headers["set-cookie"].split(";")[0]
        for host in (b"localhost:7070", b"localhost:7071")
    ]
    assert len(set(cookies)) == 2
    for cookie, code in zip(cookies, (200, 401), strict=True):
        heads = [(b"host", b"localhost:7070"), (b"cookie", cookie.encode())]
        assert ask(app, "/", headers=heads, token=b"").status == code


@pytest.mark.parametrize("order", ["stop", "configure", "profile"])
@pytest.mark.parametrize("body", [b"[" * 5000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"\xff", b"", b"null"])
def test_a_body_that_is_no_order_is_refused(app, order, body):
    answer = ask(app, f"/api/v1/jobs/before/{order}", method="POST", body=body)
    assert 400 <= answer.status < 500
    assert json.loads(answer.body)["error"]


def test_a_body_without_end_is_not_kept(app):
    answer = ask(app, "/api/v1/jobs/before/stop", method="POST", body=b" " * 200_000)
    assert answer.status == 413


def test_who_waits_for_a_report_does_not_keep_others_waiting(store):
    stores = Stores([str(store)])
    app = Starlette(routes=[*site.routes(stores), *api.routes(stores)])

    async def crowd():
        listed = []
        with stores.reading("before"):  # it takes as long as we like
            report = "/api/v1/jobs/before/report"
            readers = [asyncio.ensure_future(_asked(app, report)) for _ in range(100)]
            await asyncio.sleep(0.5)  # they all wait for the job now
            listed.append(await asyncio.wait_for(_asked(app, "/api/v1/jobs"), 60))
            assert not any(reader.done() for reader in readers)
        return listed + await asyncio.gather(*readers)

    answers = asyncio.run(crowd())
    assert {status for status, _ in answers} == {200}
    assert len({body for _, body in answers[1:]}) == 1


async def _asked(app, path):
    status, body = 0, bytearray()

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        nonlocal status
        status = message.get("status", status)
        body.extend(message.get("body", b""))

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [],
        "root_path": "",
    }
    await app({**scope, "server": ("localhost", 80), "scheme": "http"}, receive, send)
    return status, bytes(body)


def test_only_some_answers_are_computed_at_once_and_the_queue_has_an_end():
    stores = Stores([])

    async def crowd():
        gate, running, most = asyncio.Event(), 0, 0
        loop = asyncio.get_running_loop()

        async def enter():
            nonlocal running, most
            running += 1
            most = max(most, running)
            await gate.wait()
            running -= 1

        def work():
            asyncio.run_coroutine_threadsafe(enter(), loop).result()

        tasks = [asyncio.ensure_future(in_turn(stores, work)) for _ in range(MOST_AT_ONCE + MOST_WAITING)]
        while running < MOST_AT_ONCE:
            await asyncio.sleep(0.01)
        with pytest.raises(RefusalError) as refused:
            await in_turn(stores, work)
        gate.set()
        await asyncio.gather(*tasks)
        return refused.value.code, most

    assert asyncio.run(crowd()) == (503, MOST_AT_ONCE)


def test_one_page_too_many_hears_why_and_asks_again_later(store):
    server = live.Live(Stores([str(store)]))
    scope = {"type": "http", "method": "GET", "path": "/events", "query_string": b"", "headers": []}

    async def listen():
        opened = []
        for _ in range(live.MOST_OF_ONE):
            answer = await server.events(Request({**scope, "client": ("10.0.0.1", 1)}))
            opened.append(answer.body_iterator)
            assert "event: hello" in await anext(opened[-1])
        refused = await server.events(Request({**scope, "client": ("10.0.0.1", 2)}))
        said = [text async for text in refused.body_iterator]
        other = (await server.events(Request({**scope, "client": ("10.0.0.2", 1)}))).body_iterator
        first = await anext(other)
        await opened.pop().aclose()
        again = (await server.events(Request({**scope, "client": ("10.0.0.1", 3)}))).body_iterator
        freed = await anext(again)
        for stream in (*opened, other, again):
            await stream.aclose()
        return said, first, freed

    said, other, freed = asyncio.run(listen())
    assert len(said) == 1
    assert "retry: 15000" in said[0]
    assert "event: lost" in said[0]
    assert "event: hello" in other
    assert "event: hello" in freed


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux alone ends such connections")
def test_a_connection_that_takes_nothing_ends():
    with closing(_listen("127.0.0.1", 0)) as listening, closing(socket.socket()) as client:
        client.connect(listening.getsockname())
        accepted, _ = listening.accept()
        with closing(accepted):
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


def test_a_head_without_end_is_refused_and_others_are_answered(store):
    with serving(store) as server, closing(socket.create_connection((server.host, server.port))) as made:
        made.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(400):
            try:
                made.sendall(b"x-more: " + b"y" * 1000 + b"\r\n")
            except OSError:
                break
        made.settimeout(60)
        try:
            answer = made.recv(1000)
        except OSError:
            answer = b""
        assert answer == b"" or b" 400 " in answer or b" 431 " in answer
        assert server.ask("/", **BEARER)[0] == 200
