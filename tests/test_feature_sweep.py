"""A model with characters, parts of speech and exact matches, from the sweep to its predictions."""

import json

import numpy as np
import pytest
import small_sweep

from jaxmatch.analysis.evaluate import label_numbers, pairs_of, score_split
from jaxmatch.data import own
from jaxmatch.inference.matcher import load
from jaxmatch.sweep import launch
from jaxmatch.training.evaluation import mean_loss

SWEEP = '''"""A small sweep of a model with every feature."""

from jaxmatch.config.settings import default_config, with_overrides
from jaxmatch.sweep.sweep import Sweep
from jaxmatch.reporting.layout import TableLayout


def get_sweep() -> Sweep:
    settings = {
        "data.name": "own",
        "training.batch_size": 16,
        "training.epochs": 2,
        "training.maximum_buckets": 1,
        "execution.checkpoint_seconds": 0.0,
    }
    return Sweep("features", with_overrides(default_config(), settings), {}, (0,), TableLayout("t", ()))
'''
MODEL = {
    "model.name": "esan",
    "model.alignment_layers": "1",
    "model.hidden_size": "8",
    "model.characters": "cnn",
    "model.character_features": "4",
    "model.tags": "True",
    "model.tag_features": "2",
    "model.exact_match": "True",
}
pytestmark = pytest.mark.slow


def launched(files, workdir, **arguments):
    watcher = small_sweep.Watcher()
    overrides = small_sweep.overrides(files) | MODEL
    text = launch.sweep(files / "features.py", workdir=workdir, display=watcher, overrides=overrides, **arguments)
    return text, watcher


@pytest.fixture(scope="module")
def trained(small_files, tagger, tmp_path_factory):
    """The folder of the sweep after training, and the folder of its run."""
    (small_files / "features.py").write_text(SWEEP)
    workdir = tmp_path_factory.mktemp("with_features")
    text, watcher = launched(small_files, workdir)
    assert "test accuracy" in text and len(watcher.trained) == 1
    (run,) = small_sweep.records(workdir)
    return workdir, workdir / "runs" / run


def test_the_saved_model_reproduces_the_scores_of_its_record(trained, small_files):
    _, run = trained
    matcher = load(run)
    record = json.loads((run / "record.json").read_text())
    split = own.read(small_files / "test.tsv", "classification", matcher.labels)
    assert score_split(matcher, split)["accuracy"] == record["test"]["accuracy"]
    loss = mean_loss("classification", matcher.logits(pairs_of(split)), label_numbers(matcher, split))
    assert loss == pytest.approx(record["test"]["loss"], abs=1e-5)


def test_logits_do_not_depend_on_the_batch_but_on_every_feature(trained):
    matcher = load(trained[1])
    pairs = [("ba bo", "ba du"), ("ku, MA mo mu ba zz", "Ma"), ("?", "ba bo bu da do du ka")]
    together = matcher.logits(pairs)
    alone = np.concatenate([matcher.logits([pair]) for pair in reversed(pairs)])[::-1]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    features = matcher.encoded(pairs).features
    assert features["exact_match"] == ([[1, 0], [0, 1, 0, 0, 0, 0], [0]], [[1, 0], [1], [0] * 7])
    assert [[len(tags) for tags in side] for side in features["tags"]] == [[2, 6, 1], [2, 1, 7]]
    # Each feature changes the logits.
    ids = [np.array([[2, 3]]), np.array([[3, 4]])]
    word_features = {name: (np.array([[1, 1]]), np.array([[1, 1]])) for name in ("tags", "exact_match")}
    plain = matcher.model.logits(*ids, word_features)
    for name, other in (("tags", 9), ("exact_match", 0)):
        changed = {**word_features, name: (np.array([[1, other]]), word_features[name][1])}
        assert np.abs(matcher.model.logits(*ids, changed) - plain).max() > 1e-6
    spelled = matcher.model.characters.at[2, 0].set(65)
    respelled = type(matcher.model)(matcher.model.module, matcher.model.params, matcher.model.vectors, spelled)
    assert np.abs(respelled.logits(*ids, word_features) - plain).max() > 1e-6
