"""Whatever torch does with models, loaders and tensors, it does the same when it is recorded."""

from __future__ import annotations

import pytest

from holter.schema.phases import Phase


@pytest.fixture
def record(cold):
    """Start Python anew: whatever happens at its start is as ever, too."""
    return cold


TRAINED = """
torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for x, y in DataLoader(data(), batch_size=4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
x = data().tensors[0]
"""

IDENTICAL = """
import sys, random, hashlib
import numpy as np

class Noisy(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return torch.randn(8) + i / 64 + random.random() + np.random.rand(), i % 2

if __name__ == "__main__":
    torch.manual_seed(0); random.seed(0); np.random.seed(0)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cpu", enabled=True)
    digest = hashlib.sha256()
    for epoch in range(2):
        model.train()
        for x, y in DataLoader(Noisy(), batch_size=8, shuffle=True, num_workers=int(sys.argv[1])):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            digest.update(repr(loss.item()).encode())
        model.eval()
        with torch.no_grad():
            digest.update(repr(model(torch.randn(4, 8)).tolist()).encode())
    digest.update(repr([p.tolist() for p in model.parameters()]).encode())
    digest.update(repr((torch.rand(3).tolist(), random.random(), np.random.rand())).encode())
    print(digest.hexdigest())
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_results_are_identical_to_the_last_bit(record, workers):
    assert record(IDENTICAL, workers).stdout == record.plain(IDENTICAL, workers)


def test_models_are_copied_pickled_traced_and_exported_as_ever(record):
    trainer = record(
        TRAINED
        + """
import copy, io, pickle, sys, tempfile, os, warnings
warnings.simplefilter("ignore")
model.eval()
want = model(x)
assert not [name for name in vars(model) if "holter" in name], vars(model).keys()
assert not model._forward_hooks and not model._forward_pre_hooks
assert not nn.modules.module._has_any_global_hook()  # discovery is over
assert torch.equal(copy.deepcopy(model)(x), want)
again = pickle.loads(pickle.dumps(model))
assert torch.equal(again(x), want)
assert b"holter" not in pickle.dumps(model)
buffer = io.BytesIO()
torch.save({"model": model, "optimizer": optimizer, "state": model.state_dict()}, buffer)
assert b"holter" not in buffer.getvalue()
buffer.seek(0)
assert torch.equal(torch.load(buffer, weights_only=False)["model"](x), want)
traced = torch.jit.trace(model, x)
assert torch.equal(traced(x), want)
assert torch.equal(torch.jit.script(model)(x), want)
graph = torch.fx.symbolic_trace(model)
assert torch.equal(graph(x), want)
assert [n.op for n in graph.graph.nodes].count("call_module") == 4, graph.graph
graph.recompile()
assert torch.equal(copy.deepcopy(graph)(x), want)
exported = torch.export.export(model, (x,))
assert torch.equal(exported.module()(x), want)
assert os.path.dirname(sys.modules["holter"].__file__) not in str(exported), exported
parameters = dict(model.named_parameters())
rows = torch.func.vmap(lambda row: torch.func.functional_call(model, parameters, (row,)))(x)
assert torch.allclose(rows, want, atol=1e-6)
with warnings.catch_warnings():
    warnings.simplefilter("error")
    nn.Linear(3, 3).to(torch.float64)
print("fine")
"""
    )
    assert trainer.stdout == "fine\n"


def test_wrapped_modules_and_tensors_are_seen_by_nobody_else(record):
    recording = record(
        TRAINED
        + """
class Logged(torch.Tensor):
    seen = []
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})
t = torch.ones(2).as_subclass(Logged)
t.to(torch.float64)
t.sum()
print(Logged.seen)

class Mode(torch.overrides.TorchFunctionMode):
    seen = []
    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))
with Mode():
    loss = model(x).sum()
    loss.backward()
    x.to(torch.float64)
print(Mode.seen)
from torch.utils.flop_counter import FlopCounterMode
from torch.utils._python_dispatch import TorchDispatchMode
class Ops(TorchDispatchMode):
    seen = []
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))
with Ops():
    model(x).sum().backward()
print(Ops.seen)
"""
    )
    assert recording.stdout == record.again()


def test_detached_torch_is_as_it_was(record):
    recording = record(
        """
        from holter.recorder import session
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def loop():
            for x, y in DataLoader(data(), batch_size=8):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
        loop()
        model.eval()
        session.current.close()
        loop()
        import gc, os, sys
        ours = os.path.dirname(sys.modules["holter"].__file__) + os.sep
        places = [torch, torch.autograd, torch.Tensor, nn.Module, DataLoader, torch.optim.Optimizer, Net,
                  torch.amp.GradScaler, torch.distributed, torch.distributed.distributed_c10d,
                  nn.parallel.DistributedDataParallel, torch.utils.data._utils.fetch._MapDatasetFetcher,
                  torch.utils.data._utils.worker, torch.utils.data.dataloader._BaseDataLoaderIter]
        left = [(place, name) for place in places for name, value in vars(place).items()
                if isinstance(value, type(loop)) and value.__code__.co_filename.startswith(ours)]
        optim = sys.modules["torch.optim.optimizer"]
        print(left, len(optim._global_optimizer_pre_hooks), [c for c in gc.callbacks if "holter" in repr(c)],
              bool(nn.modules.module._has_any_global_hook()))
        """
    )
    assert recording.stdout == "[] 0 [] False\n"
    assert len(recording.trainer.of(Phase.STEP)) == 4


def test_disabled_means_nothing_is_there(record, monkeypatch):
    monkeypatch.setenv("HOLTER_DISABLE", "1")
    recording = record("""
        import os, sys
        loaded = [name for name in sys.modules if name.startswith("holter")]
        print(loaded, torch.save.__code__.co_filename.startswith(os.path.dirname(torch.__file__)))
    """)
    assert recording.stdout == "[] True\n"
    assert not recording.processes


def test_a_fault_of_ours_never_reaches_the_training(record, hooks):
    recording = record(
        """
        from holter.recorder import session
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        def broken(*args, **kwargs):
            raise RuntimeError("a bug of the recorder")
        def break_marks(broken):
            import gc
            from holter.recorder.frameworks.pytorch.stepping.step_hooks import FastThreadState
            for state in gc.get_objects():
                if isinstance(state, FastThreadState):
                    state.begin = state.end_of = state.add = broken
        for i, (x, y) in enumerate(DataLoader(data(128), batch_size=4)):
            if i == 4:
                break_marks(broken)
                session.current.boundary = session.current.woken = broken
                session.current.wake[0] = 0
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        print(i)
        """,
        quiet=False,
    )
    assert recording.stdout == "31\n"
    assert "a bug of the recorder" in recording.stderr
    faults = recording.trainer.facts["fault"]
    told = {"pytorch.optimizer"} if hooks else {"pytorch.forward", "pytorch.backward", "pytorch.data_loading"}
    assert told <= {fault["where"] for fault in faults}
    assert max(f["count"] for f in faults) == 10  # then it is off
