"""Data loading: waits in the training process, batches and stacks where they are built."""

from __future__ import annotations

import re

import pytest

from holter.schema.phases import Phase

pytestmark = pytest.mark.slow

SLOW = """
import os, sys, time

spent = {"decode": 0.0, "jitter": 0.0}

def decode(i):
    begin = time.perf_counter()
    while time.perf_counter() < begin + 0.006:
        pass
    spent["decode"] += time.perf_counter() - begin
    return torch.full((8,), float(i))

class Jitter:
    def __call__(self, x):
        begin = time.perf_counter()
        time.sleep(0.002)
        spent["jitter"] += time.perf_counter() - begin
        return x

class Slow(Dataset):
    jitter = Jitter()
    def __len__(self):
        return 96
    def __getitem__(self, i):
        found = self.jitter(decode(i)), i % 2
        with open(f"spent-{os.getpid()}", "w") as told:
            told.write(str(spent["decode"] / sum(spent.values())))
        return found

def my_collate(samples):
    time.sleep(0.002)
    return torch.utils.data.default_collate(samples)
"""

LOOP = """
if __name__ == "__main__":
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


def shares(process) -> dict[str, float]:
    stacks = process.of(Phase.STACK)
    total = sum(s.duration for s in stacks)
    found: dict[str, float] = {}
    for s in stacks:
        found[s.name] = found.get(s.name, 0) + s.duration / total
    return found


def spent_on_decoding(process, folder) -> float:
    """Return the share of the time on samples that a process itself says it decoded."""
    return float((folder / f"spent-{process.identity['pid']}").read_text())


def test_batches_built_by_the_training_process(record, tmp_path):
    recording = record(
        SLOW
        + """
def loader():
    return DataLoader(torch.utils.data.Subset(Slow(), range(96)), batch_size=8, collate_fn=my_collate)
"""
        + LOOP
    )
    trainer = recording.trainer
    waits = trainer.of(Phase.DATA_LOADING, "next batch")
    fetches, collates = trainer.of(Phase.FETCH), trainer.of(Phase.COLLATE)
    assert len(waits) == 13  # the last one finds nothing more
    assert [f.value for f in fetches] == [8.0] * 12
    assert len(trainer.of(Phase.DATA_LOADING, "iterator start")) == 1
    for fetch, wait, collate in zip(fetches, waits, collates, strict=False):
        assert fetch.inside(wait)
        assert collate.inside(fetch)
    assert re.fullmatch(r"my_collate \(train\.py:\d+\)", collates[0].name)
    # What the samples stand for is the time spent on samples, collating apart.
    sampled = sum(s.duration for s in trainer.of(Phase.STACK))
    worked = sum(f.duration for f in fetches) - sum(c.duration for c in collates)
    assert 0.85 * worked < sampled <= worked
    paths = shares(trainer)
    for name in paths:
        assert re.match(r"Slow\.__getitem__ \(train\.py:\d+\)(;|$)", name), name
    decoding = sum(v for k, v in paths.items() if re.search(r";decode \(train\.py:\d+\)$", k))
    jitter = sum(v for k, v in paths.items() if ";Jitter.__call__ " in k)
    # About three quarters; where others keep the machine busy, whatever it really was.
    truth = spent_on_decoding(trainer, tmp_path)
    assert decoding == pytest.approx(truth, abs=0.15)
    assert jitter == pytest.approx(1 - truth, abs=0.15)


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_batches_built_by_workers(record, tmp_path, context):
    recording = record(
        SLOW
        + f"""
def loader():
    return DataLoader(Slow(), batch_size=8, num_workers=2, multiprocessing_context="{context}")
