"""Checkpoints and host-to-device copies."""

from __future__ import annotations

import pytest

from holter.schema.phases import Phase


@pytest.mark.capability("PyTorch", "checkpoints")
def test_checkpoints(record):
    recording = record("""
        import io, os, pathlib
        model = nn.Linear(100, 100)
        torch.save(model.state_dict(), "a.pt")
        torch.save(model.state_dict(), pathlib.Path("b.pt"))
        torch.save(model.state_dict(), io.BytesIO())
        print(os.path.getsize("a.pt"), os.path.getsize("b.pt"))
        try:
            torch.save(model.state_dict(), "no/such/folder/c.pt")
        except RuntimeError:
            print("refused")
        import torch.distributed.checkpoint as dcp
        dcp.save({"model": model.state_dict()}, checkpoint_id="folder")
    """)
    a, b, refused = recording.stdout.split()
    assert refused == "refused"
    saved = recording.trainer.of(Phase.CHECKPOINT, "torch.save")
    assert [s.value for s in saved[:2]] == [float(a), float(b)]
    assert len(saved) == 4
    (folder,) = recording.trainer.of(Phase.CHECKPOINT, "torch.distributed.checkpoint.save")
    assert folder.value > 40_000


def test_safetensors(record):
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    (saved,) = record("""
        from safetensors.torch import save_file
        save_file({"w": torch.zeros(1000)}, "a.safetensors")
    """).trainer.of(Phase.CHECKPOINT)
    assert saved.name == "safetensors.torch.save_file"
    assert saved.value > 4000


def test_copies_to_a_device(record):
    trainer = record("""
        x = torch.zeros(256, 4)
        for _ in range(3):
            x.to("meta", non_blocking=True)
        x.to(torch.float64)
        x.to("cpu")
        torch.zeros(8, device="meta").to("meta", torch.float64)
        torch.zeros(5, dtype=torch.int64).to(device="meta")
        model = Net().to("meta")
        model.to(torch.bfloat16)
    """).trainer
    spans = trainer.of(Phase.H2D)
    assert [s.value for s in spans[:4]] == [4096.0] * 3 + [40.0]
    (whole,) = spans[4:]
    assert whole.name == "Net to meta"
    assert whole.value == 4 * (8 * 16 + 16 + 16 * 2 + 2)
