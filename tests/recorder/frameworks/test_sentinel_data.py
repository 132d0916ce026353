"""The sentinel records what inputs, labels, weights and evaluations look like, and disturbs none of them."""

from __future__ import annotations

from holter.schema.phases import Phase

LOOP = """
torch.manual_seed(0)
model = MODEL
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    x, y = torch.randn(32, 8) * 4 + 100, torch.arange(32) % 2
    optimizer.zero_grad()
    BEFORE
    LOSS.backward()
    optimizer.step()
    AFTER
"""


def loop(model="Net()", loss="nn.functional.cross_entropy(model(x), y)", before="pass", after="pass"):
    return (
        LOOP.replace("MODEL", model).replace("LOSS", loss).replace("BEFORE", before).replace("AFTER", after)
    )


def facts(recording, key="optimizers"):
    return [fact for fact in recording.trainer.facts.get("sentinel", ()) if key in fact]


def test_inputs_are_described_where_they_enter_the_first_layer(record):
    found = facts(record(loop()))
    (one,) = found[0]["inputs"]
    assert (one["model"], one["layer"], one["shape"]) == ("Net", "Linear", [32, 8])
    assert 99 < one["mean"] < 101
    assert 3 < one["std"] < 5
    assert one["low"] < one["mean"] < one["high"]
    assert (one["nan"], one["nonfinite"], one["constant"], one["whole"]) == (False, 0, False, False)
    assert all(len(fact["inputs"]) == 1 for fact in found)
    assert all(fact["finite_loss"] for fact in found)


def test_a_model_that_scales_its_inputs_is_judged_by_what_the_layer_receives(record):
    scaled = """
    class Scaled(Net):
        def forward(self, x):
            return super().forward(x / 100)
    """
    found = facts(record(scaled + loop("Scaled()").replace("\n", "\n    ")))
    assert found[0]["inputs"][0]["high"] < 2


def test_whole_numbers_of_an_embedding_are_not_described(record):
    found = facts(
        record(
            loop(
                "nn.Sequential(nn.Embedding(200, 4), nn.Flatten(), nn.Linear(32, 2))",
                "nn.functional.cross_entropy(model(x.long()), y)",
            )
        )
    )
    assert found[0]["inputs"] == [{"model": "Sequential", "layer": "Embedding", "shape": [32, 8]}]


def test_a_first_layer_that_is_a_script_is_looked_at_each_time(record):
    done = record(loop("nn.Sequential(torch.jit.script(nn.Linear(8, 2)))"))
    assert [len(fact["inputs"]) for fact in facts(done)] == [1] * 4
    assert done.trainer.per_step(Phase.FORWARD) == [1] * 6


def test_a_model_whose_first_layer_changes_can_be_copied_and_saved(record):
    done = record(
        """
        import copy, io

        class Branches(Net):
            def forward(self, x):
                return super().forward(x) if step % 2 else self.other(x)

        model = Branches()
        model.other = nn.Linear(8, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            model(torch.randn(4, 8)).sum().backward()
            print(sum(len(one._forward_pre_hooks) for one in copy.deepcopy(model).modules()))
            torch.save(model, io.BytesIO())
            optimizer.step()
        """
    )
    assert done.stdout.split() == ["0"] * 3
    assert [len(fact["inputs"]) for fact in facts(done)] == [1, 0, 1]


def test_nan_and_constant_inputs_are_seen(record):
    found = facts(
        record(loop(before="x = torch.zeros(32, 8) if step == 0 else x.log().log().sub_(9).sqrt()"))
    )
    assert found[0]["inputs"][0]["constant"]
    assert found[1]["inputs"][0]["nan"]
    assert not found[1]["finite_loss"]


def test_labels_are_counted(record):
    labels = facts(record(loop()))[-1]["labels"]
    assert labels["loss"] == "NllLoss"
    assert labels["classes"] == 2
    assert labels["shape"] == [32]
    assert sorted(labels["most"]) == [[0, 16], [1, 16]]
    assert (labels["low"], labels["high"], labels["ignored"]) == (0, 1, 0)
    assert labels["after"][:2] == ["LogSoftmax", "Addmm"]


def test_ignored_labels_are_counted(record):
    labels = facts(record(loop(before="y[:8] = -100")))[-1]["labels"]
    assert labels["ignored"] == 8
    assert labels["ignore_index"] == -100


