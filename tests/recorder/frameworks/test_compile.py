"""`torch.compile` in the ways it is used; the aot_eager back end needs no C compiler."""

from __future__ import annotations

import pytest
from tests.recorder.frameworks.conftest import PRELUDE, Runner

from holter.schema.phases import Mode, Phase

pytestmark = pytest.mark.slow


@pytest.fixture
def record(cold):
    """Start Python anew: when a compiler is imported is part of what is tested."""
    return cold


LOOP = """
import torch._dynamo.testing
torch._dynamo.config.error_on_recompile = True
counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
{model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data(), batch_size=4):
    optimizer.zero_grad()
    {loss}
    loss.backward()
    optimizer.step()
print(counter.frame_count, [len(graph.graph.nodes) for graph in counter.graphs])
"""

WAYS = {
    "wrapped": (
        "model = torch.compile(Net(), backend=counter)",
        "loss = nn.functional.cross_entropy(model(x), y)",
    ),
    "in place": (
        "model = Net(); model.compile(backend=counter, fullgraph=True)",
        "loss = nn.functional.cross_entropy(model(x), y)",
    ),
    "called before": (
        "model = Net(); model(torch.randn(4, 8)); model = torch.compile(model, backend=counter)",
        "loss = nn.functional.cross_entropy(model(x), y)",
    ),
    "function": (
        "model = Net().to('cpu'); model(torch.randn(4, 8))\n"
        "g = lambda x, y: nn.functional.cross_entropy(model(x), y)\n"
        "f = torch.compile(g, backend=counter, fullgraph=True)",
        "loss = f(x, y)",
    ),
    "beneath": (
        "model = Net(); model(torch.randn(4, 8)); model = torch._dynamo.optimize(counter)(model)",
        "loss = nn.functional.cross_entropy(model(x), y)",
    ),
    "part": (
        "model = Net(); model.body = torch.compile(model.body, backend=counter); model.to('cpu')",
        "loss = nn.functional.cross_entropy(model(x), y)",
    ),
}


def loop(way):
    """Return the training in which one way is taken."""
    model, loss = WAYS[way]
    return LOOP.format(model=model, loss=loss)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What each way prints without holter; one process compiles them all, for most of it is its start."""
    ways = {way: PRELUDE + loop(way) for way in WAYS}
    script = (
        f"import torch\nfor text in {list(ways.values())!r}:\n    torch._dynamo.reset(); exec(text, {{}})\n"
    )
    lines = Runner(tmp_path_factory.mktemp("alone")).plain(script).splitlines(keepends=True)
    return dict(zip(ways, lines, strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_compiled_training(record, alone, way):
    recording = record(loop(way))
    assert recording.stdout == alone[way]  # as many graphs, of the same size
    trainer = recording.trainer
    steps = trainer.of(Phase.STEP)
    assert len(steps) == 8
    for phase in (Phase.BACKWARD, Phase.OPTIMIZER):
        assert trainer.per_step(phase) == [1] * 8
    forward = [s for s in trainer.of(Phase.FORWARD) if s.begin > steps[0].begin and s.mode is Mode.TRAIN]
    first = int(way == "beneath")  # there a compiler is noticed amid its first call
    if way != "function":  # a compiled function is no module: nobody says that it is the forward pass
        assert trainer.per_step(Phase.FORWARD)[1:] == [1] * 7
        assert trainer.per_step(Phase.LOSS)[first:] == [1] * (8 - first)
        assert {s.name for s in forward} == {"Net"}
    compiles = trainer.of(Phase.COMPILE)
    assert compiles
    assert {s.step for s in compiles} <= set(range(first + 1))


def test_compiled_backward_and_optimizer(record):
    recording = record("""
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        @torch.compile(backend="eager")
        def step(x, y):
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        for x, y in DataLoader(data(), batch_size=4):
            step(x, y)
    """)
    # Nothing of ours is in the graph, so a step is only known to be over when the next batch is asked for.
    steps = recording.trainer.of(Phase.STEP)
    assert len(steps) == 8
    assert recording.trainer.per_step(Phase.DATA_LOADING, "next batch") == [1] * 8


def test_transfers_and_data_in_a_compiled_function(record):
    recording = record("""
        @torch.compile(backend="eager", fullgraph=True)
        def f(x):
            return x.to(torch.float64).to("cpu") * 2
        print(f(torch.ones(2)).tolist())
        model = Net().eval()
        @torch.compile(backend="eager", fullgraph=True)
        def g(x):
            return model(x).sum()
        g(torch.ones(2, 8))
    """)
    assert recording.stdout == "[2.0, 2.0]\n"


def test_an_export_is_no_forward_pass(record):
    recording = record("""
        model, (x, y) = Net(), next(iter(DataLoader(data(), batch_size=4)))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(x).sum().backward()
        optimizer.step()
        print(len(torch.export.export(model, (x,), strict=False).graph.nodes))
    """)
    assert recording.stdout == record.again()
    assert len(recording.trainer.of(Phase.FORWARD)) == 1


EAGER = """
import torch._dynamo
torch.manual_seed(5)
{before}
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(data(), batch_size=4):
    loss = nn.functional.cross_entropy(model({x}), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
if {before!r}:
    print(torch._dynamo.utils.counters["stats"]["unique_graphs"], torch._dynamo.utils.counters["frames"])
"""
HELPER = 'helper = torch.compile(lambda x: x * 2, backend="aot_eager")'


@pytest.mark.parametrize(
    ("before", "x"), [(HELPER, "x"), (HELPER, "helper(x)")], ids=["never called", "called"]
)
def test_a_compiled_helper_hides_no_phase(record, before, x):
    """Libraries decorate functions when they are imported; DeepSpeed does, and calls few of them."""
    script = EAGER.format(before=before, x=x)
    recording = record(script)
    assert recording.stdout == record.again()
    trainer = recording.trainer
    late = 0 if x == "x" else 1  # hooks go before the helper is traced, which is before the model is known
    assert trainer.per_step(Phase.BACKWARD) == trainer.per_step(Phase.OPTIMIZER) == [1] * 8
    forward = trainer.per_step(Phase.FORWARD)
    assert forward == ([1] * 8 if not late else [0] * 8)
    assert trainer.per_step(Phase.LOSS) == forward
