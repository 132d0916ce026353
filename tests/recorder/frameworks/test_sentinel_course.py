"""The sentinel's facts about precision, clipping, schedules and checkpoints."""

from __future__ import annotations

import pytest

TRAINING = """
    import contextlib, tempfile
    folder = tempfile.mkdtemp()
    torch.manual_seed(0)

    def train(model, optimizer, steps=5, region=contextlib.nullcontext, clip=None, late=False, scaler=None):
        for _ in range(steps):
            x, y = torch.randn(8, 8), torch.randint(0, 2, (8,))
            optimizer.zero_grad()
            with region():
                loss = nn.functional.cross_entropy(model(x.to(next(model.parameters()).dtype)), y)
            (scaler.scale(loss) if scaler else loss).backward()
            if clip and not late:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            scaler.step(optimizer) if scaler else optimizer.step()
            if scaler:
                scaler.update()
            if clip and late:
                nn.utils.clip_grad_norm_(model.parameters(), clip)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    bf16 = lambda: torch.autocast("cpu", torch.bfloat16)
    half = lambda: torch.autocast("cpu", torch.float16)
"""


def facts(recording):
    return [fact for fact in recording.trainer.facts.get("sentinel", ()) if "optimizers" in fact]


def run(record, text):
    return facts(record(TRAINING + "    " + text.replace("\n", "\n    ")))


@pytest.mark.parametrize(
    ("text", "asked", "low", "scaled"),
    [
        ("train(model, optimizer)", "", False, False),
        ("train(model, optimizer, region=bf16)", "bfloat16", True, False),
        ("with bf16(): train(model, optimizer)", "bfloat16", True, False),
        ("train(model, optimizer, region=half, scaler=torch.amp.GradScaler('cpu'))", "float16", True, True),
        ("train(model.double(), optimizer, region=bf16)", "bfloat16", False, False),
        ("train(model, optimizer, region=lambda: torch.autocast('cpu', enabled=False))", "", False, False),
        ("model.forward = bf16()(model.forward)\ntrain(model, optimizer)", "bfloat16", True, False),
        ("train(torch.compile(model, backend='aot_eager'), optimizer, region=bf16)", "bfloat16", None, False),
    ],
    ids=["float32", "region", "loop", "scaled", "double", "disabled", "decorated", "compiled"],
)
def test_autocast_is_compared_with_the_results(record, text, asked, low, scaled):
    found = [fact["precision"] for fact in run(record, text)]
    assert len(found) == 4
    last = found[-1]
    assert (last["asked"], last["scaled"]) == (asked, scaled)
    assert last["low"] in ((True, None) if low is None else (low,))  # or hidden
    assert (last["half"], last["held"]) == (0, 4)


def test_float16_weights_are_counted(record):
    text = "optimizer = torch.optim.SGD(model.half().parameters(), 0.1)\ntrain(model, optimizer)"
    found = run(record, text)
    assert {(fact["precision"]["half"], fact["precision"]["held"]) for fact in found} == {(4, 4)}


def test_precision_is_watched_at_the_first_steps_only(record):
    found = run(record, "train(model, optimizer, steps=120, region=bf16)")
    assert sum("precision" in fact for fact in found) == 8
    assert "precision" not in found[-1]


@pytest.mark.parametrize(
    ("text", "clips"),
    [
        ("train(model, optimizer, clip=1.0)", {"late": 0, "in_time": 1, "limit": 1.0}),
        ("train(model, optimizer, clip=1.0, late=True)", {"late": 1, "in_time": 0, "limit": 1.0}),
        ("train(model, optimizer, clip=float('inf'), late=True)", None),
        ("train(model, optimizer)", None),
    ],
    ids=["in_time", "late", "measures", "none"],
)
def test_clipping_is_in_time_or_late(record, text, clips):
    assert [fact.get("clips") for fact in run(record, text)][1:] == [clips] * 3


def test_schedules_have_calls_and_length(record):
    found = run(
        record,
        """schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
for _ in range(5):
    train(model, optimizer, steps=1)
    schedule.step()""",
    )
    calls = [fact["schedules"][0] for fact in found]
    assert [one["steps"] for one in calls] == [0, 1, 2, 4]
    assert calls[0] == {"class": "CosineAnnealingLR", "steps": 0, "length": 20, "since": 0}


SAVED = """train(model, optimizer, steps=6)
path = folder + "/last.pt"
states = {"model": model.state_dict(), "optimizers": [optimizer.state_dict()], "epoch": 7}
torch.save(states, path)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
found = torch.load(path)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "model.load_state_dict(found['model'])",
            {"model_loaded": True, "optimizers_loaded": 0, "fresh": True},
        ),
        (
            "model.load_state_dict(found['model'])\noptimizer.load_state_dict(found['optimizers'][0])",
            {"model_loaded": True, "optimizers_loaded": 1, "fresh": False, "counter": 8},
        ),
        ("Net().load_state_dict(found['model'])", {"model_loaded": False, "fresh": True}),
    ],
    ids=["model", "both", "teacher"],
)
def test_a_checkpoint_and_what_is_loaded_of_it(record, text, expected):
    found = run(record, SAVED + text + "\ntrain(model, optimizer)")
    assert "resumed" not in found[3]  # step 4, before the checkpoint
    resumed = found[-1]["resumed"]
    assert {name: resumed[name] for name in expected} == expected
    assert (resumed["file"], resumed["step"], resumed["entries"]) == ("last.pt", 6, 4)
    assert (resumed["at"], resumed["own"]) == (["epoch", 7], True)


def test_weights_alone_are_no_checkpoint(record):
    text = """torch.save(model.state_dict(), folder + '/w.pt')
model.load_state_dict(torch.load(folder + '/w.pt'))
train(model, optimizer)"""
    assert not any("resumed" in fact for fact in run(record, text))


def test_loaded_models_die(record):
    done = record(
        TRAINING
        + """
    import gc, weakref
    train(model, optimizer)
    torch.save({"m": model.state_dict(), "o": optimizer.state_dict()}, folder + "/last.pt")
    found = torch.load(folder + "/last.pt")
    model.load_state_dict(found["m"])
    train(model, optimizer)
    alive = [weakref.ref(one) for one in (model, *model.parameters(), *found["m"].values())]
    del model, optimizer, found
    gc.collect()
    print(sum(one() is not None for one in alive))
    """
    )
    assert done.stdout.split() == ["0"]


def test_classes_of_a_cross_entropy(record):
    assert {fact["classes"] for fact in run(record, "train(model, optimizer)")} == {2}
