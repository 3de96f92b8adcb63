"""A program cut in two: what only moves weights, and the rest."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import compiled, random_parameters

from jaxmatch.models import build
from jaxmatch.models.bound import BoundModel
from jaxmatch.models.weight_moves import apart

WEIGHTS = {"bias": np.arange(3, dtype=np.float32), "kernel": np.arange(12, dtype=np.float32).reshape(4, 3)}


def names(function, *arguments):
    """The primitives of a function, those of functions in it included."""

    def inside(program):
        for equation in program.eqns:
            inner = list(jax.extend.core.jaxprs_in_params(equation.params))
            yield from (name for one in inner for name in inside(getattr(one, "jaxpr", one)))
            if not inner:
                yield equation.primitive.name

    return sorted(inside(jax.make_jaxpr(function)(*arguments).jaxpr))


def layer(weights, x):
    wide = jnp.concatenate([weights["kernel"][:2].T, weights["kernel"][2:].T], axis=1)
    return {"y": x @ wide.T + weights["bias"], "scaled": wide * 2.0}


def test_weights_are_moved_by_the_first_part_alone():
    x = np.ones((5, 4), np.float32)
    program = apart(layer, WEIGHTS, x)
    moved = program.move(WEIGHTS)
    assert names(program.move, WEIGHTS) == ["concatenate", "slice", "slice", "transpose", "transpose", "transpose"]
    assert names(program.rest, moved, x) == ["add", "broadcast_in_dim", "dot_general", "mul"]
    jax.tree.map(np.testing.assert_array_equal, program.rest(moved, x), layer(WEIGHTS, x))


def test_inputs_are_never_moved_before():
    def turned(weights, x):
        return jnp.concatenate([weights["bias"], x.T[0]]), x.T

    x = np.ones((5, 3), np.float32)
    program = apart(turned, WEIGHTS, x)
    assert names(program.move, WEIGHTS) == []
    jax.tree.map(np.testing.assert_array_equal, program.rest(program.move(WEIGHTS), x), turned(WEIGHTS, x))


def test_a_moved_weight_can_be_a_result():
    program = apart(lambda weights, x: (weights["kernel"].T, weights["bias"], x, 2.0), WEIGHTS, np.float32(1))
    first, second, third, fourth = program.rest(program.move(WEIGHTS), np.float32(7))
    np.testing.assert_array_equal(first, WEIGHTS["kernel"].T)
    np.testing.assert_array_equal(second, WEIGHTS["bias"])
    assert (third, fourth) == (7, 2)


def test_a_constant_of_the_function_is_kept():
    table = jnp.arange(6, dtype=jnp.float32)
    program = apart(lambda weights, x: weights["bias"][None, :].T * table[:3] + x, WEIGHTS, np.float32(0))
    expected = WEIGHTS["bias"][:, None] * np.arange(3)
    np.testing.assert_array_equal(program.rest(program.move(WEIGHTS), np.float32(0)), expected)


def test_equal_moves_are_written_alike_whatever_the_batch():
    few, many, other = (
        apart(function, WEIGHTS, jax.ShapeDtypeStruct((batch, 4), np.float32)).written
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
def test_a_bound_model_moves_its_weights_once_for_all_shapes(settings):
    module = build(settings, outputs=2)
    vectors = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    side = {name: np.ones((1, 1), np.int32) for name in ("ids", *module.token_features)}
    params = random_parameters(module, side, side, vectors)
    run = compiled(lambda tokens, sentences: module.apply({"params": params}, tokens, sentences, vectors, method="match"))
    bound = BoundModel(module, params, vectors)
    for rows, length in ((3, 4), (9, 20)):
        a, b = np.random.default_rng(length).integers(2, 9, (2, rows, length))
        features = {name: (a % 2, b % 2) for name in module.token_features}
        tokens, sentences = bound.inputs(a, b, features)
        np.testing.assert_allclose(bound.logits(a, b, features), run(tokens, sentences), rtol=1e-4, atol=1e-4)
    programs, moved = bound._answering._programs, bound._answering._moved
    assert (len(programs), len(moved)) == (2, 1)
    (weights,) = moved.values()
    assert sum(one.size for one in weights) <= 1.5 * sum(one.size for one in jax.tree.leaves(bound.folded[1]))
