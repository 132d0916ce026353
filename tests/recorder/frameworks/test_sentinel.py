"""The sentinel records facts at few steps, and no number of a training depends on it."""

from __future__ import annotations

import re

LOOP = """
torch.manual_seed(0)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in DataLoader(TensorDataset(torch.randn(880, 8), torch.randint(0, 2, (880,))), batch_size=4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""

TRAININGS = """
import hashlib, random, sys
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

digest = hashlib.sha256()
sentinel = sys.modules.get("holter.recorder.frameworks.pytorch.sentinel")
if sentinel is not None:
    sentinel.Sentinel.next = lambda self, step: step  # every step is watched

def close(*models):
    for model in models:
        for value in model.state_dict().values():
            digest.update(repr(value.tolist()).encode())
    digest.update(repr((torch.rand(2).tolist(), random.random())).encode())
    print(digest.hexdigest())

def train(model, optimizer=None, steps=12, autocast=False, scaler=None, accumulate=1, called=None):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            x, y = torch.randn(16, 8), torch.randint(0, 2, (16,))
            x = x.to(next(model.parameters()).dtype)
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                loss = functional.cross_entropy((model if called is None else called)(x), y)
            (scaler.scale(loss) if scaler else loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer) if scaler else optimizer.step()
        if scaler:
            scaler.update()
    model.eval()
    with torch.no_grad():
        model(x)
    model.train()
    close(model)

torch.manual_seed(0)
random.seed(0)
train(Net())
train(Net(), autocast=True)
train(Net(), scaler=torch.amp.GradScaler("cpu", init_scale=2.0**60))
train(Net(), accumulate=3)
train(Net().double())
train(Net().bfloat16())
model = Net()
model.body.requires_grad_(False)
train(model)
model = Net()
groups = [{"params": model.body.parameters()}, {"params": model.head.parameters()}]
train(model, torch.optim.SGD(groups, lr=0.1))
first, second = Net(), Net()
optimizers = [torch.optim.Adam(one.parameters(), lr=1e-2) for one in (first, second)]
for _ in range(12):
    for optimizer in optimizers:
        optimizer.zero_grad()
        (first(torch.randn(4, 8)) - second(torch.randn(4, 8))).pow(2).mean().backward()
        optimizer.step()
close(first, second)
model = Net()
lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
x, y = torch.randn(16, 8), torch.randint(0, 2, (16,))
def closure():
    lbfgs.zero_grad()
    loss = functional.cross_entropy(model(x), y)
    loss.backward()
    return loss
for _ in range(6):
    lbfgs.step(closure)
close(model)
import tempfile
file = tempfile.mktemp()
torch.distributed.init_process_group("gloo", init_method="file://" + file, rank=0, world_size=1)
model = Net()
train(model, called=DistributedDataParallel(model))
torch.distributed.destroy_process_group()
model = Net()
train(model, called=torch.compile(model, backend="aot_eager"))
"""


def facts(recording):
    return [fact for fact in recording.trainer.facts.get("sentinel", ()) if "optimizers" in fact]


def test_facts_are_recorded_at_few_steps(record):
    found = facts(record(LOOP))
    assert [fact["step"] for fact in found] == [0, 1, 2, 4, 8, 16, 32, 64, 100, 200]
    assert found[0]["names"] == ["body.0.weight", "body.0.bias", "head.weight", "head.bias"]
    assert not any("names" in fact for fact in found[1:])
    assert len({fact["prints"] for fact in found}) == len(found)
    last = found[-1]
    assert last["loss"][:2] == ["NllLoss", "LogSoftmax"]
    assert last["optimizers"] == [
        {
            "number": 0,
            "class": "SGD",
            "lr": 0.1,
            "parameters": 4,
            "received": 4,
            "cleared": True,
            "skipped": False,
        }
    ]
    assert last["models"][0]["training"]
    assert last["world"] == 1
    assert len({print_ for _, _, print_ in found[6]["batches"]}) == 16


def test_a_new_optimizer_is_watched_from_its_first_steps_on(record):
    found = facts(record(LOOP + LOOP.replace("880", "80").replace("SGD", "Adam")))
    steps = [fact["step"] for fact in found if fact["optimizers"][0]["class"] == "Adam"]
    assert steps == [221, 222, 223, 225, 229, 237]


def test_each_optimizer_has_a_number_of_its_own(record):
    many = """
    models = [Net() for _ in range(25)]
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in models]
    for _ in range(2):
        for model, optimizer in zip(models, optimizers):
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
    """
    for found in facts(record(many)):
        assert [one["number"] for one in found["optimizers"]] == list(range(25))
    stages = """
    model, optimizer = Net(), None
    for kind in (torch.optim.SGD, torch.optim.Adam):
        del optimizer  # the next one has its address
        optimizer = kind(model.parameters(), lr=0.1)
        for step in range(3):
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
    """
    found = facts(record(stages))
    numbers = {(fact["optimizers"][0]["class"], fact["optimizers"][0]["number"]) for fact in found}
    assert numbers == {("SGD", 0), ("Adam", 1)}


def test_a_training_that_moves_to_another_thread_is_watched(record):
    moves = """
    import threading
    for kind in ("SGD", "Adam"):
        def train(text=TEXT.replace("SGD", kind)):
            exec(text, globals())
        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    """
    found = facts(record(moves.replace("TEXT", repr(LOOP))))
    assert {fact["optimizers"][0]["class"] for fact in found} == {"SGD", "Adam"}


def test_sparse_batches_have_no_fingerprints(record):
    found = facts(
        record(
            """
            model = Net()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for layout in (torch.sparse_coo, torch.sparse_csr, torch.strided):
                def collate(rows):
                    batch = torch.stack(rows)
                    return batch if layout is torch.strided else batch.to_sparse(layout=layout)

                for x in DataLoader(torch.randn(16, 8), 4, collate_fn=collate):
                    model(x.to_dense()).sum().backward()
                    optimizer.step()
            """
        )
    )
    assert {loader for fact in found for loader, *_ in fact["batches"]} == {2}


def test_it_can_be_turned_off(record, monkeypatch):
    monkeypatch.setenv("HOLTER_SENTINEL", "0")
    assert not record(LOOP).trainer.facts.get("sentinel")


def test_weights_are_identical_to_the_last_bit_in_twelve_trainings(record):
    recording = record(TRAININGS)
    found = recording.stdout.split()
    assert len(found) == 12
    assert len(facts(recording)) > 100
    assert found == record.again().split()


def test_parameters_die_with_their_model(record):
    done = record(
        """
        import gc, weakref
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
        alive = [weakref.ref(one) for one in model.parameters()]
        del model, optimizer
        gc.collect()
        print(sum(one() is not None for one in alive))
        """
    )
    assert done.stdout.split() == ["0"]


def test_a_place_of_dropout_in_evaluation_is_named(record):
    done = record(
        """
        class Dropping(Net):
            def forward(self, x):
                return nn.functional.dropout(super().forward(x))

        for kind in (Net, Dropping):
            model = kind()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(3):
                model.train()
                model(torch.randn(4, 8)).sum().backward()
                optimizer.step()
                model.eval()
                with torch.no_grad():
                    model(torch.randn(4, 8))
        """
    )
    (found,) = [fact["dropout"] for fact in done.trainer.facts["sentinel"] if "dropout" in fact]
    assert re.fullmatch(r"train\.py:\d+", found["place"])
    assert (found["p"], found["training"]) == (0.5, False)


def test_a_known_place_of_dropout_keeps_no_tensor_alive(record):
    done = record(
        """
        import weakref

        class Dropping(Net):
            def forward(self, x):
                hidden = x + 1
                given = weakref.ref(hidden)
                hidden = nn.functional.dropout(hidden)
                if not self.training:
                    print(given() is None)
                return super().forward(hidden)

        model = Dropping()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            for _ in range(3):
                model(torch.randn(4, 8))
        """
    )
    assert done.stdout.split()[1:] == ["True", "True"]


EVALUATIONS = """
from types import SimpleNamespace
from torch.autograd import grad
from torch.nn import functional

