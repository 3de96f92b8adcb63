"""Operations that depend only on weights are hoisted out of a program."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import compiled, random_parameters

from jaxmatch.inference.cpu import hoist
from jaxmatch.inference.inference_model import InferenceModel
from jaxmatch.models import build

WEIGHTS = {"bias": np.arange(3, dtype=np.float32), "kernel": np.arange(12, dtype=np.float32).reshape(4, 3)}


def primitives(function, *arguments):
    """Returns the primitives of a function, including those of functions inside it."""

    def inside(program):
        for equation in program.eqns:
            inner = list(jax.extend.core.jaxprs_in_params(equation.params))
            yield from (name for one in inner for name in inside(getattr(one, "jaxpr", one)))
            if not inner:
                yield equation.primitive.name

    return sorted(inside(jax.make_jaxpr(function)(*arguments).jaxpr))


def layer(weights, x):
    wide = jnp.concatenate([weights["kernel"][:2].T, weights["kernel"][2:].T], axis=1)
    return {"y": x @ wide.T + weights["bias"][None], "scaled": wide * 2.0}


def test_operations_on_weights_are_only_in_prepare():
    x = np.ones((5, 4), np.float32)
    program = hoist(layer, WEIGHTS, x)
    prepared = program.prepare(WEIGHTS)
    hoisted = ["concatenate", "slice", "slice", "transpose", "transpose", "transpose"]
    assert primitives(program.prepare, WEIGHTS) == hoisted
    assert primitives(program.apply, prepared, x) == ["add", "broadcast_in_dim", "dot_general", "mul"]
    jax.tree.map(np.testing.assert_array_equal, program.apply(prepared, x), layer(WEIGHTS, x))


def test_operations_on_inputs_are_not_hoisted():
    def turned(weights, x):
        return jnp.concatenate([weights["bias"], x.T[0]]), x.T

    x = np.ones((5, 3), np.float32)
    program = hoist(turned, WEIGHTS, x)
    assert primitives(program.prepare, WEIGHTS) == []
    jax.tree.map(np.testing.assert_array_equal, program.apply(program.prepare(WEIGHTS), x), turned(WEIGHTS, x))


def test_a_prepared_weight_can_be_a_result():
    program = hoist(lambda weights, x: (weights["kernel"].T, weights["bias"], x, 2.0), WEIGHTS, np.float32(1))
    first, second, third, fourth = program.apply(program.prepare(WEIGHTS), np.float32(7))
    np.testing.assert_array_equal(first, WEIGHTS["kernel"].T)
    np.testing.assert_array_equal(second, WEIGHTS["bias"])
    assert (third, fourth) == (7, 2)


def test_a_constant_of_the_function_is_kept():
    table = jnp.arange(6, dtype=jnp.float32)
    program = hoist(lambda weights, x: weights["bias"][None, :].T * table[None, :3] + x, WEIGHTS, np.float32(0))
    expected = WEIGHTS["bias"][:, None] * np.arange(3)
    np.testing.assert_array_equal(program.apply(program.prepare(WEIGHTS), np.float32(0)), expected)


def test_the_key_of_a_preparation_does_not_depend_on_the_batch_size():
    few, many, other = (
        hoist(function, WEIGHTS, jax.ShapeDtypeStruct((batch, 4), np.float32)).key
        for function, batch in ((layer, 2), (layer, 9), (lambda weights, x: x @ weights["kernel"], 2))
    )
    assert few == many != other


STACK = {"hidden_size": 3, "highway_layers": 1, "factors": 2, "head_size": 5, "stacked_layers": 1}


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "re2", "hidden_size": 8, "blocks": 2, "encoder_layers": 1, "fusion": "full", "alignment": "linear"},
        {"name": "esan", "hidden_size": 5, "tags": True, "known_tags": 6, "exact_match": True},
        {"name": "csran", "tags": True, "known_tags": 6, **STACK},
    ],
    ids=lambda settings: settings["name"],
)
def test_a_model_prepares_its_weights_once_for_all_shapes(settings):
    module = build(settings, outputs=2)
    vectors = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    side = {name: np.ones((1, 1), np.int32) for name in ("ids", *module.token_features)}
    params = random_parameters(module, side, side, vectors)
    run = compiled(
        lambda tokens, sentences: module.apply({"params": params}, tokens, sentences, vectors, method="match")
    )
    model = InferenceModel(module, params, vectors)
    for rows, length in ((3, 4), (9, 20)):
        a, b = np.random.default_rng(length).integers(2, 9, (2, rows, length))
        features = {name: (a % 2, b % 2) for name in module.token_features}
        tokens, sentences = model.inputs(a, b, features)
        np.testing.assert_allclose(model.logits(a, b, features), run(tokens, sentences), rtol=1e-4, atol=1e-4)
    first, second = (program.weights for program in model.predictor.programs.values())
    assert first is second
    assert sum(one.size for one in first) <= 1.5 * sum(one.size for one in jax.tree.leaves(model.folded[1]))
