"""Programs that look up products of word vectors, compared with the same programs that compute them."""

import gc
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from random_parameters import applied, random_parameters

from jaxmatch.inference import cpu
from jaxmatch.inference.cpu import tabulate
from jaxmatch.inference.inference_model import InferenceModel
from jaxmatch.models import build

WORDS, DIMENSIONS = 9, 4
RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(WORDS, DIMENSIONS)).astype(np.float32)
WEIGHTS = [
    RANDOM.normal(size=shape).astype(np.float32)
    for shape in ((DIMENSIONS, 3), (3,), (DIMENSIONS, 2), (3, 3), (5, DIMENSIONS))
]
IDS = np.array([[2, 8, 0], [5, 2, 2]], np.int32)


def products_of(function, *arguments):
    """Counts the matrix products of a function without loops: (multiply-adds, products)."""
    found = []

    def count(program):
        for equation in program.eqns:
            if equation.primitive.name == "dot_general":
                (contracted, _), _ = equation.params["dimension_numbers"]
                inner = math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
                found.append(inner * math.prod(equation.outvars[0].aval.shape))
            for part in jax.tree.leaves(list(equation.params.values())):
                if hasattr(part, "jaxpr"):
                    count(part.jaxpr)

    count(jax.make_jaxpr(function)(*arguments).jaxpr)
    return sum(found), len(found)


def assert_close(ours, expected):
    """Checks that two trees of arrays are equal up to rounding."""
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6), ours, expected)


def flat(function, *, at=lambda vectors, ids: vectors[ids]):
    """Returns a program that calls `function` with the weights and the vectors of tokens, one row for each token."""

    def program(weights, vectors, ids):
        return function(weights, at(vectors, ids).reshape(-1, DIMENSIONS))

    return program


def layer(weights, tokens):
    first, bias, second, after, _ = weights
    return {"hidden": jnp.tanh(tokens @ first + bias[None]) @ after, "other": tokens @ second, "own": tokens * 2}


def test_products_of_words_and_weights_are_looked_up_and_nothing_else_changes():
    program = flat(layer)
    found = tabulate(program, WEIGHTS, VECTORS, IDS)
    table = found.make_table(WEIGHTS, VECTORS)
    assert (found.columns, found.weights, table.shape) == (5, (0, 2), (WORDS, 5))
    np.testing.assert_allclose(table, VECTORS @ np.concatenate([WEIGHTS[0], WEIGHTS[2]], axis=1), rtol=1e-5, atol=1e-6)
    arguments = WEIGHTS, table, VECTORS, IDS
    assert_close(found.apply(*arguments), program(WEIGHTS, VECTORS, IDS))
    # For each of 6 tokens: (4 x 3) + (3 x 3) + (4 x 2) multiply-adds before, and only the second product after.
    assert products_of(program, WEIGHTS, VECTORS, IDS) == (6 * (12 + 9 + 8), 3)
    assert products_of(found.apply, *arguments) == (6 * 9, 1)


def attend(weights, vectors, ids):
    """Computes products of words and of mixtures. In rows of 3 tokens, multiplying before mixing needs less work."""
    tokens = vectors[ids]
    attention = jax.nn.softmax(jnp.sin(ids[:, :, None] - 2.0 * ids[:, None, :]))
    found = attention @ tokens

    def multiplied(values, weight):
        return values.reshape(-1, DIMENSIONS) @ weight

    return {
        "own": multiplied(tokens, weights[0]),
        "found": multiplied(found, weights[0]),
        "found otherwise": multiplied(found, weights[2]),
        "difference": multiplied(tokens - found, weights[2]),  # its factor is neither E nor A E
        "vectors": found,
    }


@pytest.mark.parametrize("ids", [IDS, IDS[:1]], ids=["two rows", "one row"])
def test_products_of_attention_mixtures_are_looked_up_and_then_mixed(ids):
    found = tabulate(attend, WEIGHTS, VECTORS, ids)
    assert (found.columns, found.weights) == (8, (0, 0, 2))
    arguments = WEIGHTS, found.make_table(WEIGHTS, VECTORS), VECTORS, ids
    assert_close(found.apply(*arguments), attend(WEIGHTS, VECTORS, ids))
    # For each token before: 3 x 4 for the mixture and 4 x (3 + 3 + 2 + 2).
    # After: 3 x (4 + 5) for the mixtures and 4 x 2.
    assert products_of(attend, WEIGHTS, VECTORS, ids) == (ids.size * (12 + 4 * 10), 5)
    assert products_of(found.apply, *arguments) == (ids.size * (3 * 9 + 8), 3)


