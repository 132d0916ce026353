"""Where a step ends, for every way people write a loop."""

from __future__ import annotations

import math

import pytest

from holter.schema.phases import Mode, Phase


def test_plain_loop(record):
    trainer = record("""
        torch.manual_seed(0)
        model, criterion = Net(), nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)
        for epoch in range(3):
            for x, y in DataLoader(data(), batch_size=8, shuffle=True):
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
                schedule.step()
                print(loss.item())
    """)
    losses = [float(line) for line in trainer.stdout.split()]
    trainer = trainer.trainer
    steps = trainer.of(Phase.STEP)
    assert [s.step for s in steps] == list(range(12))
    assert {s.mode for s in steps} == {Mode.TRAIN}
    assert [a.end for a in steps[:-1]] == [b.begin for b in steps[1:]]
    for phase in (Phase.FORWARD, Phase.LOSS, Phase.BACKWARD, Phase.OPTIMIZER):
        assert trainer.per_step(phase) == [1] * 12, phase
        for span in trainer.of(phase):
            assert span.inside(steps[span.step])
    order = [Phase.DATA_LOADING, Phase.FORWARD, Phase.LOSS, Phase.BACKWARD, Phase.OPTIMIZER]
    for step in steps[1:4]:
        inside = [s.phase for s in trainer.spans if s.step == step.step and s.phase in order]
        assert inside == order
    assert {s.name for s in trainer.of(Phase.FORWARD)} == {"Net"}
    assert {s.name for s in trainer.of(Phase.OPTIMIZER)} == {"SGD"}
    assert trainer.scalars("loss") == losses
    assert trainer.scalars("lr") == pytest.approx([0.1, 0.05, 0.025])
    assert [s.step for s in trainer.of(Phase.SCALAR, "lr")] == [0, 4, 8]
    assert trainer.facts["framework"][0]["name"] == "pytorch"


def test_gradient_accumulation_is_one_step(record):
    trainer = record("""
        model = Net()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for i, (x, y) in enumerate(DataLoader(data(48), batch_size=4)):
            loss = nn.functional.cross_entropy(model(x), y) / 3
            loss.backward()
            if (i + 1) % 3 == 0:
                optimizer.step()
                optimizer.zero_grad()
    """).trainer
    assert len(trainer.of(Phase.STEP)) == 4
    for phase in (Phase.FORWARD, Phase.LOSS, Phase.BACKWARD):
        assert trainer.per_step(phase) == [3] * 4
    assert len(trainer.scalars("loss")) == 12


@pytest.mark.parametrize("critic", [1, 3])
def test_two_optimizers_are_one_step(record, critic):
    trainer = record(
        """
        import sys
        generator, critic = Net(8, 8), Net(8, 1)
        optimizers = [torch.optim.Adam(m.parameters(), lr=1e-3) for m in (critic, generator)]
        for i in range(7):
            for _ in range(int(sys.argv[1])):
                optimizers[0].zero_grad()
                fake = critic(generator(torch.randn(4, 8)).detach())
                (fake.mean() - critic(torch.randn(4, 8)).mean()).backward()
                optimizers[0].step()
            optimizers[1].zero_grad()
            (-critic(generator(torch.randn(4, 8))).mean()).backward()
            optimizers[1].step()
        """,
        str(critic),
    ).trainer
    assert len(trainer.of(Phase.STEP)) == 7
    assert trainer.per_step(Phase.OPTIMIZER) == [critic + 1] * 7
    assert trainer.per_step(Phase.BACKWARD) == [critic + 1] * 7


def test_optimizers_of_single_parameters_stepping_in_gradient_hooks(record):
    trainer = record("""
        model = Net()
        each = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
        def hook(p):
            each[p].step()
            each[p].zero_grad()
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(hook)
        for x, y in DataLoader(data(), batch_size=4):
            nn.functional.cross_entropy(model(x), y).backward()
    """).trainer
    steps = trainer.of(Phase.STEP)
    assert len(steps) == 8
    assert trainer.per_step(Phase.OPTIMIZER) == [4] * 8
    assert trainer.per_step(Phase.BACKWARD) == [1] * 8
    for span in trainer.of(Phase.BACKWARD):
        assert span.inside(steps[span.step])


def test_lbfgs_closure(record):
    trainer = record("""
        model = nn.Linear(8, 2)
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
        x, y = data().tensors
        def closure():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss
        for _ in range(5):
            optimizer.step(closure)
    """).trainer
    optimizer = trainer.of(Phase.OPTIMIZER, "LBFGS")
    assert len(optimizer) == len(trainer.of(Phase.STEP)) == 5
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        assert len(trainer.of(phase)) > 5
        for span in trainer.of(phase):
            assert span.inside(optimizer[span.step])


