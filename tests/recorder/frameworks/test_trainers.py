"""Trainers say how many steps they plan, once, when their training begins; what they do is not touched."""

from __future__ import annotations

import pytest

TRANSFORMERS = """
import sys
from pathlib import Path

def module(name, text):
    path = Path("stand_ins", *name.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)

module("transformers.trainer_callback", '''
class CallbackHandler:
    def on_train_begin(self, args, state, control):
        return control
''')
module("transformers.trainer", "from transformers.trainer_callback import CallbackHandler")
sys.path.insert(0, "stand_ins")
from types import SimpleNamespace as Plain

def train(steps):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in list(DataLoader(data(), batch_size=4))[:steps]:
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_what_is_left_of_a_resumed_training_and_the_next_one_count(record):
    recording = record(
        TRANSFORMERS
        + """
from transformers.trainer import CallbackHandler
handler = CallbackHandler()
assert handler.on_train_begin(None, Plain(max_steps=10, global_step=7), "control") == "control"
train(3)
handler.on_train_begin(None, state=Plain(max_steps=4, global_step=0), control="control")
handler.on_train_begin(None, Plain(max_steps=-1, global_step=0), "control")
train(4)
"""
    )
    told = recording.trainer.facts["planned"]
    assert [(one["trainer"], one["steps"]) for one in told] == [
        ("transformers.Trainer", 3),
        ("transformers.Trainer", 7),
    ]


def test_a_loop_without_end_says_nothing_and_one_that_cannot_say_is_no_fault_of_the_training(record):
    recording = record(
        TRANSFORMERS
        + """
from transformers.trainer import CallbackHandler
handler = CallbackHandler()
handler.on_train_begin(None, Plain(max_steps=float("inf"), global_step=0), "control")
assert handler.on_train_begin(None, Plain(global_step=0), "control") == "control"
handler.on_train_begin(None, Plain(max_steps=2, global_step=0), "control")
train(2)
""",
        quiet=False,
    )
    assert [one["steps"] for one in recording.trainer.facts["planned"]] == [2]
    assert recording.trainer.facts["fault"][0]["where"] == "planned"


def test_a_trainer_of_hugging_face_says_its_steps(record):
    pytest.importorskip("transformers", reason="transformers is not installed")
    recording = record(
        """
        from transformers import Trainer, TrainingArguments

        class Small(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = Net()

            def forward(self, x=None, labels=None):
                out = self.net(x)
                return {"loss": nn.functional.cross_entropy(out, labels), "logits": out}

        rows = [{"x": torch.randn(8), "labels": 1} for _ in range(16)]
        told = TrainingArguments("out", per_device_train_batch_size=2, num_train_epochs=2, report_to=[],
                                 save_strategy="no", use_cpu=True, gradient_accumulation_steps=2)
        Trainer(model=Small(), args=told, train_dataset=rows).train()
        """
    )
    assert [one["steps"] for one in recording.trainer.facts["planned"]] == [8]
