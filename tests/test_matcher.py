"""A saved model predicts as it did in memory, in any folder or process and with any other pairs in the batch."""

import copy
import json
import multiprocessing
import os
import pickle
import random
import shutil
import subprocess
import sys

import jax
import numpy as np
import pandas
import pyarrow
import pytest
import saved_model
from hypothesis import given
from hypothesis import strategies as st

import jaxmatch
from jaxmatch import devices, models
from jaxmatch.errors import InputError
from jaxmatch.inference import matcher
from jaxmatch.inference.matcher import InferenceModel

PAIRS = [
    ("a b c", "no d"),
    ("a", "a"),
    ("e d c b a no a b c d e a b", "new york"),
    ("unseen words only", "c"),
    ("...", "d e"),
    ("a b c", "b"),
    ("no no no", "é e"),
]


@pytest.fixture(scope="module")
def model(run):
    return jaxmatch.load(run)


def test_saved_model_logits_equal_the_model_in_memory(model):
    module = models.build(saved_model.SETTINGS, outputs=3)
    bound = InferenceModel(module, saved_model.parameters(3), saved_model.vectors())
    # "a b c" and "no d" by hand: positions in WORDS.
    expected = bound.logits(np.array([[2, 3, 4]], np.int32), np.array([[7, 5]], np.int32))
    np.testing.assert_allclose(model.logits(PAIRS[:1]), expected, rtol=0, atol=1e-6)


def test_a_model_without_optimizations_predicts_the_same_and_needs_no_code_for_cpus(run, model, monkeypatch):
    expected, plain = model.logits(PAIRS), jaxmatch.load(run, optimize_for_cpu=False)
    np.testing.assert_array_equal(copy.deepcopy(model).logits(PAIRS), expected)
    monkeypatch.setitem(sys.modules, "jaxmatch.inference.cpu", None)  # any import fails
    for one in (plain, pickle.loads(pickle.dumps(plain))):
        np.testing.assert_allclose(one.logits(PAIRS), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ImportError, match=r"jaxmatch\.inference\.cpu"):
        jaxmatch.load(run).predict(PAIRS)
    monkeypatch.setattr(matcher, "_is_on_cpu", lambda array: False)  # as on another device
    assert len(jaxmatch.load(run).predict(PAIRS)) == len(PAIRS)


@pytest.mark.parametrize("optimize_for_cpu", [True, False])
def test_prediction_does_not_need_jax_to_promote_types(run, strict_promotion, optimize_for_cpu):
    long = "a b c d e a b c d e a b c d e a b c d e a b c d e"  # no other test has compiled a program of its length
    (prediction,) = jaxmatch.load(run, optimize_for_cpu=optimize_for_cpu).predict([(long, long)])
    assert prediction.label in saved_model.LABELS


def test_logits_keep_order_and_do_not_depend_on_other_pairs(model):
    together = model.logits(PAIRS)
    alone = np.concatenate([model.logits([pair]) for pair in PAIRS])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-5)
    assert np.ptp(alone, axis=0).min() > 1e-3  # the pairs differ, so a wrong order would show
    order = list(range(len(PAIRS)))
    random.Random(1).shuffle(order)
    np.testing.assert_allclose(model.logits([PAIRS[i] for i in order], 3), together[order], rtol=0, atol=1e-5)


def test_probabilities_are_the_softmax_of_the_logits(model):
    for prediction, row in zip(model.predict(PAIRS), model.logits(PAIRS).astype(float), strict=True):
        expected = np.exp(row) / np.exp(row).sum()
        assert list(prediction.probabilities) == list(saved_model.LABELS)
        np.testing.assert_allclose(list(prediction.probabilities.values()), expected, rtol=1e-12)
        assert prediction.label == saved_model.LABELS[int(row.argmax())]
        assert prediction.score is None


