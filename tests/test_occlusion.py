"""Occlusion masks the same features as the paper, and counts changes per class."""

import dataclasses
import math

import jax
import numpy as np
import pytest
import reference_matcher
import reference_re2
import saved_model

import jaxmatch
from jaxmatch.analysis import occlusion
from jaxmatch.analysis.occlusion import Occluded, occlusions
from jaxmatch.data.pairs import Split
from jaxmatch.errors import InputError
from jaxmatch.models import build

PAIRS = [("a b c", "no d é"), ("e d c b a", "unseen c"), ("b", "a"), ("no no", "c d e"), ("é", "e b"), ("a e", "b")]
LABELS = ["neutral", "entailment", "neutral", "entailment", "neutral", "entailment"]  # no pair is a contradiction
SPLIT = Split(*zip(*PAIRS, strict=True), LABELS)

# The columns of each feature in the input of alignment and fusion: 4 of the residual, 5 of the embedding, 4 of the
# encoder.
COLUMNS = {
    (0, "embedding"): slice(0, 5),
    (0, "contextual"): slice(5, 9),
    **{(block, "residual"): slice(0, 4) for block in (1, 2)},
    **{(block, "embedding"): slice(4, 9) for block in (1, 2)},
    **{(block, "contextual"): slice(9, 13) for block in (1, 2)},
}


@pytest.fixture(scope="module")
def network():
    return reference_matcher.network()


@pytest.fixture(scope="module")
def expected(network):
    """The logits of the reference with all features (None), and without each of them."""
    state, matcher = network
    ids = reference_matcher.ids_of(matcher, PAIRS)
    found = {None: reference_re2.logits(state, reference_matcher.SETTINGS, *ids)}
    for (block, feature), columns in COLUMNS.items():
        settings = {**reference_matcher.SETTINGS, "occluded": {block: columns}}
        found[block, feature] = reference_re2.logits(state, settings, *ids)
    return found


@pytest.fixture(scope="module")
def measured(network):
    return occlusion.occlusion(network[1], SPLIT)


def test_occluded_logits_equal_the_reference_implementation(network, expected):
    kept = np.ones((len(expected), 3, 3), bool)
    for number, place in enumerate(expected):
        if place:
            kept[number, place[0], occlusion.FEATURES.index(place[1])] = False
    ours = occlusion.occluded_logits(network[1], SPLIT, kept)
    for one, (place, reference) in zip(ours, expected.items(), strict=True):
        np.testing.assert_allclose(one, reference, rtol=0, atol=1e-5 * np.abs(reference).max(), err_msg=str(place))
    assert all(np.abs(one - ours[0]).max() > 1e-3 for one in ours[1:])  # each feature matters
    np.testing.assert_allclose(ours[0], network[1].logits(PAIRS), rtol=0, atol=1e-5)
    # Batches of one pair, which differ in length, change nothing.
    alone = occlusion.occluded_logits(network[1], SPLIT, kept[:2], batch_size=1)
    np.testing.assert_allclose(alone, ours[:2], rtol=0, atol=1e-5)


def test_accuracy_changes_are_counted_per_class(measured, expected):
    assert measured.labels == saved_model.LABELS
    assert measured.pairs.tolist() == [3, 3, 0]

    def right(logits, label):
        answers = [saved_model.LABELS[row.argmax()] for row in logits]
        return sum(answer == label for answer, known in zip(answers, LABELS, strict=True) if known == label) / 3

    for number, label in enumerate(saved_model.LABELS[:2]):
        assert measured.accuracy[number] == pytest.approx(right(expected[None], label))
        for (block, feature), logits in list(expected.items())[1:]:
            change = measured.change[block, occlusion.FEATURES.index(feature), number]
            assert change == pytest.approx(right(logits, label) - right(expected[None], label))
    assert np.nanmax(np.abs(measured.change)) > 0.3  # at least one change is large, so the comparison is not trivial


def test_absent_features_and_empty_classes_are_nan(measured):
    """The paper leaves "previous aligned features" of the first block blank. A class without pairs is blank, too."""
    assert np.isnan(measured.change[0, occlusion.FEATURES.index("residual")]).all()
    assert np.isnan(measured.change[:, :, 2]).all() and np.isnan(measured.accuracy[2])
    assert np.isfinite(np.delete(measured.change, 1, axis=1)[:, :, :2]).all()
    plain = measured.as_json()
    assert plain["change"][0][1] == [None, None, None] and plain["accuracy"][2] is None
    assert plain["features"] == ["embedding", "residual", "contextual"]