def test_long_rows_mix_before_multiplying_and_share_the_table():
    found = tabulate(attend, WEIGHTS, VECTORS, IDS)
    ids = np.random.default_rng(2).integers(0, WORDS, (2, 5))
    long = tabulate(attend, WEIGHTS, VECTORS, ids)
    assert (long.columns, long.weights) == (found.columns, found.weights)
    arguments = WEIGHTS, found.make_table(WEIGHTS, VECTORS), VECTORS, ids
    assert_close(long.apply(*arguments), attend(WEIGHTS, VECTORS, ids))
    # For each of 10 tokens: only products of words that are not mixed are looked up.
    assert products_of(long.apply, *arguments) == (10 * (5 * 4 + 4 * 7), 4)


@pytest.mark.parametrize(
    "mixed",
    [
        lambda tokens, ids: jnp.einsum(
            "bij,bik->bjk", jnp.sin(ids[:, :, None] * ids[:, None, :] * 1.0), tokens
        ),  # transposed
        lambda tokens, ids: tokens @ jnp.ones((2, DIMENSIONS, DIMENSIONS)),  # the vectors are its other factor
        lambda tokens, ids: tokens - 1.0,
        lambda tokens, ids: tokens - tokens,
    ],
)
def test_other_mixtures_are_not_tabulated(mixed):
    def program(weights, vectors, ids):
        return mixed(vectors[ids], ids).reshape(-1, DIMENSIONS) @ weights[0]

    assert tabulate(program, WEIGHTS, VECTORS, IDS) is None


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
        flat(
            lambda weights, tokens: lax.dot_general(tokens, weights[4], (((1,), (1,)), ((), ())))
        ),  # the weight is transposed
        flat(lambda weights, tokens: jnp.matmul(tokens, weights[0], preferred_element_type=jnp.bfloat16)),
        lambda weights, vectors, ids: vectors[ids] @ weights[0],  # not a product of two matrices
    ],
)
def test_other_products_are_not_tabulated(program):
    assert tabulate(program, WEIGHTS, VECTORS, IDS) is None


def test_product_of_a_second_lookup_is_computed():
    def program(weights, vectors, ids):
        return (
            vectors[ids].reshape(-1, DIMENSIONS) @ weights[0]
            + vectors[ids[:, ::-1]].reshape(-1, DIMENSIONS) @ weights[0]
        )

    found = tabulate(program, WEIGHTS, VECTORS, IDS)
    arguments = WEIGHTS, found.make_table(WEIGHTS, VECTORS), VECTORS, IDS
    np.testing.assert_allclose(found.apply(*arguments), program(WEIGHTS, VECTORS, IDS), rtol=1e-5, atol=1e-6)
    assert products_of(found.apply, *arguments)[1] == 1


def test_products_of_different_precisions_are_not_merged():
    def program(weights, vectors, ids):
        tokens = vectors[ids].reshape(-1, DIMENSIONS)
        return tokens @ weights[0], jnp.matmul(tokens, weights[2], precision="highest")

    found = tabulate(program, WEIGHTS, VECTORS, IDS)
    assert found.weights == (0,)


def tables(model):
    """The tables of a model's programs, in the order in which they were prepared."""
    return [program.table for program in model.predictor.programs.values()]


FEATURES = {
    "tags": True,
    "known_tags": 6,
    "exact_match": True,
    "characters": "cnn",
    "character_features": 3,
    "known_characters": 9,
}
STACK = {"highway_layers": 1, "factors": 2, "head_size": 5}


