"""Orders carried out: once an issue, in order, within limits, again after failures, on after a restart."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass

import pytest
from tests.actions.conftest import NOW, issue, rule
from tests.actions.receivers import http

from holter.actions import Action, Limits, Secrets, parameter
from holter.actions._dispatcher import Dispatcher
from holter.actions._orders import Order, choose

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded(Action):
    """Keeps what it was asked for, as an action of somebody else's package would."""

    log: tuple[str, ...] = parameter(())

    def act(self, occasion, secrets):
        DONE.append((occasion.rule, occasion.issue["code"], occasion.time))
        return "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken(Action):
    """Fails in a way nobody thought of."""

    def act(self, occasion, secrets):
        DONE.append("tried")
        raise ZeroDivisionError("ours")


DONE: list = []


@pytest.fixture(autouse=True)
def fresh():
    DONE.clear()


class Clock:
    """A clock that tests set."""

    def __init__(self):
        self.now = NOW
        self.pauses = []

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.pauses.append(seconds)
        self.now += round(seconds * SECOND)


@pytest.fixture
def clock():
    return Clock()


def offered(dispatcher, *rules):
    """Offer rules and wait until all is done; returns the issues' actions."""
    rules = list(rules)
    dispatcher.offer(rules)
    dispatcher.close(10)
    dispatcher.annotate(rules)
    return [one.get("actions", []) for told in rules for one in told["issues"]]


def results(actions):
    return [action["result"] for action in actions]


def test_it_acts_once_an_issue_whatever_is_offered_again(folder, clock):
    orders = [Order(name="recorded", action=Recorded())]
    dispatcher = Dispatcher(orders, folder, clock=clock)
    for count in (1, 2, 3):
        dispatcher.offer([rule(issue(count=count))])
    (actions,) = offered(dispatcher, rule(issue(count=4)))
    assert DONE == [("LossSpike", "loss", NOW)]
    assert actions == [{"name": "recorded", "result": "ok", "time": NOW, "text": "kept", "tries": 1}]


def test_nothing_is_done_twice_after_a_restart_and_nothing_is_lost(folder, clock):
    orders = [Order(name="recorded", action=Recorded())]
    dispatcher = Dispatcher(orders, folder, clock=clock)
    offered(dispatcher, rule(issue(code="a")))
    state = json.loads(json.dumps(dispatcher.state()))
    assert dispatcher.changed is False
    offered(Dispatcher(orders, folder, state=state, clock=clock), rule(issue(code="a"), issue(code="b")))
    assert [code for _, code, _ in DONE] == ["a", "b"]
    state["recorded"][next(iter(state["recorded"]))][0] = "pending"  # it died in the middle
    offered(Dispatcher(orders, folder, state=state, clock=clock), rule(issue(code="a")))
    assert [code for _, code, _ in DONE] == ["a", "b", "a"]


@pytest.mark.parametrize(
    "state", [{"recorded": 3}, {"recorded": {"x": []}}, {"recorded": {"x": ["ok", "y"]}}]
)
def test_a_damaged_state_is_none(state, folder, clock):
    offered(
        Dispatcher([Order(name="recorded", action=Recorded())], folder, state=state, clock=clock),
        rule(issue()),
    )
    assert len(DONE) == 1


def test_only_what_an_order_is_bound_to(folder, clock):
    orders = [
        Order(name="spikes", action=Recorded(), on=("LossSpike",), severity="warning"),
        Order(name="all", action=Recorded()),
    ]
    told = [rule(issue(severity="info", code="low"), issue(code="high")), rule(issue(), name="DeadRelu")]
    actions = offered(Dispatcher(orders, folder, clock=clock), *told)
    assert [[one["name"] for one in done] for done in actions] == [["all"], ["spikes", "all"], ["all"]]


