"""Sinks: what trackers are sent, and TensorBoard's event files as TensorBoard reads them."""

from __future__ import annotations

import os
import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tests.cli.conftest import command, told

from holter.report.sinks import sinks, target
from holter.report.sinks.sending import Sending
from holter.store.job import find
from holter.store.trial import Trial
from holter.views.document.description import describe

STEPS = """
import time, sys
import holter
sys.path.insert(0, sys.argv[1])
from holter.report.exports.tensorboard import EventFile
import os
os.makedirs("logs/mine")
with open("logs/mine/events.out.tfevents.1.mine", "wb") as file:
    events = EventFile(file, time.time())
    for step in range(60):
        with holter.step():
            time.sleep(0.1)
        events.scalar("loss", step, time.time(), 1.0)
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return told("before", str(tmp_path_factory.mktemp("store")), ranks=2, cores=2)[0]


@pytest.fixture
def folder(finished):
    """Return a job of which nothing was sent."""
    yield finished
    (finished.place.path / "sent.json").unlink(missing_ok=True)


def read(path):
    accumulator = EventAccumulator(str(path))
    accumulator.Reload()
    return accumulator


def test_numbers_and_verdict_arrive_in_tensorboard(folder, tmp_path):
    sending = Sending(folder, [target(f"tensorboard:dir={tmp_path}")])
    end = folder.manifest()["end"]
    sending.send(end, rest=True)
    described = describe(Trial(folder))
    sending.judge(described)
    assert sending.close() == [f"tensorboard: {tmp_path}"]
    assert sending.faults == {}
    found = read(tmp_path)
    shares = found.Scalars("holter/parts/data_loading_pct")
    assert len(shares) > 5
    assert [one.step for one in shares] == sorted({one.step for one in shares})
    mean = sum(one.value for one in shares) / len(shares)
    assert mean == pytest.approx(described["breakdown"]["data_loading"], abs=15)
    assert found.Scalars("holter/summary/step_mean_ms")[0].value == pytest.approx(
        described["steps"]["mean_ms"], rel=1e-5
    )
    (text,) = found.Tensors("holter/verdict")
    assert described["verdict"]["sentence"] in text.tensor_proto.string_val[0].decode()
    assert found.SummaryMetadata("holter/verdict").plugin_data.plugin_name == "text"


def test_a_second_process_goes_on_where_the_first_ended(folder, tmp_path):
    middle = (folder.manifest()["start"] + folder.manifest()["end"]) // 2
    first = Sending(folder, [target(f"tensorboard:dir={tmp_path}")])
    first.send(middle)
    first.close()
    second = Sending(folder, [target("tensorboard")])
    second.send(folder.manifest()["end"], rest=True)
    assert second.close() == [f"tensorboard: {tmp_path}"]
    times = [
        one.wall_time
        for path in sorted(tmp_path.glob("*.holter"))
        for one in read(path).Scalars("holter/step_p50_ms")
    ]
    assert len(times) == len(set(times)) > 5


def test_a_folder_that_cannot_be_written_is_a_fault_and_no_error(folder, tmp_path):
    (tmp_path / "file").write_text("")
    sending = Sending(folder, [target(f"tensorboard:dir={tmp_path}/file")])
    sending.judge(describe(Trial(folder)))
    assert "file" in sending.faults["tensorboard"]
    assert sending.close() == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("tensorbord", "did you mean 'tensorboard'"),
        ("tensorboard:folder=x", "'folder=x' is not an option; valid: dir=…"),
        ("mlflow:run", "'run' is not an option"),
    ],
)
def test_an_unknown_tracker_or_option_is_answered_with_the_valid_ones(given, said):
    with pytest.raises(ValueError, match=said):
        target(given)


@pytest.mark.parametrize("name", ["wandb", "mlflow", "trackio"])
def test_a_tracker_without_its_package_says_what_to_install(name):
    assert name == sinks()[name].NEEDS
    done = command("run", "--to", name, "--", sys.executable, "-c", "pass")
    assert done.returncode == 64
    assert f"pip install 'holter[{name}]'" in done.stderr


def test_a_run_sends_to_the_log_folder_of_the_script(tmp_path):
    (tmp_path / "train.py").write_text(STEPS)
    source = os.path.join(os.path.dirname(__file__), "..", "..", "src")
    done = command(
        "run", "--job", "sent", "--to", "tensorboard", "--", sys.executable, "train.py", source, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "sent to tensorboard:" in done.stderr
    (written,) = (tmp_path / "logs" / "mine").glob("*.holter")
    found = read(written)
    described = describe(Trial(find(str(tmp_path / "holter-jobs"), "sent")))
    assert found.Scalars("holter/summary/steps")[0].value == described["steps"]["count"]
    assert found.Scalars("holter/step_p50_ms")[-1].step == 60
