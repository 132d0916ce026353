"""What slowed one of two jobs, in words."""

from holter.views.comparison.disturbed import between, told

QUIET = {
    "step_ms": 20.0, "cpu_ms": 20.0, "waited_pct": 1.0, "workers_waited_pct": None, "several_threads": False,
    "foreign_cores": 0.0, "programs": [], "throttled_pct": None, "gpu_slowed_pct": None, "clock": None,
}  # fmt: skip
BUSY = QUIET | {
    "step_ms": 33.0,
    "cpu_ms": 21.0,
    "waited_pct": 40.0,
    "foreign_cores": 1.2,
    "programs": ["cc (me)"],
}


def said(before, after, ratio):
    return told(between(before, after), ("old", "new"), (ratio * 0.99, ratio * 1.01))


def test_the_wait_its_reason_and_equal_cpu_times_are_told():
    found = said(QUIET, BUSY, 1.65)
    assert found["sentence"] == (
        "new waited 40 % of its time for a core (old: 1 %), as other programs used 1.2 cores (cc (me)); "
        "CPU times are about equal (20 ms and 21 ms for a step)"
    )
    assert (found["before"], found["after"], found["comparable"]) == ([], ["cores"], False)
    assert said(QUIET, QUIET, 1.65) is None
    assert said(BUSY, QUIET, 1.65)["comparable"]


def test_more_cpu_time_is_told_and_that_waiting_threads_add_to_it():
    grown = "CPU time per step grew by 50 % (20 ms and 30 ms for a step)"
    assert said(QUIET, BUSY | {"cpu_ms": 30.0}, 3.0)["sentence"].endswith(grown)
    threads = said(QUIET, BUSY | {"cpu_ms": 30.0, "several_threads": True}, 3.0)["sentence"]
    assert threads.endswith(f"{grown}, which includes threads that wait for one another")
    assert said(QUIET, BUSY | {"cpu_ms": None}, 3.0)["sentence"].endswith("(cc (me))")


def test_workers_quotas_and_clocks_are_told():
    workers = QUIET | {"workers_waited_pct": 30.0, "foreign_cores": 1.0}
    assert said(QUIET, workers, 2.0)["sentence"].startswith(
        "a data-loader worker of new waited 30 % of its time"
    )
    quota = said(QUIET | {"throttled_pct": 0.0}, QUIET | {"throttled_pct": 25.0}, 2.0)["sentence"]
    assert "the CPU quota stopped new in 25 % of the scheduling periods (old: 0 %)" in quota
    gpu = said(QUIET, QUIET | {"gpu_slowed_pct": 25.0}, 2.0)["sentence"]
    assert "heat or a fault lowered the GPU clocks of new 25 % of the time (old: unknown)" in gpu
    clock = said(QUIET | {"clock": 1.2}, QUIET | {"clock": 0.9}, 2.0)["sentence"]
    assert "the cores of new ran at 75 % of the clock speed of old" in clock


def test_programs_that_share_the_cores_are_told():
    shared = QUIET | {"step_ms": 30.0, "cpu_ms": 30.0, "foreign_cores": 0.5, "cores": 2.0}
    found = said(QUIET, shared, 1.5)
    assert (found["after"], found["comparable"]) == (["shared"], False)
    assert found["sentence"].startswith(
        "other programs used 0.5 of 2 cores beside new; CPU time per step grew"
    )


def test_unknown_conditions_are_told():
    found = said(QUIET, QUIET | {"waited_pct": None, "cpu_ms": None, "unread": True}, 1.65)
    assert found["sentence"].startswith("the conditions of new are unknown: ")
    assert (found["after"], found["comparable"]) == (["unread"], False)
