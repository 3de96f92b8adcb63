"""Networks of the authors' TensorFlow code: the converted model gives the same logits."""

from pathlib import Path

import golden_networks
import numpy as np
import pytest
import reference_re2_tensorflow as reference
from golden_networks import CHOICES, IDS_A, IDS_B, assert_close, assert_misfits_are_errors

from jaxmatch.inference.interop import re2_from_tensorflow
from jaxmatch.models.pair_model import pair_rows

GOLDEN = sorted((Path(__file__).parent / "golden" / "tensorflow").glob("*.npz"))
SIZES = {**golden_networks.SIZES, "blocks": 2, "enc_layers": 1, "kernel_size": 3}


def load(path):
    return golden_networks.load(path, "variables/")


def network(seed=0, **settings):
    settings = {**SIZES, **{name: values[0] for name, values in CHOICES.items()}, **settings}
    return reference.random_variables(settings, np.random.default_rng(seed)), settings


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_logits_equal_those_of_the_tensorflow_code(path):
    variables, settings, ids_a, ids_b, logits = load(path)
    assert_close(re2_from_tensorflow(variables, settings).logits(ids_a, ids_b), logits)
    np.testing.assert_allclose(reference.logits(variables, settings, ids_a, ids_b), logits, rtol=1e-9, atol=1e-9)
    assert len(GOLDEN) == 6


@pytest.mark.parametrize("alignment", CHOICES["alignment"])
@pytest.mark.parametrize("fusion", CHOICES["fusion"])
@pytest.mark.parametrize("connection", CHOICES["connection"])
def test_every_combination_equals_the_reference(alignment, fusion, connection):
    chosen = {"alignment": alignment, "fusion": fusion, "connection": connection}
    rows = pair_rows({"ids": IDS_A}, {"ids": IDS_B})
    for seed, (blocks, layers) in enumerate([(2, 1), (3, 2)]):
        vectors_of_both = None
        # How variables of the prediction are read does not depend on the number of blocks or layers.
        for prediction in CHOICES["prediction"] if blocks == 2 else ("full",):
            variables, settings = network(seed, **chosen, blocks=blocks, enc_layers=layers, prediction=prediction)
            bound = re2_from_tensorflow(variables, settings)
            of_params = {"params": bound.params}
            # With one seed, all three predictions have the same layers below, so these are computed once.
            if vectors_of_both is None:
                vectors_of_both = bound.module.apply(of_params, *rows, bound.vectors, method="sentence_vectors")
            ours = bound.module.apply(
                of_params, *vectors_of_both, None, method=lambda model, *seen: model.predict(*seen)
            )
            expected = reference.logits(variables, settings, IDS_A, IDS_B)
            assert_close(ours, expected)
    if (alignment, fusion) == ("linear", "full"):  # `logits` computes the same, and compiles for each network
        assert_close(bound.logits(IDS_A, IDS_B), expected)


def test_a_residual_connection_of_equal_sizes_has_no_projection():
    variables, settings = network(connection="residual", embedding_dim=4)
    assert not any("residual_projection" in name for name in variables)
    assert_close(
        re2_from_tensorflow(variables, settings).logits(IDS_A, IDS_B),
        reference.logits(variables, settings, IDS_A, IDS_B),
    )


def test_optimizer_variables_are_ignored():
    variables, settings = network()
    adam = {f"{name}/Adam": value for name, value in variables.items()} | {
        "global_step": np.zeros(()),
        "beta1_power": np.ones(()),
    }
    bound, other = re2_from_tensorflow(variables | adam, settings), re2_from_tensorflow(variables, settings)
    np.testing.assert_array_equal(bound.logits(IDS_A, IDS_B), other.logits(IDS_A, IDS_B))


def test_mismatched_variables_and_settings_are_errors():
    assert_misfits_are_errors(re2_from_tensorflow, *network(), "block-1/align/sub/bias")
