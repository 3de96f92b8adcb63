"""A model with characters, parts of speech and exact matches, from the sweep to its predictions."""

import json

import numpy as np
import pytest
import small_sweep

from jaxmatch.analysis.evaluate import evaluation, label_numbers, pairs_of
from jaxmatch.data import own
from jaxmatch.inference.matcher import load
from jaxmatch.training.evaluation import mean_loss

MODEL = {
    "training.epochs": "2",
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


@pytest.fixture(scope="module")
def trained(small_files, tagger, tmp_path_factory):
    """The folder of a trained run."""
    workdir, rate = tmp_path_factory.mktemp("with_features"), {"optimizer.learning_rate": "0.01"}
    text, _ = small_sweep.launched(small_files, workdir, overrides=MODEL, grid_overrides=rate)
    assert "test accuracy" in text
    (run,) = small_sweep.records(workdir)
    return workdir / "runs" / run


def test_the_saved_model_reproduces_the_scores_of_its_record(trained, small_files):
    matcher = load(trained)
    record = json.loads((trained / "record.json").read_text())
    split = own.read(small_files / "test.tsv", "classification", matcher.labels)
    assert evaluation(matcher, split)["scores"]["accuracy"] == record["test"]["accuracy"]
    loss = mean_loss("classification", matcher.logits(pairs_of(split)), label_numbers(matcher, split))
    assert loss == pytest.approx(record["test"]["loss"], abs=1e-5)


def test_logits_do_not_depend_on_the_batch_but_on_every_feature(trained):
    matcher = load(trained)
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