def x():
    return torch.randn(4, 8)

def forgets(model):
    for _ in range(3):
        model(x()).sum().item()

def remembers(model):
    with torch.no_grad():
        forgets(model)

def infers(model):
    with torch.inference_mode():
        forgets(model)

def attacks(model):
    model(x())
    given = x().requires_grad_()
    grad(model(given).sum(), given)

def descends(model):
    kept = []
    hook = model.body.register_forward_hook(lambda module, args, output: kept.append(output))
    model(x())
    hook.remove()
    kept[0].sum().backward()

def frozen(model):
    model.requires_grad_(False)
    forgets(model)
    model.requires_grad_(True)

def hides(model):
    model.forward, plain = lambda x: SimpleNamespace(found=plain(x)), model.forward
    forgets_hidden = [model(x()).found.sum().item() for _ in range(3)]
    del model.forward

def keeps(model):
    later.append(model(x()))

for evaluate in (forgets, remembers, infers, attacks, descends, frozen, hides, keeps):
    model, later = Net(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        if step in (2, 4):
            model.eval()
            evaluate(model)
            model.train()
        optimizer.zero_grad()
        loss = model(x()).sum() + sum(one.sum() for one in later)
        later.clear()
        loss.backward()
        optimizer.step()
"""


def test_evaluations_that_record_graphs_for_nothing_are_found(record):
    done = record(EVALUATIONS)
    found = [fact["graphs"] for fact in done.trainer.facts["sentinel"] if "graphs" in fact]
    assert [(one["function"], one["model"], one["calls"], one["step"]) for one in found] == [
        ("forgets", "Net", 3, 2),
        ("forgets", "Net", 3, 4),
    ]
    assert all(re.fullmatch(r"train\.py:\d+", one["place"]) for one in found)


def test_graphs_of_evaluations_die_as_without_the_watch(record):
    done = record(
        """
        import weakref

        class Kept(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                made = x * 2
                ctx.save_for_backward(made)
                alive.append(weakref.ref(made))
                return made.sum()

            @staticmethod
            def backward(ctx, gradient):
                return ctx.saved_tensors[0] * gradient

        class Ends(Net):
            def forward(self, x):
                return Kept.apply(super().forward(x))

        model, alive = Ends(), []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            model.train()
            model(torch.randn(4, 8)).backward()
            optimizer.step()
            model.eval()
            for _ in range(2):
                output = model(torch.randn(4, 8))
                print(alive[-1]() is not None)
                del output
                print(alive[-1]() is None)
        """
    )
    assert set(done.stdout.split()) == {"True"}
    assert any("graphs" in fact for fact in done.trainer.facts["sentinel"])
