"""Losses of evaluations: computed by a function, with no backward pass that would tell them."""

from __future__ import annotations

import json

import pytest

from holter.schema.phases import Mode, Phase

LOOP = """
    import json
    from torch.nn import functional as F
    from torch.nn.functional import mse_loss as imported

    torch.manual_seed(0)
    x, y, hot = torch.randn(4, 8), torch.tensor([0, 1, 0, 1]), torch.eye(2)[[0, 1, 0, 1]]

    class Inside(Net):
        def forward(self, x, y=None):
            scores = super().forward(x)
            return scores if y is None else F.cross_entropy(scores, y)

    model = Inside()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    functions = vars(torch._C._nn)
    before = dict(functions), dict(vars(torch))
    told = []

    def train():
        model.train()
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        F.mse_loss(x, x)  # not evaluated: no loss

    def evaluate(loss, **kept):
        model.eval()
        with torch.no_grad():
            told.append([loss().item() for _ in range(2)])

    for _ in range(2):
        train()
    evaluate(lambda: F.cross_entropy(model(x), y))
    train()
    assert before == (dict(functions), dict(vars(torch)))
    evaluate(lambda: criterion(model(x), y))
    evaluate(lambda: imported(model(x), hot))
    train()
    evaluate(lambda: model(x, y))
    F.mse_loss(model(x), hot, reduction="none").sum()  # no number: none
    for _ in range(2):  # a model in evaluation mode that trains
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    scores = model(x)
    told.append([F.binary_cross_entropy_with_logits(scores, hot).item()])
    told.append([F.kl_div(scores.log_softmax(1), hot, reduction="batchmean").item()])
    print(json.dumps(told))
"""


def evaluated(trainer, name="loss"):
    """Steps and values of what was computed while evaluating."""
    return [(one.step, one.value) for one in trainer.of(Phase.SCALAR, name) if one.mode is Mode.EVAL]


@pytest.mark.capability("PyTorch", "evaluation")
def test_losses_of_an_evaluation_are_told_whoever_computes_them(record):
    recording = record(LOOP)
    trainer = recording.trainer
    *single, (logits,), (_,) = json.loads(recording.stdout)
    found = evaluated(trainer)
    assert [value for _, value in found] == [one for each in single for one in each]
    assert [step for step, _ in found] == [2] * 2 + [3] * 4 + [4] * 2
    # Two in one pass: which is the loss, nobody knows.
    assert [value for _, value in evaluated(trainer, "loss/binary_cross_entropy_with_logits")] == [logits]
    assert len(evaluated(trainer, "loss/kl_div")) == 1
    assert [one.step for one in trainer.of(Phase.SCALAR, "loss") if one.mode is Mode.TRAIN] == list(range(6))


def test_who_logs_losses_tells_them(record):
    recording = record(
        LOOP.replace("told = []", "told = []\n    import holter\n    holter.log(val_loss=1.0)"),
    )
    assert not evaluated(recording.trainer)


def test_an_evaluation_with_accelerate(record):
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    recording = record(
        """
        import json
        from accelerate import Accelerator
        accelerator = Accelerator(cpu=True)
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        loader, held_out = DataLoader(data(8), batch_size=4), DataLoader(data(12), batch_size=4)
        model, optimizer, loader, held_out = accelerator.prepare(model, optimizer, loader, held_out)
        told = []
        for epoch in range(2):
            model.train()
            for x, y in loader:
                optimizer.zero_grad()
                accelerator.backward(nn.functional.cross_entropy(model(x), y))
                optimizer.step()
            model.eval()
            with torch.inference_mode():
                for x, y in held_out:
                    loss = nn.functional.cross_entropy(model(x), y)
                    told.append(accelerator.gather(loss).mean().item())
        print(json.dumps(told))
        """
    )
    found = evaluated(recording.trainer)
    assert [value for _, value in found] == json.loads(recording.stdout)
    assert [step for step, _ in found] == [2] * 3 + [4] * 3


COMPILERS = """
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.func import vmap
    from torch.nn import functional as F

    torch.manual_seed(0)
    x, y = torch.randn(4, 8), torch.tensor([0, 1, 0, 1])
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loss(a, b):
        return F.cross_entropy(a, b) + F.binary_cross_entropy_with_logits(a, a)

    def made(scores):
        scripted = torch.jit.script(loss)
        traced = torch.jit.trace(lambda a: F.mse_loss(a, 2 * a), scores)
        graph = make_fx(lambda a: F.mse_loss(a, 2 * a))(scores)
        each = vmap(lambda a: F.mse_loss(a, 2 * a))(scores)
        compiled = torch.compile(loss, backend="eager")
        code = [str(scripted.graph), str(traced.inlined_graph).split("#")[0], graph.code]
        results = [scripted(scores, y), compiled(scores, y), traced(scores), each]
        return code, [result.tolist() for result in results]

    for _ in range(2):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        scores = model(x)
        within = made(scores)
        assert loss(scores, y).item() == within[1][0] == within[1][1]
    model.train()
    loss(model(x), y).backward()
    torch._dynamo.reset()
    assert within == made(scores)
"""


def test_what_is_compiled_amid_an_evaluation_is_what_it_would_be(record):
    assert "TracerWarning" not in record(COMPILERS).stderr  # faults of ours fail as well


SUMS = """
    import sys
    from torch.nn import functional as F
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = {
        "mean": lambda x, y: F.nll_loss(model(x).log_softmax(1), y),
        "sum": lambda x, y: F.nll_loss(model(x).log_softmax(1), y, reduction="sum"),
        "made of two": lambda x, y: F.cross_entropy(model(x), y, reduction="sum") + model.head.weight.norm(),
    }
    for x, y in DataLoader(data(16), batch_size=8):
        optimizer.zero_grad()
        losses[sys.argv[1]](x, y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for x, y in DataLoader(data(20), batch_size=8):
            y[0] = -100
            print(F.nll_loss(model(x).log_softmax(1), y, reduction="sum").item(), (y >= 0).sum().item())
"""


@pytest.mark.parametrize(
    ("training", "name"), [("mean", "loss"), ("sum", "loss"), ("made of two", "loss/nll_loss (sum)")]
)
def test_a_sum_is_told_in_the_unit_of_the_training_or_under_a_name_of_its_own(record, training, name):
    recording = record(SUMS, training)
    sums = [line.split() for line in recording.stdout.splitlines()]
    expected = [float(value) / (int(count) if training == "mean" else 1) for value, count in sums]
    assert [value for _, value in evaluated(recording.trainer, name)] == pytest.approx(expected)
    if name != "loss":
        assert not evaluated(recording.trainer)


def test_batches_without_gradients_are_an_evaluation_and_a_rollout_is_part_of_the_training(record):
    trainer = record("""
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(2):
            with torch.no_grad():
                for _ in range(3):
                    model(torch.randn(4, 8))
            for x, y in DataLoader(data(48), batch_size=4):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            with torch.inference_mode() if epoch else torch.no_grad():
                for x, y in DataLoader(data(20), batch_size=4):
                    nn.functional.cross_entropy(model(x), y)
    """).trainer
    forwards = [(one.step, one.mode) for one in trainer.of(Phase.FORWARD)]
    evaluating = [step for step, mode in forwards if mode is Mode.EVAL]
    assert evaluating == [12] * 5 + [24] * 5
    assert len(forwards) == 2 * (3 + 12 + 5)
    assert [step for step, _ in evaluated(trainer)] == evaluating