@pytest.mark.parametrize(
    ("settings", "columns"),
    [
        # A block: 3 x 8 for a convolution, 8 for the alignment, 3 x 8 for the fusion, 2 x 8 for the aligned words.
        ({"name": "re2", "hidden_size": 8, "blocks": 2, "encoder_layers": 1}, 2 * (24 + 8 + 24 + 16)),
        ({"name": "re2", "hidden_size": 8, "blocks": 1, "encoder_layers": 1, "fusion": "simple"}, 24 + 8 + 8 + 8),
        ({"name": "re2", "hidden_size": 8, "blocks": 1, "encoder_input": False}, 24),
        ({"name": "re2", "hidden_size": 8, "blocks": 1, "precision": "bfloat16"}, None),
        ({"name": "esan", "hidden_size": 5, **FEATURES}, ...),
        ({"name": "csran", "hidden_size": 3, "stacked_layers": 1, **STACK, **FEATURES}, ...),
    ],
)
@pytest.mark.parametrize("dimensions", [4, 24])  # fewer and more numbers than a row has tokens
def test_model_with_a_product_table_equals_the_model_without(settings, columns, dimensions, monkeypatch):
    vectors = RANDOM.normal(size=(WORDS, dimensions)).astype(np.float32)
    module = build(settings, outputs=2)
    side = {
        name: np.ones((1, 1, *((16,) if name == "characters" else ())), np.int32)
        for name in ("ids", *module.token_features)
    }
    characters = np.ones((WORDS, 16), np.uint16) if module.takes_characters else None
    model = InferenceModel(module, random_parameters(module, side, side, vectors), vectors, characters)
    a, b = np.random.default_rng(1).integers(2, WORDS, (2, 3, 5))
    features = {name: (a % 2, b % 2) for name in module.token_features}
    answer = model.logits(a, b, features)
    (table,) = tables(model)
    assert (table is None) == (columns is None)
    assert columns in (None, ...) or table.shape == (WORDS, columns)

    monkeypatch.setattr(cpu, "MAX_TABLE_BYTES", 0)
    computing = InferenceModel(module, model.params, vectors, characters)
    np.testing.assert_allclose(answer, computing.logits(a, b, features), rtol=1e-4, atol=1e-4)
    assert tables(computing) == [None]


def small_model(seed=0):
    module = build({"name": "re2", "hidden_size": 8, "blocks": 1, "encoder_layers": 1}, outputs=2)
    side = {"ids": np.ones((1, 1), np.int32)}
    return InferenceModel(module, random_parameters(module, side, side, VECTORS, seed=seed), VECTORS)


def test_shapes_share_one_table_and_new_words_are_computed_directly():
    model, ids = small_model(), np.array([[2, 8, 3]])
    for length in (3, 20):
        model.logits(np.resize(ids, (1, length)), ids)
    first, second = tables(model)
    assert first is second is not None
    more = jnp.concatenate([model.vectors, jnp.ones((7, DIMENSIONS))])
    np.testing.assert_array_equal(model.logits(ids, ids, words=more), model.logits(ids, ids))  # ids of its own words
    np.testing.assert_allclose(
        model.logits(ids, ids + 7, words=more)[0], np.asarray(_direct(model, ids, ids + 7, more)), rtol=1e-4, atol=1e-5
    )
    assert [table is first for table in tables(model)] == [True, True, False] and tables(model)[2] is None


def _direct(model, a, b, words):
    tokens, sentences = model.inputs(a, b, words=words)
    return applied(model.module, {"params": model.params}, tokens, sentences, words, method="match")[0]


def test_tables_of_all_models_share_one_memory_limit(monkeypatch):
    gc.collect()
    held = cpu.table_bytes()
    ids, size = np.array([[2, 8, 3]]), 4 * WORDS * (24 + 8 + 24 + 16)
    monkeypatch.setattr(cpu, "MAX_TABLE_BYTES", held + 2 * size)
    models = [small_model(seed) for seed in range(3)]
    answers = [model.logits(ids, ids) for model in models]
    first, second, third = (tables(model)[0] for model in models)
    assert third is None and np.abs(first - second).max() > 0.1  # each has its own weights
    assert cpu.table_bytes() == held + 2 * size
    del first, second, models[0]
    gc.collect()
    again = small_model(2)
    np.testing.assert_allclose(again.logits(ids, ids), answers[2], rtol=1e-5, atol=1e-5)
    assert tables(again) != [None]  # there is room again
