"""Data in place of downloads: images of ten patterns, a graph of papers, sentences, and a tokenizer."""

import json
import os
import random
import sys
from pathlib import Path

import numpy as np

TRAIN, TEST = int(os.environ.get("MADE_TRAIN", "3200")), 1000


class _Images:
    """Images of ten patterns, with the surface of torchvision's data sets."""

    side, channels, dark = 28, 1, 0.8

    def __init__(
        self, root="", train=True, transform=None, target_transform=None, download=False, split=None
    ):
        import torch

        train = train if split is None else split == "train"
        chance, count = np.random.default_rng(0 if train else 1), TRAIN if train else TEST
        coarse = np.random.default_rng(2).random((10, 7, 7, self.channels))
        patterns = coarse.repeat(-(-self.side // 7), 1).repeat(-(-self.side // 7), 2)
        patterns = patterns[:, : self.side, : self.side] * (patterns[:, : self.side, : self.side] > self.dark)
        labels = chance.integers(0, 10, count)
        noise = 0.2 * chance.random((count, self.side, self.side, self.channels))
        pixels = (255 * np.clip(patterns[labels] * 0.8 + noise, 0, 1)).astype(np.uint8)
        self.pixels = pixels[..., 0] if self.channels == 1 else pixels
        self.data, self.targets = torch.from_numpy(self.pixels), torch.from_numpy(labels)
        self.transform = transform

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, at):
        from PIL import Image

        image = Image.fromarray(self.pixels[at])
        return image if self.transform is None else self.transform(image), int(self.targets[at])


class MNIST(_Images):
    """Dark images of 28 x 28 pixels."""


class FashionMNIST(_Images):
    """Lighter ones."""

    dark = 0.5


class CIFAR10(_Images):
    """Colours, 32 x 32 pixels."""

    side, channels, dark = 32, 3, 0.3


class STL10(_Images):
    """Colours, 96 x 96 pixels."""

    side, channels, dark = 96, 3, 0.3


def papers():
    """Write a graph like Cora: 2,708 papers of seven kinds with words, which mostly cite their own kind."""
    chance, folder = random.Random(0), Path("cora")
    folder.mkdir(exist_ok=True)
    kinds = [chance.randrange(7) for _ in range(2708)]
    lines = []
    for paper, kind in enumerate(kinds):
        likely = set(range(kind * 200, kind * 200 + 200))
        words = [int(chance.random() < (0.05 if word in likely else 0.008)) for word in range(1433)]
        lines.append(f"{paper} {' '.join(map(str, words))} kind{kind}\n")
    (folder / "cora.content").write_text("".join(lines))
    of_kind = [[paper for paper, kind in enumerate(kinds) if kind == one] for one in range(7)]
    cited = [
        (paper, chance.choice(of_kind[kinds[paper]]) if chance.random() < 0.8 else chance.randrange(2708))
        for paper in range(2708)
        for _ in range(2)
    ]
    (folder / "cora.cites").write_text("".join(f"{a} {b}\n" for a, b in sorted(set(cited))))


def sentences(folder="data/wikitext-2"):
    """Make a short corpus from the parts of WikiText-2 that the repository holds."""
    lines = (Path(folder) / "valid.txt").read_text().splitlines(keepends=True)
    for name, part in (("train", lines[:1200]), ("valid", lines[1200:1500]), ("test", lines[1500:1800])):
        (Path(folder) / f"{name}.txt").write_text("".join(part))


def language_model(kind):
    """Write texts, a small configuration and a tokenizer for a transformer that begins from scratch."""
    from tokenizers import ByteLevelBPETokenizer

    chance = random.Random(0)
    words = [
        "".join(chance.choice("aeioubdgklmnprst") for _ in range(chance.randint(2, 6))) for _ in range(300)
    ]
    for name, count in (("train", 1500), ("valid", 300)):
        text = "".join(" ".join(chance.choices(words, k=12)) + " .\n" for _ in range(count))
        Path(f"{name}.txt").write_text(text)
    special = {"gpt2": ["<|endoftext|>"], "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]}[kind]
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train(["train.txt"], vocab_size=600, special_tokens=special)
    folder = Path("small")
    folder.mkdir(exist_ok=True)
    tokenizer.save_model(str(folder))
    tokenizer.save(str(folder / "tokenizer.json"))
    size = tokenizer.get_vocab_size()
    gpt2 = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128, "architectures": ["GPT2LMHeadModel"]}
    roberta = {
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
        "max_position_embeddings": 130, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0,
        "eos_token_id": 2, "architectures": ["RobertaForMaskedLM"],
    }  # fmt: skip
    config = {"model_type": kind, "vocab_size": size, **(gpt2 if kind == "gpt2" else roberta)}
    if kind == "gpt2":
        config |= {"bos_token_id": 0, "eos_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config))
    names = {"gpt2": ("GPT2Tokenizer", {}), "roberta": ("RobertaTokenizer", {"mask_token": "<mask>"})}
    name, more = names[kind]
    about = {"tokenizer_class": name, "model_max_length": 128, **more}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))


if __name__ == "__main__":
    {"papers": papers, "sentences": sentences, "language_model": language_model}[sys.argv[1]](*sys.argv[2:])