def test_regression_predicts_a_score_without_a_label(tmp_path):
    model = jaxmatch.load(saved_model.save(tmp_path / "run", task="regression", labels=()))
    predictions = model.predict(PAIRS)
    np.testing.assert_allclose([one.score for one in predictions], model.logits(PAIRS)[:, 0], rtol=1e-6)
    assert all(one.label is None and one.probabilities == {} for one in predictions)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_use_after_a_fork_is_refused(model, run):
    model.predict(PAIRS[:1])
    context = multiprocessing.get_context("fork")
    refused = context.Queue()

    def use():
        for function in (lambda: model.predict(PAIRS[:1]), lambda: model.warmup([9]), lambda: jaxmatch.load(run)):
            try:
                function()
            except RuntimeError as error:
                refused.put(str(error))

    child = context.Process(target=use, daemon=True)
    child.start()
    try:
        assert all("multiprocessing.get_context('spawn')" in refused.get(timeout=20) for _ in range(3))
    finally:
        child.kill()
        child.join()


@pytest.mark.parametrize("wrong", ["ab", ("a",), ("a", None), None, {"text_a": "a", "text_b": "b"}])
def test_invalid_pair_raises_type_error_with_its_index(model, wrong):
    with pytest.raises(TypeError, match="element 1 "):
        model.predict([("a", "b"), wrong])


def test_pairs_may_be_iterators_or_arrays_or_none(model):
    assert model.predict([]) == [] and model.logits([]).shape == (0, 3)
    np.testing.assert_array_equal(model.logits(pair for pair in PAIRS), model.logits(PAIRS))
    assert model.predict(zip(*zip(*PAIRS, strict=True), strict=True)) == model.predict(np.array(PAIRS))


def test_pairs_may_be_a_data_frame_or_a_file(model, tmp_path):
    expected = model.predict(PAIRS)
    frame = pandas.DataFrame(PAIRS, columns=["first", "text_b"])
    frame.to_csv(tmp_path / "pairs.csv", index=False)
    for source in (frame, pyarrow.Table.from_pandas(frame), tmp_path / "pairs.csv", str(tmp_path / "pairs.csv")):
        assert model.predict(source, columns="text_a=first") == expected
        with pytest.raises(InputError, match="has no column 'text_a'; it has 'first', 'text_b'; .* columns="):
            model.logits(source)


def test_a_prediction_tells_the_share_of_unknown_words(model, tmp_path):
    assert [one.unknown_words for one in model.predict([("a b c", "no d"), ("a zebra", "b quagga gnu")])] == [0, 0.6]
    # A model that reads the spelling of words knows them all.
    (spelled,) = with_characters(tmp_path / "run", minimum_count=1).predict([("a zebra", "b")])
    assert spelled.unknown_words == 0


@pytest.mark.parametrize(("wrong", "kind"), [(0, ValueError), (1.5, TypeError)])
def test_invalid_batch_size_is_an_error(model, wrong, kind):
    with pytest.raises(kind):
        model.predict(PAIRS, batch_size=wrong)


def test_moved_model_folder_gives_the_same_logits_in_another_process(run, model, tmp_path):
    moved = shutil.copytree(run / "model", tmp_path / "moved")
    code = "import sys, jaxmatch; print(jaxmatch.load(sys.argv[1]).logits([('a b c', 'no d')]).tolist())"
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(jaxmatch.__file__))}
    options = dict(cwd=tmp_path, env=environment, capture_output=True, check=True, text=True)
    done = subprocess.run([sys.executable, "-c", code, moved], **options)
    np.testing.assert_array_equal(np.array(json.loads(done.stdout), np.float32), model.logits(PAIRS[:1]))


def test_folder_that_is_not_a_run_is_refused(run, tmp_path):
    with pytest.raises(InputError, match="holds no runs of a sweep that have ended"):
        jaxmatch.load(run.parent.parent)
    with pytest.raises(InputError, match="no such folder"):
        jaxmatch.load(tmp_path / "absent")
    with pytest.raises(InputError, match="holds no model"):
        jaxmatch.load(tmp_path)


def test_load_is_a_lazy_attribute_that_does_not_import_jax():
    code = "import sys, jaxmatch; assert {'load', 'interop'} <= set(dir(jaxmatch)) and 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'lord'"):
        _ = jaxmatch.lord


