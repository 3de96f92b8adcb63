"""Programs for CPUs, split into operations on weights, a table of word products and the rest, compute the same."""

import math

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from random_parameters import compiled, equations, random_parameters

from jaxmatch.inference import cpu
from jaxmatch.inference.cpu import split
from jaxmatch.inference.matcher import InferenceModel
from jaxmatch.models import build

WORDS, DIMENSIONS = 9, 4
RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(WORDS, DIMENSIONS)).astype(np.float32)
WEIGHTS = [
    RANDOM.normal(size=shape).astype(np.float32)
    for shape in ((DIMENSIONS, 3), (3,), (DIMENSIONS, 2), (3, 3), (5, DIMENSIONS), (3 * DIMENSIONS, 2))
]
IDS = np.array([[2, 8, 0], [5, 2, 2]], np.int32)


def primitives(function, *arguments):
    """Returns the names of a function's primitives, without those that call a function."""
    return sorted(
        equation.primitive.name
        for equation in equations(jax.make_jaxpr(function)(*arguments).jaxpr)
        if not list(jax.extend.core.jaxprs_in_params(equation.params))
    )


def products_of(function, *arguments):
    """Counts the matrix products of a function: (multiply-adds, products)."""
    found = []
    for equation in equations(jax.make_jaxpr(function)(*arguments).jaxpr):
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            inner = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
            found.append(inner * math.prod(equation.outvars[0].aval.shape))
    return sum(found), len(found)


def flat(function, *, at=lambda vectors, ids: vectors[ids]):
    """Returns a program that calls `function` with the weights and the vectors of tokens, one row for each token."""

    def program(weights, vectors, ids):
        return function(weights, at(vectors, ids).reshape(-1, DIMENSIONS))

    return program


def prepared(program, ids=IDS):
    """Splits a program, and returns it with the arguments of its `apply`."""
    found = split(program, WEIGHTS, VECTORS, ids)
    weights = found.prepare(WEIGHTS)
    table = found.make_table(weights, VECTORS) if found.tabulated else None
    return found, (weights, table, VECTORS, ids)


def assert_close(ours, expected):
    """Checks that two trees of arrays are equal up to rounding."""
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6), ours, expected)


def layer(weights, tokens):
    first, bias, second, after, *_ = weights
    wide = jnp.concatenate([after[:1].T, after[1:].T], axis=1)
    return {
        "hidden": jnp.tanh(tokens @ first + bias[None]) @ wide,
        "other": tokens @ second,
        "own": tokens * 2,
        "w": wide,
    }


def test_operations_on_weights_are_hoisted_and_products_of_words_are_looked_up():
    program = flat(layer)
    found, arguments = prepared(program)
    assert primitives(found.prepare, WEIGHTS) == ["concatenate", "slice", "slice", "transpose", "transpose"]
    assert not {"concatenate", "transpose"} & set(primitives(found.apply, *arguments))
    weights, table, *_ = arguments
    assert table.shape == (WORDS, 5)
    np.testing.assert_allclose(table, VECTORS @ np.concatenate([WEIGHTS[0], WEIGHTS[2]], axis=1), rtol=1e-5, atol=1e-6)
    expected = program(WEIGHTS, VECTORS, IDS)
    assert_close(found.apply(*arguments), expected)
    assert_close(found.apply(weights, None, VECTORS, IDS), expected)
    # For each of 6 tokens: (4 x 3) + (3 x 3) + (4 x 2) multiply-adds before, and only the second product after.
    assert products_of(program, WEIGHTS, VECTORS, IDS) == (6 * (12 + 9 + 8), 3)
    assert products_of(found.apply, *arguments) == (6 * 9, 1)


def test_a_batch_of_one_looks_up_its_products_too():
    found, arguments = prepared(flat(layer), IDS[:1])
    assert products_of(found.apply, *arguments) == (3 * 9, 1)
    assert_close(found.apply(*arguments), flat(layer)(WEIGHTS, VECTORS, IDS[:1]))


