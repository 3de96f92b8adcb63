"""Fusion, connection and prediction: the small layers above the alignment."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import applied

from jaxmatch.config.models import RE2Config
from jaxmatch.layers.core import WeightNormDense
from jaxmatch.models.re2 import Connection, FullFusion, PredictionLayer, SimpleFusion

OWN, ALIGNED = (jax.random.normal(jax.random.key(seed), (2, 3, 4)) for seed in (0, 1))


def dense(features, params, *parts, activated=True):
    return WeightNormDense(RE2Config(), features, activated=activated).apply(
        {"params": params}, jnp.concatenate(parts, axis=-1)
    )


def test_full_fusion_compares_in_three_perspectives():
    fused, variables = FullFusion(RE2Config(hidden_size=5)).init_with_output(
        jax.random.key(2), (OWN,), (ALIGNED,), None
    )
    params = variables["params"]
    compared = [
        dense(5, params["concatenation"], OWN, ALIGNED),
        dense(5, params["difference"], OWN, OWN - ALIGNED),
        dense(5, params["product"], OWN, OWN * ALIGNED),
    ]
    np.testing.assert_allclose(fused, dense(5, params["output"], *compared), atol=1e-5)


def test_simple_fusion_is_one_dense_layer():
    fused, variables = SimpleFusion(RE2Config(hidden_size=5)).init_with_output(
        jax.random.key(2), (OWN,), (ALIGNED,), None
    )
    np.testing.assert_allclose(fused, dense(5, variables["params"]["output"], OWN, ALIGNED), atol=1e-6)


def test_input_in_parts_equals_concatenated_input():
    cut = [(values[..., :1], values[..., 1:]) for values in (OWN, ALIGNED)]
    for kind in (FullFusion, SimpleFusion):
        fused, variables = kind(RE2Config(hidden_size=5)).init_with_output(jax.random.key(2), (OWN,), (ALIGNED,), None)
        np.testing.assert_allclose(kind(RE2Config(hidden_size=5)).apply(variables, *cut, None), fused, atol=1e-6)


@pytest.mark.parametrize("kind", [FullFusion, SimpleFusion])
def test_dropout_before_every_layer_changes_outputs_only_at_positive_rates(kind):
    placed, arguments = (
        kind(RE2Config(hidden_size=5, dropout_placement="every_layer")),
        ((OWN[..., :1], OWN[..., 1:]), (ALIGNED[..., :1], ALIGNED[..., 1:])),
    )
    fused, variables = placed.init_with_output(jax.random.key(2), *arguments, None)
    nothing_dropped = placed.apply(variables, *arguments, 0.0, rngs={"dropout": jax.random.key(3)})
    np.testing.assert_allclose(nothing_dropped, fused, atol=1e-6)
    dropped = placed.apply(variables, *arguments, 0.5, rngs={"dropout": jax.random.key(3)})
    assert not np.allclose(dropped, fused, atol=1e-2)


def connected(kind, previous_input, outputs):
    embedded = jnp.full((1, 1, 3), 9.0)
    return np.concatenate(
        Connection(RE2Config(hidden_size=2, connection=kind)).apply({}, embedded, previous_input, outputs), axis=-1
    )[0, 0]


def test_connections_equal_hand_computed_values():
    first, second, third = (jnp.full((1, 1, 2), value) for value in (1.0, 2.0, 4.0))
    embedded, root = jnp.full((1, 1, 3), 9.0), np.sqrt(2)
    for kind in ("augmented", "augmented_running_sum"):
        np.testing.assert_allclose(connected(kind, (embedded,), [first]), [1, 1, 9, 9, 9])
        into_third = connected(kind, (first, embedded), [first, second])
        np.testing.assert_allclose(into_third, [3 / root, 3 / root, 9, 9, 9], rtol=1e-6)
    # From the fourth block on they differ: Eq. 1 adds the last two outputs, and the running sum adds all.
    before = (jnp.asarray(into_third[:2])[None, None], embedded)
    np.testing.assert_allclose(connected("augmented", before, [first, second, third])[:2], 6 / root, rtol=1e-6)
    running = connected("augmented_running_sum", before, [first, second, third])
    np.testing.assert_allclose(running[:2], (3 / root + 4) / root, rtol=1e-6)
    np.testing.assert_allclose(connected("none", before, [first, second]), [2, 2])
    # The connection of the ablation is Eq. 1 without the embeddings.
    for outputs in ([first], [first, second], [first, second, third]):
        np.testing.assert_array_equal(
            connected("vanilla", before, outputs), connected("augmented", before, outputs)[:2]
        )


def test_vanilla_running_sum_projects_the_embedding_once():
    module, outputs = Connection(RE2Config(hidden_size=2, connection="vanilla_running_sum")), jnp.full((1, 1, 2), 2.0)
    embedded = jax.random.normal(jax.random.key(0), (1, 1, 3))
    connected, variables = module.init_with_output(jax.random.key(1), embedded, (embedded,), [outputs])
    mapped = dense(2, variables["params"]["projection"], embedded, activated=False)
    np.testing.assert_allclose(connected[0], (outputs + mapped) / np.sqrt(2), rtol=1e-5)
    third = applied(module, variables, embedded, connected, [outputs, 3 * outputs])[0]
    np.testing.assert_allclose(third, (3 * outputs + connected[0]) / np.sqrt(2), rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("full", lambda a, b: [a, b, a - b, a * b]),
        ("symmetric", lambda a, b: [a, b, abs(a - b), a * b]),
        ("simple", lambda a, b: [a, b]),
    ],
)
def test_prediction_combines_the_vectors_as_in_its_equation(kind, seen):
    a, b = OWN[:, 0], ALIGNED[:, 0]
    logits, variables = PredictionLayer(RE2Config(prediction=kind, hidden_size=5), outputs=3).init_with_output(
        jax.random.key(0), a, b, None
    )
    params = variables["params"]
    hidden = dense(5, params["hidden"], *seen(a, b))
    np.testing.assert_allclose(logits, dense(3, params["output"], hidden, activated=False), atol=1e-5)