def test_a_loss_in_a_checkpoint_is_not_computed_again(record):
    done = record(
        loop(
            before="""
    calls = []
    def criterion(scores):
        calls.append(step)
        return nn.functional.cross_entropy(scores, y)
    """,
            loss="torch.utils.checkpoint.checkpoint(criterion, model(x), use_reentrant=False)",
            after="print(len(calls))",
        ).replace("torch.manual_seed(0)", "torch.manual_seed(0)\nimport torch.utils.checkpoint", 1)
    )
    assert done.stdout.split() == ["2"] * 6
    assert facts(done)[-1]["labels"] is None


def test_a_flipped_bit_is_seen_and_edits_are_not(record):
    flip = """
    if step == 3:
        with torch.no_grad():
            model.head.weight.view(torch.int32)[1, 3] ^= 1 << 20
    """
    (found,) = facts(record(loop(after=flip)), "flip")
    assert found["step"] == 4
    assert found["flip"]["parameter"] == "head.weight"
    assert (found["flip"]["bits"], found["flip"]["element"], found["flip"]["since"]) == (1, 19, 4)
    edits = """
    with torch.no_grad():
        for one in model.parameters():
            one.clamp_(-0.2, 0.2)
        model.head.weight[0, 0] = 0.01 * step
        model.body[0].weight[2] = 0
    """
    assert not facts(record(loop(after=edits)), "flip")


def test_a_weight_that_becomes_huge_between_two_watched_steps_is_seen(record):
    huge = """
    if step == 5:
        with torch.no_grad():
            model.head.weight[1, 3] = 2.0**99
    """
    done = record(
        loop(after=huge, loss="nn.functional.cross_entropy(model(x).clamp(-9, 9), y)")
        .replace("range(6)", "range(9)")
        .replace("lr=0.1", "lr=1e-3")
    )
    (found,) = facts(done, "flip")
    assert (found["flip"]["since"], found["flip"]["step"], found["flip"]["after"]) == (4, 8, 2.0**99)


def test_a_change_of_what_trains_is_recorded(record):
    class_ = """
    class Freezing(Net):
        def train(self, mode=True):
            super().train(mode)
            self.freeze()
            return self

        def freeze(self):
            for one in self.body.parameters():
                one.requires_grad = False
    """
    (found,) = facts(
        record(class_ + loop("Freezing()", after="if step == 2: model.train()").replace("\n", "\n    ")),
        "changed",
    )
    assert found["step"] == 4
    assert found["changed"]["frozen"] == ["body.0.weight", "body.0.bias"]
    assert found["changed"]["thawed"] == []
    assert found["changed"]["functions"] == ["Freezing.train"]


def test_an_evaluation_in_training_mode_is_recorded_with_its_line(record):
    evaluates = """
    with torch.no_grad():
        nn.functional.cross_entropy(model(x), y)
    """
    (found,) = facts(record(loop(after=evaluates).replace("range(6)", "range(2)")), "evaluation")[:1]
    assert found["evaluation"]["place"].startswith("train.py:")
    assert {key: found["evaluation"][key] for key in ("model", "dropout", "loss", "calls", "step")} == {
        "model": "Net",
        "dropout": 1,
        "loss": True,
        "calls": 1,
        "step": 1,
    }
    assert not facts(record(loop(after="model.eval()\n" + evaluates + "\n    model.train()")), "evaluation")


def test_loss_functions_are_wrapped_until_the_next_step_only(record):
    look = "print(torch._C._nn.cross_entropy_loss is plain)"
    after = f"""{look}
    with torch.no_grad():
        model(x)
    {look}
    """
    plain = "torch.manual_seed(0)\nplain = torch._C._nn.cross_entropy_loss"
    done = record(loop(after=after).replace("torch.manual_seed(0)", plain, 1))
    assert done.stdout.split()[:3] == ["True", "False", "True"]


def test_loss_functions_are_not_wrapped_once_a_compiler_traces(record):
    done = record(
        """
        def backend(graph, inputs):
            print(torch._C._nn.cross_entropy_loss is plain)
            return graph.forward

        @torch.compile(backend=backend)
        def compute(scores):
            return nn.functional.cross_entropy(scores, torch.tensor([0, 1]))

        plain = torch._C._nn.cross_entropy_loss
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.randn(2, 8)).sum().backward()
        optimizer.step()
        with torch.no_grad():
            scores = model(torch.randn(2, 8))
        print(torch._C._nn.cross_entropy_loss is plain)
        compute(scores)
        """
    )
    assert done.stdout.split() == ["False", "True"]