@given(st.lists(st.integers(0, 9000), max_size=40), st.integers(1, 70))
def test_batches_are_sorted_by_length_and_bounded_in_size(lengths, most):
    sides = [[0] * (length // 2) for length in lengths], [[0] * (length - length // 2) for length in lengths]
    batches = list(matcher.batches(*sides, most))
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    in_turn = [lengths[number] for batch in batches for number in batch]
    assert in_turn == sorted(lengths)
    for batch, following in zip(batches, [*batches[1:], None][: len(batches)], strict=True):
        longest = max(lengths[number] for number in batch)
        assert 1 <= len(batch) <= most and (len(batch) == 1 or len(batch) * longest**2 <= 2**26)
        if following is not None and len(batch) < most:  # one more would have been too many
            assert (len(batch) + 1) * lengths[following[0]] ** 2 > 2**26


def test_compiled_programs_are_evicted_when_memory_mappings_are_scarce(tmp_path, monkeypatch):
    model = jaxmatch.load(saved_model.save(tmp_path / "run"))
    pairs = [("a b", "c"), ("a b c d e a b c d", "e d c b a b c d e"), ("no", "no")]
    expected = [model.logits([pair]) for pair in pairs]
    checks = []
    monkeypatch.setattr(devices, "mappings_are_scarce", lambda: checks.append(1) or True)
    again = jaxmatch.load(tmp_path / "run")
    for _ in range(2):
        for pair, logits in zip(pairs, expected, strict=True):
            np.testing.assert_array_equal(again.logits([pair]), logits)
    # The pairs have two shapes, which evict each other: the two rounds compile five programs.
    assert len(again.model.predictor.programs) == 1 and len(checks) == 5


def test_batch_size_is_padded_except_for_long_rows(model):
    for batch, length, rows in ((1, 20, 8), (9, 20, 16), (3, 6000, 3)):
        _, sentences = model.model.inputs(np.ones((batch, length), int), np.ones((batch, 1), int))
        assert len(sentences) == rows


def with_characters(folder, **data):
    settings = {**saved_model.SETTINGS, "characters": "cnn", "character_features": 4}
    config = {"data": {"name": "own", "directory": "", "task": "classification", **data}, "model": settings}
    params = saved_model.parameters(3, settings=settings)
    return jaxmatch.load(saved_model.save(folder, model_settings=settings, params=params, config=config))


def test_new_words_are_encoded_by_their_characters(tmp_path):
    model = with_characters(tmp_path / "run", minimum_count=1)
    pairs = [("a zebra", "b"), ("a quagga", "b"), ("a b", "c"), ("zebra a", "quagga <unknown>")]
    together = model.logits(pairs)
    assert np.abs(together[0] - together[1]).max() > 1e-3
    assert model.encoded(pairs).sides[0] == [[2, 12], [2, 13], [2, 3], [12, 2]] and len(saved_model.WORDS) == 12
    # Neither other pairs of a request nor a larger word table changes a prediction.
    for pair, logits in zip(pairs, together, strict=True):
        np.testing.assert_allclose(model.logits([pair])[0], logits, rtol=1e-6, atol=1e-5)
    many = [(f"a word{number}", "b") for number in range(40)]
    np.testing.assert_allclose(model.logits([*many, *pairs])[-4:], together, rtol=1e-6, atol=1e-5)
    # A new word is like a word of the vocabulary that has no vector: only its characters are known.
    table = model.encoded([("zebra", "a")]).words
    assert table.vectors.shape[0] == table.characters.shape[0] == 12 + 8
    assert not np.asarray(table.vectors[12:]).any() and bytes(np.asarray(table.characters[12, :5]).tolist()) == b"zebra"


def test_new_words_are_unknown_if_training_dropped_rare_words(tmp_path):
    model = with_characters(tmp_path / "run", minimum_count=5)
    first, second = model.logits([("a zebra", "b"), ("a quagga", "b")])
    np.testing.assert_array_equal(first, second)
    assert model.encoded([("zebra", "b")]).sides == ([[1]], [[3]])


@pytest.mark.parametrize("error", [RuntimeError("Unable to initialize backend"), AssertionError()])
def test_missing_device_is_an_input_error(run, monkeypatch, error):
    def nothing(_):
        raise error

    monkeypatch.setattr(jax, "devices", nothing)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    reason = str(error) or "JAX_PLATFORMS=cuda"
    with pytest.raises(InputError, match=f"JAX finds no device \\({reason}\\); set JAX_PLATFORMS=cpu"):
        jaxmatch.load(run)