def test_inputs_constants_and_prepared_weights_can_be_results():
    constant = jnp.arange(3, dtype=jnp.float32)

    def program(weights, vectors, ids):
        turned = jnp.concatenate([weights[1], vectors.T[0]]), ids.T
        return *turned, weights[0].T, weights[1], weights[1][None, :].T * constant[None], 2.0

    found, arguments = prepared(program)
    assert primitives(found.prepare, WEIGHTS).count("concatenate") == 0 and not found.tabulated
    jax.tree.map(np.testing.assert_array_equal, found.apply(*arguments), program(WEIGHTS, VECTORS, IDS))


def test_the_key_of_a_preparation_does_not_depend_on_the_batch_size():
    few, many, other = (
        split(function, WEIGHTS, VECTORS, jax.ShapeDtypeStruct((batch, 4), np.int32))
        for function, batch in ((flat(layer), 2), (flat(layer), 9), (flat(lambda weights, x: x @ weights[0].T.T), 2))
    )
    assert (few.key, few.tabulated) == (many.key, many.tabulated) and few.key != other.key


@pytest.mark.parametrize(
    "program",
    [
        flat(lambda weights, tokens: tokens * 2.0),
        flat(lambda weights, tokens: (tokens * 2.0) @ weights[0]),  # this factor is not what was looked up
        flat(lambda weights, tokens: tokens @ (2.0 * weights[0])),  # this factor is not a weight
        flat(lambda weights, tokens: tokens.astype(jnp.bfloat16) @ weights[0].astype(jnp.bfloat16)),
        flat(lambda weights, tokens: tokens.T @ jnp.ones((6, 2))),
        flat(lambda weights, tokens: jnp.swapaxes(weights[0], 0, 1) @ tokens.T),
        flat(lambda weights, tokens: tokens @ weights[0], at=lambda vectors, ids: (vectors + 1.0)[ids]),
        flat(lambda weights, tokens: tokens @ weights[0], at=lambda vectors, ids: jnp.ones((9, DIMENSIONS))[ids]),
        flat(
            lambda weights, tokens: tokens @ weights[0],
            at=lambda vectors, ids: vectors.at[ids].get(mode="fill", fill_value=1.0),
        ),
        flat(
            lambda weights, tokens: tokens @ weights[0],
            at=lambda vectors, ids: vectors[:, ids[:, :2].reshape(-1) % 4].T[:, :4],
        ),
        # The weight is transposed.
        flat(lambda weights, tokens: lax.dot_general(tokens, weights[4], (((1,), (1,)), ((), ())))),
        flat(lambda weights, tokens: jnp.matmul(tokens, weights[0], preferred_element_type=jnp.bfloat16)),
        lambda weights, vectors, ids: vectors[ids] @ weights[0],  # not a product of two matrices
        lambda weights, vectors, ids: vectors[ids].reshape(2, -1) @ weights[5],  # a row is not a token
    ],
)
def test_other_products_are_not_tabulated(program):
    assert split(program, WEIGHTS, VECTORS, IDS).tabulated == ()


def test_products_of_a_second_lookup_or_another_precision_are_computed():
    def program(weights, vectors, ids):
        tokens, turned = vectors[ids].reshape(-1, DIMENSIONS), vectors[ids[:, ::-1]].reshape(-1, DIMENSIONS)
        return tokens @ weights[0] + turned @ weights[0], jnp.matmul(tokens, weights[2], precision="highest")

    found, arguments = prepared(program)
    assert arguments[1].shape == (WORDS, 3) and products_of(found.apply, *arguments)[1] == 2
    assert_close(found.apply(*arguments), program(WEIGHTS, VECTORS, IDS))


FEATURES = {
    "tags": True,
    "known_tags": 6,
    "exact_match": True,
    "characters": "cnn",
    "character_features": 3,
    "known_characters": 9,
}
STACK = {"highway_layers": 1, "factors": 2, "head_size": 5}


def tables(model):
    """The tables of a model's programs, in the order in which they were prepared."""
    return [program.table for program in model.predictor.programs.values()]