def test_an_optimizer_that_raises_leaves_no_span_open(record):
    trainer = record("""
        model = Net()
        class Sulky(torch.optim.SGD):
            calls = 0
            def step(self, closure=None):
                Sulky.calls += 1
                if Sulky.calls == 2:
                    raise RuntimeError("out of memory")
                return super().step(closure)
        optimizer = Sulky(model.parameters(), lr=0.1)
        for x, y in DataLoader(data(), batch_size=8):
            nn.functional.cross_entropy(model(x), y).backward()
            try:
                optimizer.step()
            except RuntimeError:
                optimizer.zero_grad()
    """).trainer
    assert len(trainer.of(Phase.OPTIMIZER)) == len(trainer.of(Phase.STEP)) == 3
    assert len(trainer.of(Phase.FORWARD)) == 4


def test_evaluation_inside_the_loop_is_no_step(record):
    trainer = record("""
        model, other = Net(), Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train, val = DataLoader(data(), batch_size=8), DataLoader(data(16), batch_size=4)
        for epoch in range(3):
            model.train()
            for x, y in train:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for x, y in val:
                    model(x)
        class Teacher(Net): pass
        teacher = Teacher().eval()
        teacher(torch.randn(2, 8))
    """).trainer
    assert len(trainer.of(Phase.STEP)) == 12
    evals = [s for s in trainer.of(Phase.FORWARD) if s.mode is Mode.EVAL]
    assert [s.name for s in evals] == ["Net"] * 12 + ["Teacher"]
    assert [s.step for s in evals] == [4] * 4 + [8] * 4 + [12] * 5
    assert len([s for s in trainer.of(Phase.FORWARD) if s.mode is Mode.TRAIN]) == 12
    loaders = trainer.facts["loader"]
    assert [(fact["index"], fact["batch_size"], fact["kind"]) for fact in loaders] == [
        (0, 8, "single"),
        (1, 4, "single"),
    ]
    assert len([s for s in trainer.of(Phase.DATA_LOADING, "next batch") if s.value == 1.0]) == 3 * 5


def test_a_second_training_in_the_same_process(record):
    trainer = record("""
        class Other(Net): pass
        for cls in (Net, Other):
            model = cls()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for x, y in DataLoader(data(), batch_size=4):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
    """).trainer
    assert len(trainer.of(Phase.STEP)) == 16
    assert [s.name for s in trainer.of(Phase.FORWARD)] == ["Net"] * 8 + ["Other"] * 8


def test_a_loss_that_is_not_a_number_is_recorded_as_it_is(record):
    trainer = record("""
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i in range(4):
            optimizer.zero_grad()
            (model(torch.randn(2, 8)).sum() * float("nan" if i == 2 else 1)).backward()
            optimizer.step()
    """).trainer
    assert [math.isnan(v) for v in trainer.scalars("loss")][:3] == [False, False, True]


def test_an_optimizer_inside_another_and_a_closure(record):
    trainer = record("""
        class Outer(torch.optim.Optimizer):
            def __init__(self, params):
                params = list(params)
                super().__init__(params, {"lr": 0.5})
                self.inner = torch.optim.SGD(params, lr=0.1)
            def step(self, closure=None):
                with torch.enable_grad():
                    loss = closure()
                self.inner.step()
                return loss
        model = Net()
        optimizer = Outer(model.parameters())
        for x, y in DataLoader(data(), batch_size=4):
            def closure():
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                return loss
            optimizer.step(closure)
    """).trainer
    assert len(trainer.of(Phase.STEP)) == 8
    assert {s.name for s in trainer.of(Phase.OPTIMIZER)} == {"Outer"}
    for phase in (Phase.OPTIMIZER, Phase.FORWARD, Phase.LOSS, Phase.BACKWARD):
        assert trainer.per_step(phase) == [1] * 8


@pytest.mark.parametrize("kind", ["torch.jit.script", "torch.fx.symbolic_trace", "nn.DataParallel"])
def test_models_of_generated_classes(record, kind):
    trainer = record(f"""
        model = {kind}(Net())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in DataLoader(data(), batch_size=4):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    """).trainer
    assert trainer.per_step(Phase.FORWARD) == [1] * 8


def test_a_teacher_and_losses_with_parts(record):
    trainer = record("""
        class PerceptualLoss(nn.Module):
            def __init__(self):
                super().__init__()
                self.features = nn.Linear(2, 2).requires_grad_(False)
            def forward(self, a, b):
                return (self.features(a) - self.features(b)).pow(2).mean()
        student, teacher, criterion = Net(), Net().eval(), nn.CrossEntropyLoss(weight=torch.ones(2))
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        for x, y in DataLoader(data(), batch_size=4):
            optimizer.zero_grad()
            with torch.no_grad():
                target = teacher(x)
            criterion(student(x), y).backward()
            optimizer.step()
    """).trainer
    assert {s.name for s in trainer.of(Phase.FORWARD)} == {"Net"}
    assert trainer.per_step(Phase.FORWARD) == [2] * 8
    modes = [s.mode for s in trainer.of(Phase.FORWARD)]
    assert modes == [Mode.EVAL, Mode.TRAIN] * 8
