"""Word vectors as a parameter of each run."""

import json

import jax
import numpy as np
import pytest
from small_cohort import make_cohort, make_data, started, steps_of
from small_sweep import launched, records

import jaxmatch
from jaxmatch.cli.main import main
from jaxmatch.inference.export import export
from jaxmatch.layers.words import initial_words

TRAINED, ONE_LENGTH = {"words": "trained"}, {"maximum_buckets": 1}


def test_words_without_a_vector_start_at_random_values():
    vectors = np.zeros((2000, 3), np.float32)
    vectors[5] = 1, 2, 3
    found = np.asarray(initial_words(jax.random.key(0), vectors))
    np.testing.assert_array_equal(found[[0, 5]], vectors[[0, 5]])
    drawn = np.delete(found, [0, 5], axis=0)
    assert np.abs(drawn).min() > 0 and abs(drawn.std() - 0.1) < 0.005 and abs(drawn.mean()) < 0.005


def table(cohort, state, run):
    return np.asarray(cohort.chunks.programs.flat.to_tree(state.parameters[run])["words"]["word_embedding"])


def test_each_run_trains_its_own_word_vectors():
    cohort = make_cohort(seeds=(7, 1), model=TRAINED, training=ONE_LENGTH)
    start = started(cohort)
    vectors = make_data().vectors
    for run in range(2):
        np.testing.assert_array_equal(table(cohort, start, run)[2:], vectors[2:])
    assert np.any(table(cohort, start, 0)[1] != table(cohort, start, 1)[1])
    _, state = steps_of(cohort, 12)
    first, second = table(cohort, state, 0), table(cohort, state, 1)
    assert np.abs(first - vectors)[2:].max(axis=1).min() > 0, "every word of the data was in a batch"
    assert np.any(first != second)
    np.testing.assert_array_equal([first[0], second[0]], 0)


def test_models_that_normalize_trained_vectors_do_not_diverge():
    """The vector of padding has length 0, and must not give NaN."""
    model = {"name": "decatt", "hidden_size": 8, "intra_attention": False, **TRAINED}
    cohort = make_cohort(seeds=(7,), model=model, training=ONE_LENGTH)
    losses, state = steps_of(cohort, 3)
    assert np.isfinite(losses).all() and state.diverged_at[0] == -1
    np.testing.assert_array_equal(table(cohort, state, 0)[0], 0)


def test_saved_model_has_the_trained_vectors_as_fixed_words(small_files, tmp_path, capsys):
    changes = {"model.words": "trained", "training.epochs": 2}
    launched(small_files, tmp_path, overrides=changes)
    name, record = next(item for item in records(tmp_path).items() if item[1]["status"] == "finished")
    run = tmp_path / "runs" / name
    assert record["config"]["model"]["words"] == "trained"
    matcher = jaxmatch.load(run)
    assert matcher.model.module.config.words == "fixed"
    assert record["parameters"] == matcher.model.vectors.size + sum(
        leaf.size for leaf in jax.tree.leaves(matcher.model.params)
    )
    # Its export does not differ from that of fixed words, and new words are unknown.
    export(matcher, tmp_path / "exported", "stablehlo")
    program = jax.export.deserialize(bytearray((tmp_path / "exported" / "program.stablehlo").read_bytes()))
    ids, sentences = np.array([[2, 3, 4, 1]], np.int32), np.array([[1, 1, 2, 2]], np.int8)
    found = program.call(np.load(tmp_path / "exported" / "vectors.npy"), ids, sentences)
    np.testing.assert_allclose(found, matcher.model.logits(ids[:, :2], ids[:, 2:]), atol=1e-5)
    assert json.loads((tmp_path / "exported" / "export.json").read_text())["new_words"] is None
    # It predicts as in training: test was scored with the trained words.
    assert main(["evaluate", str(run), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["scores"]["accuracy"] == pytest.approx(record["test"]["accuracy"])


def test_missing_vectors_without_trained_words_are_refused(small_files, tmp_path):
    with pytest.raises(jaxmatch.InputError, match="would see no word"):
        launched(small_files, tmp_path, overrides={"data.vectors": "none"})
