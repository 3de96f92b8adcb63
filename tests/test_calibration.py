"""The temperature and the threshold are optimal on the pairs that they were chosen on, and saved with the model."""

import json

import numpy as np
import pytest
import saved_model
from hypothesis import given, settings
from hypothesis import strategies as st
from saved_model import LABELS, TEXTS, write_tsv
from sklearn.calibration import calibration_curve
from sklearn.metrics import log_loss, precision_recall_fscore_support

import jaxmatch
from jaxmatch.cli.main import main
from jaxmatch.errors import InputError
from jaxmatch.inference import calibration, model_folder
from jaxmatch.inference.calibration import Calibration, chosen_calibration, chosen_temperature, chosen_threshold
from jaxmatch.inference.matcher import probabilities_of

BINARY = ("0", "1")


def overconfident(pairs=4000, labels=2, factor=3.0, seed=0):
    """Returns logits times a factor, and labels drawn from the softmax of the logits without the factor."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(0, 1.5, (pairs, labels))
    numbers = (probabilities_of(logits).cumsum(axis=1) < generator.random((pairs, 1))).sum(axis=1)
    return (logits * factor).astype(np.float32), numbers.astype(np.int32)


@pytest.mark.parametrize("labels", [2, 3])
def test_temperature_recovers_the_factor_of_overconfident_logits(labels):
    logits, numbers = overconfident(labels=labels)
    assert chosen_temperature(logits, numbers) == pytest.approx(3, rel=0.1)
    found = chosen_calibration(logits, numbers, [str(number) for number in range(labels)])
    assert (found.threshold is None) == (labels == 3)
    assert found.after["expected_calibration_error"] < 0.3 * found.before["expected_calibration_error"]
    assert found.after["log_loss"] < found.before["log_loss"]
    for temperature in (0.9 * found.temperature, 1.1 * found.temperature):
        assert found.after["log_loss"] < log_loss(numbers, probabilities_of(logits / np.float64(temperature)))
    assert found.after["log_loss"] == pytest.approx(log_loss(numbers, probabilities_of(found.scaled(logits))), abs=1e-9)


def test_temperature_is_bounded_for_always_right_and_always_wrong_models():
    numbers = np.array([0, 1] * 20)
    right = np.where(np.eye(2)[numbers] > 0, 1, 0).astype(np.float32)
    assert chosen_temperature(right, numbers) == pytest.approx(calibration.MIN_TEMPERATURE, rel=0.01)
    assert chosen_temperature(right[::-1], numbers) == pytest.approx(calibration.MAX_TEMPERATURE, rel=0.01)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=40),
    st.sampled_from(["accuracy", "f1", "precision"]),
)
def test_no_threshold_is_better_than_the_chosen_one(rows, objective):
    probabilities, right = np.array([row[0] / 22 + 0.01 for row in rows]), np.array([row[1] for row in rows])
    precision = 0.7 if objective == "precision" else None

    def merit(threshold):
        guessed = probabilities >= threshold
        hits, taken = np.count_nonzero(guessed & right), np.count_nonzero(guessed)
        if objective == "accuracy":
            return np.mean(guessed == right)
        if objective == "f1":
            return 2 * hits / max(taken + right.sum(), 1)
        return hits if taken and hits >= precision * taken else 0

    best = max(merit(threshold) for threshold in np.arange(100) / 100 + 1e-3)
    if objective == "precision" and not best:
        with pytest.raises(InputError, match="no threshold reaches a precision of 0.7; the highest is 0"):
            chosen_threshold(probabilities, right, objective, precision)
    else:
        threshold = chosen_threshold(probabilities, right, objective, precision)
        assert 0 < threshold < 1
        assert merit(threshold) == pytest.approx(best)


def test_ties_of_thresholds_go_to_fewer_false_positives_and_then_to_the_nearest_to_one_half():
    # Thresholds of 0.925 and 0.4 are right three times.
    probabilities, right = np.array([0.95, 0.9, 0.6, 0.2]), np.array([True, False, True, False])
    assert chosen_threshold(probabilities, right, "accuracy", None) == pytest.approx(0.4)
    # Thresholds of 0.75, 0.35 and 0.05 find both, with no, one and two false positives.
    probabilities, right = np.array([0.95, 0.9, 0.6, 0.1]), np.array([True, True, False, False])
    assert chosen_threshold(probabilities, right, "precision", 0.5) == pytest.approx(0.75)


def test_thresholds_of_zero_and_one_are_never_chosen():
    probabilities, right = np.array([0.9, 0.6, 0.0]), np.array([False, True, True])
    with pytest.raises(InputError, match="no threshold reaches a precision of 0.6; the highest is 0.5000"):
        chosen_threshold(probabilities, right, "precision", 0.6)
    assert chosen_threshold(np.array([1.0, 0.0]), np.array([False, True]), "accuracy", None) == 0.5


@pytest.mark.parametrize(("hits", "taken", "precision"), [(7, 25, 0.28), (7, 50, 0.14), (29, 50, 0.58)])
def test_a_precision_that_is_reached_exactly_is_enough(hits, taken, precision):
    probabilities = np.append(np.linspace(0.6, 0.9, taken), 0.1)
    right = np.append(np.arange(taken) < hits, False)  # lower thresholds have a higher precision
    threshold = chosen_threshold(probabilities, right, "precision", precision)
    assert (probabilities > threshold).sum() == taken


def test_expected_calibration_error_equals_sklearn_calibration_curve():
    # Confident predictions are too confident, and the others not confident enough.
    logits, numbers = (np.concatenate(each) for each in zip(overconfident(), overconfident(factor=0.3, seed=1)))
    probabilities = probabilities_of(logits)
    right = probabilities.argmax(axis=1) == numbers
    shares, confidences = calibration_curve(right, probabilities.max(axis=1), n_bins=15)
    # With two labels no confidence is below one half, so the last bins are those that are not empty.
    counts = np.histogram(probabilities.max(axis=1), bins=np.linspace(0, 1, 16))[0][-len(shares) :]
    gaps = (shares - confidences) * counts
    assert gaps.min() < 0 < gaps.max()
    expected = np.abs(gaps).sum() / len(numbers)
    assert calibration.expected_calibration_error(probabilities, numbers) == pytest.approx(expected)


@pytest.mark.parametrize("column", [0, 1])
def test_precision_recall_and_f1_of_the_positive_label_equal_sklearn(column):
    logits, numbers = overconfident(200)
    found = calibration.quality(Calibration(threshold=0.8, positive=BINARY[column]), logits, numbers, BINARY)
    guessed = probabilities_of(logits)[:, column] >= 0.8
    expected = precision_recall_fscore_support(numbers == column, guessed, average="binary")[:3]
    assert [found[name] for name in ("precision", "recall", "f1")] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"labels": ()}, "a regression has no probabilities"),
        ({"labels": ("a", "b", "c"), "positive": "a"}, "the model has 3 labels; a threshold needs two"),
        ({"objective": "precision", "precision": 1.5}, "no threshold reaches a precision of 1.5"),
        ({"positive": "2"}, r"'2' is not one of the model's labels \(0, 1\)"),
    ],
)
def test_invalid_arguments_of_calibration_are_refused(changed, problem):
    logits, numbers = overconfident(20, len(changed.get("labels", BINARY)) or 1)
    with pytest.raises(InputError, match=problem):
        chosen_calibration(logits, numbers, changed.pop("labels", BINARY), **changed)


@pytest.fixture
def binary(tmp_path):
    """A run with two labels, and its dev file, on which its threshold is not one half. Its test file has one pair."""
    data = {"name": "own", "directory": str(tmp_path), "task": "classification"}
    config = {"data": data, "model": saved_model.SETTINGS}
    run = saved_model.save(tmp_path / "run", task="classification", labels=BINARY, config=config)
    probabilities = probabilities_of(jaxmatch.load(run).logits(TEXTS))[:, 1]
    least = np.sort(probabilities)[1]
    rows = [(*pair, str(int(value >= least))) for pair, value in zip(TEXTS, probabilities, strict=True)]
    write_tsv(tmp_path / "test.tsv", rows[:1], "text_a\ttext_b\tlabel")
    return run, write_tsv(tmp_path / "dev.tsv", [*rows, rows[0]], "text_a\ttext_b\tlabel")


def test_a_calibrated_run_predicts_with_its_temperature_and_threshold(binary, capsys):
    run, dev = binary
    before = jaxmatch.load(run)
    assert before.calibration is None
    assert main(["calibrate", str(run), "--input", str(dev), "--format", "json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    after = jaxmatch.load(run)
    assert reported["temperature"] == after.calibration.temperature and reported["data"] == str(dev)
    assert reported["positive"] == "1"
    np.testing.assert_array_equal(after.logits(TEXTS), before.logits(TEXTS))
    expected = probabilities_of(before.logits(TEXTS).astype(float) / after.calibration.temperature)
    for prediction, row in zip(after.predict(TEXTS), expected, strict=True):
        assert prediction.probabilities == pytest.approx(dict(zip(BINARY, row, strict=True)))
        assert prediction.label == BINARY[int(row[1] >= after.calibration.threshold)]
    assert main(["evaluate", str(run), "--input", str(dev), "--format", "json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["calibrated"]["accuracy"] == 1.0 > scores["scores"]["accuracy"]
    assert {name: scores["calibrated"][name] for name in reported["after"]} == pytest.approx(reported["after"])
    assert {name: scores["scores"][name] for name in reported["before"]} == pytest.approx(reported["before"])
    (run / "model" / "calibration.json").unlink()
    assert jaxmatch.load(run).predict(TEXTS) == before.predict(TEXTS)


def test_dev_can_choose_a_threshold_of_the_first_label_for_a_target_precision(binary, capsys):
    run, _ = binary
    assert main(["calibrate", str(run), "--precision", "1", "--positive", "0"]) == 0
    found = jaxmatch.load(run).calibration
    assert (found.data, found.pairs) == ("own dev", len(TEXTS) + 1)
    assert (found.positive, found.objective, found.after["precision"]) == ("0", "precision", 1.0)
    assert f"threshold    {found.threshold:.4f}  (of 0, chosen for precision)" in capsys.readouterr().out
    for prediction in jaxmatch.load(run).predict(TEXTS):
        assert prediction.label == "01"[prediction.probabilities["0"] < found.threshold]
    assert main(["evaluate", str(run), "--split", "dev", "--format", "json"]) == 0
    evaluated = json.loads(capsys.readouterr().out)
    assert evaluated["scores"].items() >= found.before.items()  # precision, recall and F1 are those of the label, too
    assert evaluated["calibrated"].items() >= found.after.items()


@pytest.mark.parametrize(("labels", "missing"), [(BINARY, "1"), (LABELS, "neutral, contradiction")])
def test_pairs_of_one_label_are_refused(tmp_path, capsys, labels, missing):
    run = saved_model.save(tmp_path / "run", labels=labels, params=saved_model.parameters(len(labels)))
    dev = write_tsv(tmp_path / "dev.tsv", [(*pair, labels[0]) for pair in TEXTS], "text_a\ttext_b\tlabel")
    assert main(["calibrate", str(run), "--input", str(dev)]) == 2
    problem = f"no pair is labeled {missing}; calibrate on pairs of two labels or more"
    assert capsys.readouterr().err == f"jaxmatch: {dev}: {problem}\n"
    assert not (run / "model" / "calibration.json").exists()


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"format": 2}, "its format is not 1"),
        ({"temperature": 0}, "its temperature or threshold does not fit the model"),
        ({"temperature": "hot"}, "the calibration is damaged .*"),
        ({"threshold": 1}, "its temperature or threshold does not fit the model"),
        ({"positive": "2"}, "its temperature or threshold does not fit the model"),
        ({"parameters": "0" * 64}, "was made for other parameters"),
        (None, "the calibration is damaged .*"),
    ],
)
def test_a_damaged_calibration_is_refused(tmp_path, changed, problem):
    run = saved_model.save(tmp_path / "run", labels=BINARY)
    path = model_folder.save_calibration(run, Calibration(threshold=0.4, positive="1"))
    path.write_text("{" if changed is None else json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(InputError, match=f"^{path}: {problem}; remove it"):
        jaxmatch.load(run)