def test_an_issue_that_grows_worse_is_acted_upon_then(folder, clock):
    dispatcher = Dispatcher([Order(name="r", action=Recorded(), severity="critical")], folder, clock=clock)
    dispatcher.offer([rule(issue(severity="warning"))])
    (actions,) = offered(dispatcher, rule(issue(severity="critical")))
    assert results(actions) == ["ok"]


def test_a_severity_that_there_is_not_is_told_of_all_the_same(folder, clock):
    dispatcher = Dispatcher([Order(name="r", action=Recorded(), severity="critical")], folder, clock=clock)
    (actions,) = offered(dispatcher, rule(issue(severity="fatal")))
    assert results(actions) == ["ok"]


def test_cooldown_counts_by_the_clock_that_was_passed_in(folder, clock):
    orders = [Order(name="r", action=Recorded(), limits=Limits(cooldown_s=60))]
    state = None
    seen = []
    for code, later in (("a", 0), ("b", 59), ("c", 1), ("d", 30)):
        clock.now += later * SECOND
        dispatcher = Dispatcher(orders, folder, state=state, clock=clock)
        (actions,) = offered(dispatcher, rule(issue(code=code)))
        seen.append(actions[0])
        state = dispatcher.state()
    assert results(seen) == ["ok", "skipped_cooldown", "ok", "skipped_cooldown"]
    assert "59 s ago, cooldown_s=60" in seen[1]["text"]


def test_dedupe_is_for_each_rule_by_itself(folder, clock):
    orders = [Order(name="r", action=Recorded(), limits=Limits(dedupe_s=900))]
    told = [rule(issue(code="a"), issue(code="b")), rule(issue(), name="DeadRelu")]
    actions = offered(Dispatcher(orders, folder, clock=clock), *told)
    assert [results(done) for done in actions] == [["ok"], ["skipped_cooldown"], ["ok"]]


def test_max_per_run(folder, clock):
    orders = [Order(name="r", action=Recorded(), limits=Limits(max_per_run=2))]
    told = rule(*(issue(rank=n) for n in range(4)))
    actions = offered(Dispatcher(orders, folder, clock=clock), told)
    assert [results(done) for done in actions] == [["ok"], ["ok"], ["skipped_limit"], ["skipped_limit"]]


def test_orders_are_carried_out_in_their_order(folder, clock):
    orders = choose(["tag:key=first", "tag:key=second,value=2", "log"])
    (actions,) = offered(Dispatcher(orders, folder, clock=clock), rule(issue()))
    assert [one["name"] for one in actions] == ["tag", "tag-2", "log"]
    assert folder.manifest()["tags"] == {"first": "LossSpike", "second": "2"}


def test_a_receiver_that_fails_twice_is_tried_three_times(folder, clock):
    orders = choose(["webhook:url_env=HOOK"])
    with http() as hook:
        hook.answers = [(503, {}, b""), (500, {"Retry-After": "9"}, b"")]
        dispatcher = Dispatcher(
            orders, folder, clock=clock, wait=clock.wait, secrets=Secrets({"HOOK": hook.url})
        )
        (actions,) = offered(dispatcher, rule(issue()))
    assert results(actions) == ["ok"]
    assert actions[0]["tries"] == 3
    assert clock.pauses == [1.0, 9.0], "the receiver asked for nine seconds, the usual are two"
    ids = {json.loads(body)["id"] for *_, body in hook.requests}
    assert (len(hook.requests), len(ids)) == (3, 1), "a receiver can tell that it is the same event"


def test_it_gives_up_and_says_what_the_last_answer_was(folder, clock):
    orders = choose(["webhook:url_env=HOOK,retries=2"])
    with http() as hook:
        hook.answers = [(503, {}, b"busy")] * 3
        dispatcher = Dispatcher(
            orders, folder, clock=clock, wait=clock.wait, secrets=Secrets({"HOOK": hook.url})
        )
        (actions,) = offered(dispatcher, rule(issue()))
    assert (actions[0]["result"], actions[0]["tries"]) == ("failed", 3)
    assert actions[0]["text"] == "HTTP 503: busy"
    assert clock.pauses == [1.0, 2.0]


