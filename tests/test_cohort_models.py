"""Models other than RE2 in training: the invariants of tests/test_cohort.py that depend on the model."""

import dataclasses

import numpy as np
import pytest
from small_cohort import MODEL, InterruptAfter, Interruption, leaves, make_cohort, make_data, same, steps_of

from jaxmatch.data.text import character_table
from jaxmatch.training import cohort as cohort_module
from jaxmatch.training.checkpoints import Checkpoints

ESAN = {"name": "esan", "hidden_size": 8, "alignment_layers": 1}
CSRAN = {"name": "csran", "stacked_layers": 1, "hidden_size": 4, "highway_layers": 1, "factors": 2, "head_size": 8}
ONE_LENGTH = {"maximum_buckets": 1}  # all tests share two compiled steps per model
pytestmark = pytest.mark.slow
CAFE = {"name": "cafe", "hidden_size": 4, "highway_layers": 1, "factors": 2, "head_size": 8}
BIMPM = {"name": "bimpm", "hidden_size": 4, "perspectives": 2, "head_size": 8}
DIIN = {"name": "diin", "grid_length": 8, "dense_blocks": 1, "block_layers": 1, "growth_rate": 4, "first_scale": 1.0}
DECATT = {"name": "decatt", "hidden_size": 8, "intra_attention": True}
ESIM = {"name": "esim", "hidden_size": 4}
SIAMESE = {"name": "siamese", "hidden_size": 4, "head_size": 8}
TRANSFORMER = {"name": "transformer", "hidden_size": 8, "heads": 2, "encoder_layers": 1, "feed_forward_size": 8}
ALL = [ESAN, CSRAN, CAFE, BIMPM, DIIN, DECATT, ESIM, SIAMESE, TRANSFORMER]


@pytest.mark.parametrize("model", ALL, ids=lambda model: model["name"])
def test_a_run_does_not_depend_on_other_runs_of_its_cohort(model):
    def losses_of(seeds, *changes):
        cohort = make_cohort(seeds=seeds, optimizer=[{}, *changes], model=model, training=ONE_LENGTH)
        return cohort, steps_of(cohort, 20)[0]

    cohort, losses = losses_of((7, 1, 2), {"learning_rate": 1e-4}, {"dropout_rate": 0.5})
    other, others = losses_of((7, 5, 6), {"learning_rate": 1e-2}, {"dropout_rate": 0.0})
    np.testing.assert_array_equal(losses[:, 0], others[:, 0])
    assert losses.std(axis=1).max() > 1e-3  # the runs do differ
    assert np.abs(losses - others)[:, 1:].max(axis=0).min() > 1e-3
    if model is SIAMESE:  # a single run compiles a different program; testing one model with an LSTM is enough
        alone = make_cohort(seeds=(7,), model=model, training=ONE_LENGTH)
        np.testing.assert_allclose(losses[:, 0], steps_of(alone, 20)[0][:, 0], atol=1e-4)
    assert other.chunks.programs is cohort.chunks.programs
    for compiled in cohort.chunks.programs.train.executables.values():
        text = compiled.as_text()
        assert "dot(" in text
        assert " convolution(" not in text


def test_other_runs_learn_when_one_run_of_the_cohort_diverges():
    # Without dropout, the loss falls in four epochs of a few steps with any seed.
    changes = [
        {"learning_rate": 1e-2, "dropout_rate": 0.0},
        {"learning_rate": 1e30, "gradient_clip": 0.0},
        {"learning_rate": 1e-2, "dropout_rate": 0.0},
    ]
    results = make_cohort(optimizer=changes, model=ESAN, training=ONE_LENGTH).train()
    assert results[1].progress.diverged_at is not None
    assert all(np.isfinite(leaf).all() for result in results for leaf in leaves(result))
    for result in (results[0], results[2]):
        assert result.progress.diverged_at is None
        curve = result.progress.curve
        assert curve[-1]["train_loss"] < curve[0]["train_loss"]


def test_interrupted_training_equals_uninterrupted_training_with_characters(tmp_path, monkeypatch):
    monkeypatch.setattr(cohort_module, "SECONDS_BETWEEN_POLLS", 0.0)  # check after every step
    data = make_data()
    data = dataclasses.replace(data, characters=character_table(data.vocabulary.words))
    model = {**MODEL, "characters": "cnn", "character_features": 4}
    arguments = dict(model=model, data=data, seeds=(1, 2), training={**ONE_LENGTH, "epochs": 2})
    uninterrupted = make_cohort(**arguments).train()
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    with pytest.raises(Interruption):
        make_cohort(**arguments).train(checkpoints, InterruptAfter(7))
    resumed = make_cohort(**arguments).train(checkpoints)
    checkpoints.close()
    same(resumed, uninterrupted)