@pytest.mark.parametrize(
    ("settings", "columns"),
    [
        # A block: 3 x 8 for a convolution, 8 for the alignment, 3 x 8 for the fusion.
        ({"name": "re2", "hidden_size": 8, "blocks": 2, "encoder_layers": 1}, 2 * (24 + 8 + 24)),
        ({"name": "re2", "hidden_size": 8, "blocks": 1, "encoder_layers": 1, "fusion": "simple"}, ...),
        ({"name": "re2", "hidden_size": 8, "blocks": 1, "encoder_input": False}, 24),
        ({"name": "re2", "hidden_size": 8, "blocks": 1, "precision": "bfloat16"}, None),
        ({"name": "esan", "hidden_size": 5, **FEATURES}, ...),
        ({"name": "csran", "hidden_size": 3, "stacked_layers": 1, **STACK, **FEATURES}, ...),
    ],
)
def test_a_model_with_a_product_table_equals_the_model_without(settings, columns, monkeypatch):
    module = build(settings, outputs=2)
    characters = np.ones((WORDS, 16), np.uint16) if module.takes_characters else None
    side = {name: np.ones((1, 1), np.int32) for name in ("ids", *module.token_features)}
    side |= {"characters": np.ones((1, 1, 16), np.int32)} if module.takes_characters else {}
    model = InferenceModel(module, random_parameters(module, side, side, VECTORS), VECTORS, characters)
    monkeypatch.setattr(cpu, "MAX_TABLE_BYTES", 0)
    computing = InferenceModel(module, model.params, VECTORS, characters)
    a, b = np.random.default_rng(1).integers(2, WORDS, (2, 3, 5))
    features = {name: (a % 2, b % 2) for name in module.token_features}
    expected = computing.logits(a, b, features)
    assert tables(computing) == [None]
    monkeypatch.undo()
    np.testing.assert_allclose(model.logits(a, b, features), expected, rtol=1e-4, atol=1e-4)
    (table,) = tables(model)
    assert (table is None) == (columns is None)
    assert columns in (None, ...) or table.shape == (WORDS, columns)


def small_model(seed=0):
    module = build({"name": "re2", "hidden_size": 8, "blocks": 1, "encoder_layers": 1}, outputs=2)
    side = {"ids": np.ones((1, 1), np.int32)}
    return InferenceModel(module, random_parameters(module, side, side, VECTORS, seed=seed), VECTORS)


def test_shapes_share_weights_and_table_and_new_words_are_computed():
    model, ids = small_model(), np.array([[2, 8, 3]])
    more = jnp.concatenate([model.vectors, jnp.ones((7, DIMENSIONS))])
    run = compiled(
        lambda tokens, sentences: model.module.apply({"params": model.params}, tokens, sentences, more, method="match")
    )
    for length in (3, 20):
        model.logits(np.resize(ids, (1, length)), ids)
    first, second = tables(model)
    assert first is second is not None
    np.testing.assert_array_equal(model.logits(ids, ids, words=more), model.logits(ids, ids))  # ids of its own words
    expected = run(*model.inputs(ids, ids + 7, words=more))[:1]
    np.testing.assert_allclose(model.logits(ids, ids + 7, words=more), expected, rtol=1e-4, atol=1e-5)
    assert tables(model)[2] is None
    weights = [program.weights for program in model.predictor.programs.values()]
    assert all(one is weights[0] for one in weights)
    assert sum(one.size for one in weights[0]) <= 1.5 * sum(one.size for one in jax.tree.leaves(model.folded[1]))


def test_compiler_options_are_those_that_the_compiler_knows_and_use_eigen(monkeypatch):
    def uses_ynnpack(options):
        factors = np.ones((320, 150), np.float32), np.ones((150, 450), np.float32)
        program = jax.jit(lambda a, b: a @ b, compiler_options=options).lower(*factors).compile()
        return "__ynn_fusion" in program.as_text()

    if jax.default_backend() == "cpu" and uses_ynnpack(None):
        assert not uses_ynnpack(cpu.compiler_options())
    monkeypatch.setattr(cpu, "OPTIONS", {"xla_no_such_option": True, "xla_cpu_prefer_vector_width": 256})
    assert cpu.compiler_options.__wrapped__() == {"xla_cpu_prefer_vector_width": 256}