"""
        + LOOP
    )
    trainer = recording.trainer
    assert trainer.facts["loader"] == [
        {
            "index": 0,
            "kind": "multi",
            "workers": 2,
            "batch_size": 8,
            "batches": 12,
            "pin_memory": False,
            "prefetch_factor": 2,
            "persistent_workers": False,
            "dataset": "__main__.Slow",
        }
    ]
    assert not trainer.of(Phase.FETCH)
    assert len(trainer.of(Phase.STEP)) == 12
    assert {s.value for s in trainer.of(Phase.DATA_LOADING)} == {0.0}
    started = trainer.identity["started"]
    key = f"{trainer.identity['pid']}-{started}"
    assert sorted(w.identity["worker"] for w in recording.workers) == [0, 1]
    for worker in recording.workers:
        assert worker.identity["parent"] == key
        assert [f.value for f in worker.of(Phase.FETCH, "loader 0")] == [8.0] * 6
        assert {s.step for s in worker.spans} == {-1}
        assert not [
            s for s in worker.spans if s.phase not in (Phase.FETCH, Phase.COLLATE, Phase.STACK, Phase.GC)
        ]
    # Both together: one worker alone is seen in some forty samples, fewer where the machine is busy.
    decoding = [sum(v for k, v in shares(worker).items() if ";decode (" in k) for worker in recording.workers]
    truth = [spent_on_decoding(worker, tmp_path) for worker in recording.workers]
    assert sum(decoding) / 2 == pytest.approx(sum(truth) / 2, abs=0.25)


def test_iterable_dataset_persistent_workers_and_several_epochs(record):
    recording = record("""
        import time
        class Stream(IterableDataset):
            def __iter__(self):
                info = torch.utils.data.get_worker_info()
                for i in range(20):
                    time.sleep(0.003)  # read
                    yield torch.full((8,), float(i)), 1
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(Stream(), batch_size=8, num_workers=1, persistent_workers=True)
        for epoch in range(2):
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    """)
    assert len(recording.trainer.of(Phase.STEP)) == 6
    assert len(recording.trainer.facts["loader"]) == 1
    (worker,) = recording.workers
    assert [f.value for f in worker.of(Phase.FETCH)][:3] == [8.0, 8.0, 8.0]
    line = "time.sleep(0.003)"
    names = {s.name for s in worker.of(Phase.STACK)}
    assert any(re.fullmatch(r"Stream\.__iter__ \(train\.py:\d+\)", n) for n in names), (line, names)


def test_ending_the_workers_of_an_epoch_that_was_left_is_data_loading(record):
    recording = record(
        """
    import time

    class Slow(Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, i):
            if i == 8:
                time.sleep(0.4)
            return torch.zeros(8), 0

    if __name__ == "__main__":
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(Slow(), batch_size=4, num_workers=1)
        for epoch in range(3):
            batches = iter(loader)
            for batch in range(2):
                x, y = next(batches)
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            began = time.perf_counter()
            del batches
            print("ended", time.perf_counter() - began)
    """
    )
    ends = [span for span in recording.trainer.of(Phase.DATA_LOADING) if span.name == "iterator end"]
    told = [float(line.split()[1]) for line in recording.stdout.splitlines() if line.startswith("ended")]
    assert len(ends) == len(told) == 3
    assert max(told) > 0.2
    for span, seconds in zip(ends, told, strict=True):
        assert 0.5 * seconds < span.duration / 1e9 <= seconds
    assert "fault" not in recording.trainer.facts


def test_dataset_that_takes_lists_of_indices_and_one_without_batches(record):
    trainer = record("""
        import time
        class Table(Dataset):
            def __len__(self):
                return 72
            def __getitem__(self, i):
                time.sleep(0.01)
                return torch.zeros(8), 0
            def __getitems__(self, indices):
                time.sleep(0.03)
                return [(torch.zeros(8), 0) for _ in indices]
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for loader in (DataLoader(Table(), batch_size=6), DataLoader(Table(), batch_size=None)):
            for x, y in loader:
                optimizer.zero_grad()
                model(x).sum().backward()
                optimizer.step()
    """).trainer
    assert [f.value for f in trainer.of(Phase.FETCH)] == [6.0] * 12 + [1.0] * 72
    names = {s.name.split(" ")[0] for s in trainer.of(Phase.STACK)}
    assert {"Table.__getitems__", "Table.__getitem__"} <= names
    assert {s.value for s in trainer.of(Phase.DATA_LOADING)} == {0.0, 1.0}


def test_torchs_own_dataset_is_named_when_there_is_no_other(record):
    trainer = record("""
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in DataLoader(data(20000), batch_size=10000):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    """).trainer
    names = {s.name for s in trainer.of(Phase.STACK)}
    assert names
    assert all(
        re.match(r"TensorDataset\.__getitem__.* \(torch/utils/data/dataset\.py:\d+\)$", n) for n in names
    ), names


def test_of_fetches_that_take_no_time_only_some_are_recorded(record):
    trainer = record("""
        class Quick(Dataset):
            def __len__(self):
                return 320
            def __getitem__(self, i):
                return torch.zeros(8), 0
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in DataLoader(Quick(), batch_size=1):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    """).trainer
    assert len(trainer.of(Phase.DATA_LOADING, "next batch")) == 321
    fetches, collates = trainer.of(Phase.FETCH), trainer.of(Phase.COLLATE)
    # One in seven; a slow moment of the machine makes a fetch a long one, and the next is recorded too.
    assert 320 / 7 - 1 < len(fetches) < 200
    assert len(collates) == len(fetches)
    assert all(collate.inside(fetch) for fetch, collate in zip(fetches, collates, strict=True))


def test_a_dataset_that_raises_raises(record):
    recording = record(
        """
        class Broken(Dataset):
            def __len__(self):
                return 8
            def __getitem__(self, i):
                raise OSError("no such image")
        try:
            next(iter(DataLoader(Broken())))
        except OSError as error:
            print("caught", error)
        next(iter(DataLoader(Broken(), num_workers=1)))
        """,
        exit_code=1,
    )
    assert "caught no such image" in recording.stdout
    assert "OSError" in recording.stderr
    (exception,) = recording.trainer.facts["exception"]
    assert exception["phase"] == "data_loading"


def test_threads_that_load_at_the_same_time_are_no_fault(record):
    recording = record("""
        import sys, threading
        sys.setswitchinterval(1e-5)
        def train():
            model = Net()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in DataLoader(data(256), batch_size=4):
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
        for _ in range(3):
            threads = [threading.Thread(target=train) for _ in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
    """)  # a fault fails
    assert len(recording.trainer.of(Phase.DATA_LOADING, "next batch")) > 700


def test_an_iterator_that_is_made_before_the_model_does_not_begin_the_first_step(record):
    recording = record(
        """
import time

batches = iter(DataLoader([(torch.randn(8), i % 2) for i in range(32)], batch_size=8))
time.sleep(1.5)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in batches:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
    )
    steps = recording.trainer.of(Phase.STEP)
    assert len(steps) == 4
    assert steps[0].begin == min(one.begin for one in recording.trainer.of(Phase.DATA_LOADING, "next batch"))


def test_an_iterator_that_is_made_for_the_loop_begins_the_first_step(record):
    recording = record(
        """
def loader():
    return DataLoader([(torch.randn(8), i % 2) for i in range(32)], batch_size=8)
"""
        + LOOP
    )
    start = recording.trainer.of(Phase.DATA_LOADING, "iterator start")[0]
    assert recording.trainer.of(Phase.STEP)[0].begin == start.begin
