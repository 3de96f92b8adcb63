"""A small saved model with random weights, for tests of the code around a model."""

import hashlib
import json
from pathlib import Path

import jax
import numpy as np

from jaxmatch import models
from jaxmatch.inference import model_folder

WORDS = ("<padding>", "<unknown>", "a", "b", "c", "d", "e", "no", "new york", '"', "\u2028", "é")
SETTINGS = {"name": "re2", "blocks": 1, "encoder_layers": 1, "hidden_size": 8, "kernel_size": 3}
SETTINGS |= {"alignment": "linear", "fusion": "full", "connection": "augmented", "prediction": "full"}
LABELS = ("entailment", "neutral", "contradiction")
TEXTS = [("a b c", "no d"), ("a", "a"), ("e d c b a no a b c d e", 'new "york"'), ("unseen é", "c"), ("b", "b c")]
LETTERS = [word for word in WORDS if len(word) == 1 and word.isalpha()]
PREPROCESSING = {"tokenizer": "whitespace", "lowercase": True, "remove_punctuation": True, "maximum_length": 0}


def texts(number: int) -> list[str]:
    """Returns texts of one to six letters that the model knows."""
    generator = np.random.default_rng(0)
    return [" ".join(generator.choice(LETTERS, generator.integers(1, 7))) for _ in range(number)]


def vectors(dimensions: int = 6) -> np.ndarray:
    """Returns word vectors <float32>[words, dimensions]. Those of padding and of unknown words are zero."""
    table = np.random.default_rng(0).normal(size=(len(WORDS), dimensions)).astype(np.float32)
    table[:2] = 0
    return table


def parameters(outputs: int, seed: int = 0, settings: dict = SETTINGS, dimensions: int = 6) -> dict:
    """Returns a parameter tree for `settings` with random entries."""
    side = {"ids": jax.ShapeDtypeStruct((1, 2), np.int32)}
    shapes = jax.eval_shape(
        models.build(settings, outputs=outputs).init, jax.random.key(0), side, side, vectors(dimensions)
    )
    generator = np.random.default_rng(seed)

    def entries(path, leaf):
        # Gains above 1 keep the outputs of different pairs apart through all layers.
        return generator.normal(2 if path[-1].key == "gain" else 0, 0.5, leaf.shape).astype(np.float32)

    return jax.tree_util.tree_map_with_path(entries, dict(shapes["params"]))


def arguments(task: str = "classification", labels: tuple[str, ...] = LABELS, **changed) -> dict:
    """Returns the arguments of `model_folder.save` except for the folder."""
    return {
        "model_settings": SETTINGS,
        "params": parameters(len(labels) or 1),
        "vocabulary_words": WORDS,
        "vectors": vectors(),
        "labels": labels,
        "task": task,
        "preprocessing": PREPROCESSING,
        "config": {"data": {"name": "own", "directory": "", "task": task}, "model": SETTINGS},
        **changed,
    }


def save(run: Path, **changed) -> Path:
    """Writes the folder of a run with a model, and returns the folder."""
    model_folder.save(run / "model", **arguments(**changed))
    return run


def edit(model: Path, /, **changed) -> None:
    """Changes entries of model.json in a model folder and updates all checksums, so that these do not reveal the
    change.
    """
    path = model / "model.json"
    description = {**json.loads(path.read_text()), **changed}
    if isinstance(description.get("sha256"), dict):
        for name in description["sha256"].keys() - {"model.json"}:
            if (model / name).is_file():
                description["sha256"][name] = hashlib.sha256((model / name).read_bytes()).hexdigest()
        description["sha256"]["model.json"] = model_folder.checksum_of(description)
    path.write_text(json.dumps(description))


def write_tsv(path: Path, rows, header: str = "text_a\ttext_b") -> Path:
    """Writes rows of columns below a header, and returns the path."""
    path.write_bytes("".join(f"{line}\n" for line in [header, *("\t".join(row) for row in rows)]).encode())
    return path