def test_what_can_never_work_is_tried_once_and_the_next_order_goes_on(folder, clock):
    orders = [Order(name="broken", action=Broken()), Order(name="r", action=Recorded())]
    (actions,) = offered(Dispatcher(orders, folder, clock=clock, wait=clock.wait), rule(issue()))
    assert [(one["name"], one["result"], one["tries"]) for one in actions] == [
        ("broken", "failed", 1),
        ("r", "ok", 1),
    ]
    assert actions[0]["text"] == "ZeroDivisionError: ours"


def test_a_dry_run_says_what_it_would_do(folder, clock):
    orders = choose(
        [{"on": "LossSpike", "do": [{"stop_training": {"grace_s": 7}}]}], folder.manifest()["rules"]
    )
    (actions,) = offered(Dispatcher(orders, folder, clock=clock), rule(issue()))
    assert results(actions) == ["dry_run"]
    assert "stop_training (grace_s=7.0)" in actions[0]["text"]
    assert folder.control() == {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow(Action):
    """Waits for a test."""

    def act(self, occasion, secrets):
        STARTED.set()
        GO.wait(10)
        DONE.append(occasion.issue["code"])
        return ""


STARTED, GO = threading.Event(), threading.Event()


def test_the_queue_is_bounded_and_never_blocks(folder, clock):
    STARTED.clear()
    GO.clear()
    dispatcher = Dispatcher([Order(name="slow", action=Slow())], folder, clock=clock, size=1)
    dispatcher.offer([rule(issue(code="0"))])
    assert STARTED.wait(10)
    told = rule(*(issue(code=str(n)) for n in range(4)))
    dispatcher.offer([told])  # one is under way, one waits, two find no room
    assert dispatcher.state()["slow"].keys() == {
        '["LossSpike", "0", "node", 1, null, null]',
        '["LossSpike", "1", "node", 1, null, null]',
    }
    dispatcher.annotate([told])
    assert results(told["issues"][0]["actions"]) == ["pending"]
    GO.set()
    for _ in range(1000):
        dispatcher.offer([told])
        if len(DONE) == 4:
            break
        threading.Event().wait(0.005)
    dispatcher.close(10)
    assert DONE == ["0", "1", "2", "3"], "what found no room is taken when it is offered again"


def test_the_end_of_a_job_waits_no_longer_than_it_is_told(folder, clock):
    STARTED.clear()
    GO.clear()
    dispatcher = Dispatcher([Order(name="slow", action=Slow())], folder, clock=clock)
    told = rule(issue())
    dispatcher.offer([told])
    assert STARTED.wait(10)
    dispatcher.close(0.05)
    assert dispatcher.state()["slow"].popitem()[1][0] == "pending", "another evaluator may go on with it"
    dispatcher.close(0.05, last=True)
    dispatcher.annotate([told])
    assert told["issues"][0]["actions"][0]["result"] == "failed"
    GO.set()


def test_orders_come_from_who_started_the_job_and_never_from_its_store(folder, clock):
    from holter.actions._orders import documents

    tags = documents(choose(["tag"]))
    folder.update(actions=tags)
    names = [{"name": rule()["name"]}]
    own, planted = Dispatcher.of(folder, tags, names, clock=clock), Dispatcher.of(folder, [], names)
    (known, other) = offered(own, rule(issue()), rule(issue(), name="RuleOfAnotherLook"))
    assert offered(planted, rule(issue())) == [[]]
    assert results(known) == ["ok"]
    assert other == [], "only the job's own rules count"


def test_a_failed_action_hides_what_it_knows():
    secrets = Secrets({"HOOK": "https://hooks.example.org/services/T000/B000/abcdefghijk?key=qwertyuiop"})
    url = secrets.need("HOOK", "webhook")
    said = f"{url} and /services/T000/B000/abcdefghijk and abcdefghijk and qwertyuiop"
    assert secrets.hide(said) == "*** and *** and *** and ***"