def test_mean_and_deviation_over_seeds_equal_hand_computed_values():
    pairs, nan = np.array([4, 2, 0]), math.nan
    one = occlusion.Occlusion(saved_model.LABELS, pairs, np.array([0.5, 1.0, nan]), np.array([[[0.1, -0.2, nan]] * 3]))
    two = occlusion.Occlusion(saved_model.LABELS, pairs, np.array([0.7, 0.0, nan]), np.array([[[0.3, -0.2, nan]] * 3]))
    found = occlusion.over_seeds([one, two])
    np.testing.assert_allclose(found.accuracy, [0.6, 0.5, nan])
    np.testing.assert_allclose(found.accuracy_deviation, [math.sqrt(0.02), math.sqrt(0.5), nan])
    np.testing.assert_allclose(found.change, [[[0.2, -0.2, nan]] * 3])
    np.testing.assert_allclose(found.change_deviation, [[[math.sqrt(0.02), 0, nan]] * 3], atol=1e-12)
    assert found.as_json()["accuracy_deviation"][2] is None
    alone = occlusion.over_seeds([one])
    assert alone.as_json().items() >= one.as_json().items() and np.isnan(alone.change_deviation).all()
    for other in ({"pairs": pairs + 1}, {"labels": ("a", "b", "c")}, {"change": np.zeros((2, 3, 3))}):
        with pytest.raises(InputError, match="differ in the seed alone"):
            occlusion.over_seeds([one, dataclasses.replace(two, **other)])


TWO, THREE = ("embedding", "contextual"), ("residual", "embedding", "contextual")


@pytest.mark.parametrize(
    ("changed", "first", "later"),
    [
        ({"connection": "augmented"}, TWO, THREE),
        ({"connection": "augmented_running_sum"}, TWO, THREE),
        ({"connection": "vanilla"}, TWO, ("residual", "contextual")),
        ({"parallel_blocks": True}, TWO, TWO),
        ({"encoder_input": False}, ("contextual",), ("contextual",)),
    ],
)
def test_ablation_variants_have_the_expected_features(changed, first, later):
    settings = {**saved_model.SETTINGS, "blocks": 2, "hidden_size": 4, **changed}
    module = build(settings, outputs=3)
    assert [occlusion.features_seen(module, block) for block in (0, 1)] == [first, later]
    side = {"ids": jax.ShapeDtypeStruct((1, 2), np.int32)}
    params = jax.eval_shape(module.init, jax.random.key(0), side, side, saved_model.vectors())["params"]
    tokens, sentences = {"ids": np.array([[2, 3]], np.int32)}, np.array([[1, 2]], np.int8)

    def forward(params, kept):
        return occlusion.logits_without(module, params, saved_model.vectors(), tokens, sentences, kept)

    # Tracing fails unless each part of the input has a name.
    assert jax.eval_shape(forward, params, np.ones((2, 3), bool)).shape == (1, 3)


def test_occlusion_supports_character_and_exact_match_features(tmp_path):
    settings = {**saved_model.SETTINGS, "characters": "cnn", "character_features": 4, "exact_match": True}
    params = saved_model.parameters(3, settings=settings)
    matcher = jaxmatch.load(saved_model.save(tmp_path / "run", model_settings=settings, params=params))
    whole, masked = occlusion.occluded_logits(matcher, SPLIT, np.array([[[True] * 3], [[False, True, True]]]))
    np.testing.assert_allclose(whole, matcher.logits(PAIRS), rtol=1e-4, atol=1e-4)
    assert np.abs(masked - whole).max() > 1e-3


def test_unsupported_models_and_data_are_refused(tmp_path, network):
    _, matcher = network
    regression = jaxmatch.load(saved_model.save(tmp_path / "run", task="regression", labels=()))
    with pytest.raises(InputError, match="a regression has none"):
        occlusion.occlusion(regression, SPLIT)
    with pytest.raises(InputError, match="label 'maybe'"):
        occlusion.occlusion(matcher, dataclasses.replace(SPLIT, labels=["maybe"] * 6))
    with pytest.raises(InputError, match="holds no pairs"):
        occlusion.occlusion(matcher, Split([], [], []))
    other_model = jaxmatch.load(saved_model.save(tmp_path / "other"))
    object.__setattr__(other_model.model, "module", jax.nn)
    with pytest.raises(InputError, match="works on RE2 only"):
        occlusion.occlusion(other_model, SPLIT)


def test_negative_change_that_rounds_to_zero_has_no_minus_sign():
    found = occlusion.Occlusion(
        ("no", "yes"), np.array([2, 3]), np.array([0.5, np.nan]), np.full((1, 3, 2), [-0.0004, -0.06])
    )
    rows = [
        [cell.strip() for cell in line.split("|")]
        for line in occlusions([Occluded(found, "dev", ())], "markdown").splitlines()
    ]
    assert [row[3:5] for row in rows if row[1:2] == ["1"]] == [["+0.0", "-6.0"]] * 3
