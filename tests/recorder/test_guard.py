"""Nothing of ours changes what a wrapped function does, however badly ours behaves."""

import pytest
from tests.recorder.reading import only

from holter.recorder.guard import LIMIT, around
from holter.schema.phases import Phase


def original(*args, **kwargs):
    original.calls += 1
    if kwargs.get("fail"):
        raise LookupError("the user's own")
    return args, kwargs


@pytest.fixture(autouse=True)
def _count():
    original.calls = 0


def broken(*_):
    raise RuntimeError("ours")


@pytest.mark.parametrize("before", [broken, lambda args, kwargs: "state"])
@pytest.mark.parametrize("after", [broken, lambda state, result, error: None])
def test_original_is_called_once_with_its_own_arguments_and_errors(session, before, after, capfd):
    wrapped = around(original, before, after, session.breaker("test"))
    assert wrapped(1, a=2) == ((1,), {"a": 2})
    assert original.calls == 1
    with pytest.raises(LookupError, match="the user's own") as caught:
        wrapped(fail=True)
    assert original.calls == 2
    assert caught.value.__context__ is None
    assert wrapped.__name__ == "original"
    assert capfd.readouterr().err.count("\n") == (1 if broken in (before, after) else 0)


def test_after_gets_state_result_and_error(session):
    seen = []
    wrapped = around(original, lambda a, k: (a, k), lambda *got: seen.append(got), session.breaker("test"))
    wrapped(5)
    with pytest.raises(LookupError):
        wrapped(fail=True)
    assert seen[0] == (((5,), {}), ((5,), {}), None)
    assert seen[1][:2] == (((), {"fail": True}), None)
    assert isinstance(seen[1][2], LookupError)


def test_collector_that_keeps_failing_is_switched_off(session, spool, capfd):
    calls = []

    def before(args, kwargs):
        calls.append(1)
        raise RuntimeError("ours")

    breaker = session.breaker("test.breaker")
    wrapped = around(original, before, lambda *_: None, breaker)
    for _ in range(LIMIT + 20):
        wrapped()
    assert original.calls == LIMIT + 20
    assert (len(calls), breaker.faults, breaker.on) == (LIMIT, LIMIT, False)
    assert session.breaker("test.breaker") is breaker
    session.thread_spool().add(Phase.FETCH, 0, 1, 2)
    faults = only(spool).facts("fault")
    assert [(f["where"], f["error"], f["count"]) for f in faults] == [
        ("test.breaker", "RuntimeError: ours", 1),
        ("test.breaker", "RuntimeError: ours", 10),
    ]
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert "no longer recorded" in lines[1]


def test_keyboard_interrupt_is_never_swallowed(session):
    def interrupted(*_):
        raise KeyboardInterrupt

    wrapped = around(original, interrupted, lambda *_: None, session.breaker("test"))
    with pytest.raises(KeyboardInterrupt):
        wrapped()
