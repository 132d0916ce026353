"""A follower sees every row once, whatever is written, compacted or killed while it looks."""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.store.strategies import columns, new_job, numbered

from holter.store import job
from holter.store.compact import compact
from holter.store.follow import Follow
from holter.store.job import JobFolder
from holter.store.layout import parse_part
from holter.store.place import Entry, LocalPlace
from holter.store.trial import Trial
from holter.store.writer import Writer


class Killed(BaseException):
    """The process died here."""


class Dying(LocalPlace):
    """A real folder whose user is killed at the n-th thing it does to it."""

    def __init__(self, path: Path, lives: int) -> None:
        super().__init__(path)
        self.lives = lives

    def _live(self) -> None:
        self.lives -= 1
        if self.lives < 0:
            raise Killed

    def draft(self, key: str) -> Path:
        self._live()
        return super().draft(key)

    def add(self, key: str, draft: Path, *, durable: bool = False) -> None:
        self._live()
        super().add(key, draft, durable=durable)
        self._live()

    def delete(self, key: str) -> None:
        self._live()
        super().delete(key)


class Following(RuleBasedStateMachine):
    """Random writing, compacting, dying and reading, by several readers."""

    @initialize()
    def start(self) -> None:
        self.where = tempfile.TemporaryDirectory()
        self.folder = new_job(Path(self.where.name))
        self.writers = {node: Writer(self.folder, node) for node in ("a", "b")}
        self.written = 0
        self.flushed: set[int] = set()
        self.followers: list[tuple[Follow, list[int]]] = []
        self.ended = False

    @precondition(lambda self: not self.ended)
    @rule(node=st.sampled_from(["a", "b"]), count=st.integers(1, 5), files=st.integers(1, 4))
    def write(self, node: str, count: int, files: int) -> None:
        for _ in range(files):
            self.writers[node].append("scalars", columns(numbered(self.written, count)))
            assert self.writers[node].flush()
            self.flushed.update(range(self.written, self.written + count))
            self.written += count

    @precondition(lambda self: not self.ended)
    @rule(node=st.sampled_from(["a", "b"]))
    def start_the_writer_again(self, node: str) -> None:
        self.writers[node].close()
        self.writers[node] = Writer(self.folder, node)

    @rule(min_files=st.integers(2, 4))
    def compact(self, min_files: int) -> None:
        compact(self.folder, min_files=min_files)

    @rule(lives=st.integers(0, 8), min_files=st.integers(2, 3))
    def compact_and_die(self, lives: int, min_files: int) -> None:
        dying = JobFolder(Dying(Path(self.folder.url), lives), "job")
        with contextlib.suppress(Killed):
            compact(dying, min_files=min_files)

    @precondition(lambda self: len(self.followers) < 3)
    @rule()
    def start_a_follower(self) -> None:
        self.followers.append((Follow(self.folder), []))

    @precondition(lambda self: self.followers)
    @rule(which=st.integers(0, 2), max_rows=st.none() | st.integers(1, 10))
    def look(self, which: int, max_rows: int | None) -> None:
        follow, seen = self.followers[which % len(self.followers)]
        new = follow.new("scalars", max_rows=max_rows)
        assert list(new["time"]) == sorted(new["time"])
        seen.extend(new["step"].tolist())
        assert len(seen) == len(set(seen)), "a row came twice"
        if max_rows is None:
            assert set(seen) == self.flushed
            assert follow.finished == self.ended
        elif set(seen) != self.flushed:
            assert new.rows >= max_rows
            assert not follow.finished

    @precondition(lambda self: not self.ended)
    @rule()
    def end(self) -> None:
        self.folder.update(end=1)
        self.ended = True

    @invariant()
    def a_trial_sees_all(self) -> None:
        if hasattr(self, "folder"):
            trial = Trial(self.folder)
            assert sorted(trial.table("scalars", columns=["step"])["step"].tolist()) == sorted(self.flushed)
            assert trial.skipped == []

    def teardown(self) -> None:
        if hasattr(self, "where"):
            self.where.cleanup()


TestFollowing = Following.TestCase
TestFollowing.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)


def _write(store: str, files: int) -> None:
    folder = job.find(store, "job")
    writer = Writer(folder, "a")
    for n in range(files):
        writer.append("scalars", columns(numbered(10 * n, 10)))
        assert writer.flush()
        time.sleep(0.005)
    folder.update(end=1)


def _compact(store: str) -> None:
    folder = job.find(store, "job")
    ended = False
    while not ended:
        ended = folder.manifest().get("end") is not None
        compact(folder, min_files=3)


def test_real_processes_write_and_compact_while_others_read(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    spawn = multiprocessing.get_context("spawn")
    others = [spawn.Process(target=_compact, args=(str(tmp_path),)) for _ in range(2)]
    others.append(spawn.Process(target=_write, args=(str(tmp_path), 150)))
    for process in others:
        process.start()
    follow, trial = Follow(folder), Trial(folder)
    seen: list[int] = []
    before = 0
    deadline = time.monotonic() + 60
    while not follow.finished and time.monotonic() < deadline:
        seen += follow.new("scalars")["step"].tolist()
        rows = trial.table("scalars", columns=["step"]).rows
        assert rows >= before, "rows that were there are gone"
        assert (
            rows == trial.sql("SELECT count(*) AS n FROM scalars WHERE step < 10 * 150")["n"][0]
            or rows < 1500
        )
        before = rows
    for process in others:
        process.join(30)
        assert process.exitcode == 0
    seen += follow.new("scalars")["step"].tolist()
    assert sorted(seen) == list(range(1500))
    assert trial.skipped == follow.skipped == []
    assert len(folder.place.files("scalars")) < 20


def test_a_compacted_file_covers_its_sources_numbers(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    writer = Writer(folder, "a")
    for n in range(9):
        writer.append("scalars", columns(numbered(n, 1)))
        writer.flush()
    assert compact(folder) == 9
    (entry,) = folder.place.files("scalars")
    part = parse_part(entry.key)
    assert part is not None
    assert (part.first, part.last, part.t0) == (0, 8, 0)
    assert compact(folder) == 0
    writer.append("scalars", columns(numbered(9, 1)))
    writer.flush()
    numbers = sorted(p.first for e in folder.place.files("scalars") if (p := parse_part(e.key)))
    assert numbers == [0, 9]


def test_too_few_files_to_merge_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="min_files is 1"):
        compact(new_job(tmp_path), min_files=1)


class Torn(LocalPlace):
    """A folder whose listing is as a reader gets it that is in the middle of it while a compaction ends."""

    torn: frozenset[str] = frozenset()

    def files(self, folder: str = "") -> list[Entry]:
        entries = super().files(folder)
        missed, self.torn = self.torn, frozenset()
        return [entry for entry in entries if entry.key not in missed]


def test_a_listing_in_the_middle_of_a_compaction(tmp_path: Path) -> None:
    folder = new_job(tmp_path)
    writer = Writer(folder, "a")
    for n in range(3):
        writer.append("scalars", columns(numbered(n, 1)))
        writer.flush()
    compact(folder, min_files=3)
    torn = Torn(Path(folder.url))
    # The wide file came after the place in the folder where the listing was, its sources are gone already.
    torn.torn = frozenset(entry.key for entry in folder.place.files("scalars"))
    assert Trial(JobFolder(torn, "job")).table("scalars").rows == 3
