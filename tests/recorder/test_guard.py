"""Nothing of ours changes what a wrapped function does, however badly ours behaves."""

import pytest
from tests.recorder.reading import only

from holter.recorder.guard import LIMIT
from holter.recorder.patches import followed, preceded
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


@pytest.mark.parametrize("wrap", [preceded, followed])
@pytest.mark.parametrize("call", [broken, lambda *args, **kwargs: None])
def test_original_is_called_once_with_its_own_arguments_and_errors(session, wrap, call, capfd):
    wrapped = wrap(original, call, session.breaker("test"))
    assert wrapped(1, a=2) == ((1,), {"a": 2})
    assert original.calls == 1
    with pytest.raises(LookupError, match="the user's own") as caught:
        wrapped(fail=True)
    assert original.calls == 2
    assert caught.value.__context__ is None
    assert [frame.name for frame in caught.traceback][1:] == ["original"]
    assert capfd.readouterr().err.count("\n") == (1 if call is broken else 0)


def test_the_call_gets_the_arguments_and_after_the_original_the_result(session):
    seen = []

    def note(*args, **kwargs):
        seen.append((args, kwargs))

    breaker = session.breaker("test")
    preceded(original, note, breaker)(5, a=1)
    followed(original, note, breaker)(6)
    with pytest.raises(LookupError):
        followed(original, note, breaker)(fail=True)
    assert seen == [((5,), {"a": 1}), ((((6,), {}), 6), {})]


def test_collector_that_keeps_failing_is_switched_off(session, spool, capfd):
    calls = []

    def fail(*args, **kwargs):
        calls.append(1)
        raise RuntimeError("ours")

    breaker = session.breaker("test.breaker")
    wrapped = preceded(original, fail, breaker)
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

    wrapped = preceded(original, interrupted, session.breaker("test"))
    with pytest.raises(KeyboardInterrupt):
        wrapped()
