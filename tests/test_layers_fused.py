"""Layers as one kernel each: the same numbers as by XLA, and the same gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_parameters import random_parameters
from small_cohort import DIMENSIONS, MODEL, lockstep, make_cohort

from jaxmatch import models
from jaxmatch.errors import InputError
from jaxmatch.layers import fused, fused_by_xla, fused_kernels
from jaxmatch.layers.dropout import Dropout
from jaxmatch.layers.fused_terms import Activation, Dropped, Term
from jaxmatch.layers.gelu import gelu
from jaxmatch.sweep import memory

BATCH, LENGTH, A, B, FEATURES = 3, 7, 5, 40, 70
SENTENCES = np.array([[1, 1, 1, 2, 2, 0, 0], [1, 1, 2, 2, 2, 2, 2], [1, 2, 0, 0, 0, 0, 0]], np.int8)
SETTINGS = {
    "name": "re2", "blocks": 2, "encoder_layers": 2, "hidden_size": 16, "prediction": "full", "kernels": "pallas",
}  # fmt: skip


def drawn(seed, rate=0.3):
    return Dropout().apply({}, jnp.float32(rate), method="drawn", rngs={"dropout": jax.random.key(seed)})


def kept(drop, values):
    """What is left of an array that is dropped whole."""
    places = jnp.arange(values.size, dtype=jnp.uint32).reshape(values.shape)
    return jnp.where(drop.keeps(places), values * drop.scale, 0)


def of_columns(drop, first, columns):
    return Dropped(drop, jnp.int32(first), jnp.int32(columns))


@functools.cache
def arrays():
    generator = np.random.default_rng(0)

    def normal(*shape):
        return jnp.asarray(generator.standard_normal(shape), jnp.float32)

    inputs = normal(BATCH, LENGTH, A), normal(BATCH, LENGTH, B), normal(BATCH, LENGTH, A)
    weights = normal(A, FEATURES), normal(B, FEATURES), normal(A, FEATURES), normal(A, FEATURES)
    return inputs, weights, normal(FEATURES), normal(BATCH, LENGTH, FEATURES)


# Sums, neighbours, a product of two inputs, weights of which some columns are zeros.
TERMS = (Term((0,)), Term((1,), 1), Term((2,), -2), Term((0, 2), columns=(0, 10)))


def weights_with_zeros():
    *others, last = arrays()[1]
    return (*others, last.at[:, 10:].set(0))


def by_hand(terms, inputs, weights, bias, drop=None, drop_inputs=None):
    """The layer in NumPy's way: token by token."""
    if drop_inputs is not None:
        together = kept(drop_inputs, jnp.concatenate(inputs, axis=-1))
        inputs = jnp.split(together, [A, A + B], axis=-1)
    total = jnp.broadcast_to(bias, (BATCH, LENGTH, FEATURES))
    for term, own in zip(terms, weights, strict=True):
        left = inputs[term.inputs[0]]
        for other in term.inputs[1:]:
            left = left * inputs[other]
        for row in range(BATCH):
            for token in range(LENGTH):
                seen = token + term.distance
                if 0 <= seen < LENGTH and SENTENCES[row, seen] == SENTENCES[row, token]:
                    total = total.at[row, token].add(left[row, seen] @ own)
    value = gelu(total)
    return value if drop is None else kept(drop, value)


@pytest.mark.parametrize("dropped", [False, True])
def test_a_layer_and_its_gradients_are_as_by_hand(dropped):
    inputs, _, bias, mixed = arrays()
    # Inputs that are dropped are not multiplied by each other.
    terms, more = (TERMS[:3], {"drop": drawn(1), "drop_inputs": drawn(2)}) if dropped else (TERMS, {})

    def of(function):
        return jax.jit(
            jax.value_and_grad(lambda *args: ((value := function(*args)) * mixed).sum() + (value**2).sum(), (0, 1, 2))
        )(inputs, weights_with_zeros()[: len(terms)], bias)

    found, gradients = of(
        lambda inputs, weights, bias: fused.layer(
            terms, inputs, weights, bias, precision="highest", sentences=jnp.asarray(SENTENCES), **more
        )
    )
    expected, wanted = of(functools.partial(by_hand, terms, **more))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    # Of the weights that are zeros the gradient is that of a full matrix: who pads them cuts it.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), gradients, wanted)


# What a kernel computes in blocks: more tokens and features than one has, and some in vain.
SENTENCES_OF_MANY = jnp.asarray(np.repeat([[1] * 14 + [2] * 13 + [0] * 3], 5, axis=0), jnp.int8)


def many(features):
    generator = np.random.default_rng(1)

    def normal(*shape):
        return jnp.asarray(generator.standard_normal(shape), jnp.float32)

    inputs = normal(5, 30, 40), normal(5, 30, 150), normal(5, 30, 40), normal(5, 30, features)
    weights = normal(40, features), normal(150, features), normal(40, features), normal(40, features)
    return inputs, weights, normal(features)


@pytest.mark.parametrize("features", [70, 300])
@pytest.mark.parametrize("after", ["activation", "dropped", "nothing"])
def test_the_kernel_of_sums_computes_what_xla_does(features, after):
    inputs, weights, bias = many(features)
    drop = drawn(3)
    dropped = of_columns(drop, 0, 230), of_columns(drop, 40, 230), None, None
    follows = {
        "activation": Activation(bias, of_columns(drawn(4), 0, features)),
        "dropped": of_columns(drawn(4), 5, features + 9),
        "nothing": None,
    }[after]
    first = (10, 60)
    weights = (*weights[:3], weights[3].at[:, :10].set(0).at[:, 60:].set(0))
    terms = (Term((0,)), Term((1,), 1, times=3), Term((2,), -2), Term((0, 2), columns=first))
    # Two sums in one call, of which the second has other features.
    sums, both = (terms, (Term((0,), transposed=True),)), (weights, (inputs[1][0, :, :40],))
    arguments = inputs, both, dropped, SENTENCES_OF_MANY, (follows, None)
    found = fused_kernels.sums_of_products(sums, "highest", *arguments, interpret=True)
    expected = fused_by_xla.sums_of_products(sums, "highest", *arguments)
    assert len(found[0]) == len(expected[0]) == (2 if after == "activation" else 1)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("features", [70, 300])
def test_the_kernel_of_the_weights_gradient_computes_what_xla_does(features, monkeypatch):
    monkeypatch.setattr(fused_kernels, "MOST_TOKENS", 64)  # three programs share the 150 tokens
    inputs, _, _ = many(features)
    drop = drawn(3)
    dropped = of_columns(drop, 0, 230), of_columns(drop, 40, 230), None, None
    terms = Term((0,)), Term((1,), 1), Term((2,), -2), Term((0, 2))
    arguments = inputs, inputs[3], dropped, SENTENCES_OF_MANY
    found = fused_kernels.gradient_by_weights(terms, "highest", *arguments, interpret=True)
    expected = fused_by_xla.gradient_by_weights(terms, "highest", *arguments)
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-4)


def gradients(kernels, connection="augmented"):
    """Loss and gradients of three runs of a small RE2, with dropout."""
    module = models.build({**SETTINGS, "kernels": kernels, "connection": connection}, outputs=3)
    generator = np.random.default_rng(2)
    tokens = {"ids": jnp.asarray(generator.integers(1, 20, (4, 12)), jnp.int32)}
    sentences = jnp.asarray(np.repeat([[1] * 5 + [2] * 5 + [0] * 2], 4, axis=0), jnp.int8)
    vectors = jnp.asarray(0.3 * generator.standard_normal((20, 6)), jnp.float32)
    side = {"ids": tokens["ids"][:, :5]}

    def loss(parameters, key):
        logits = module.apply(
            parameters, tokens, sentences, vectors, jnp.float32(0.4), method="match", rngs={"dropout": key}
        )
        return (logits**2).sum()

    runs = (random_parameters(module, side, side, vectors, seed=seed) for seed in range(3))
    parameters = {"params": jax.tree.map(lambda *leaves: np.stack(leaves), *runs)}
    return jax.jit(jax.vmap(jax.value_and_grad(loss)))(parameters, jax.random.split(jax.random.key(7), 3))


@pytest.mark.parametrize("connection", ["augmented", "none"])
def test_re2_learns_the_same_by_kernels(connection):
    (loss, own), (expected, wanted) = gradients("pallas", connection), gradients("xla", connection)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max()), own, wanted)


def test_what_is_not_trained_has_no_gradient(monkeypatch):
    """Nothing is computed for word vectors, which would be half of the work of the first layers."""
    calls = []
    sums = fused.sums_of_products
    monkeypatch.setattr(fused, "sums_of_products", lambda given, *rest: calls.append(len(given)) or sums(given, *rest))
    inputs, weights, bias, _ = arrays()

    def loss(first, second):
        terms = TERMS[:1] + TERMS[3:]
        return fused.layer(terms, (first, inputs[1], second), (weights[0], weights[2]), bias, precision="float32").sum()

    jax.make_jaxpr(jax.grad(loss))(inputs[0], inputs[2])
    assert calls == [1, 1]
    calls.clear()
    jax.make_jaxpr(jax.grad(loss, (0, 1)))(inputs[0], inputs[2])
    assert calls == [1, 2]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("encoder_activation", "relu"),
        ("kernel_size", (1, 3)),
        ("dropout_placement", "every_layer"),
        ("precision", "highest"),
    ],
)
def test_what_has_no_kernel_is_refused(name, value):
    module = models.build({**SETTINGS, name: value}, outputs=3)
    side = {"ids": jnp.zeros((1, 2), jnp.int32)}
    with pytest.raises(InputError, match=f"no kernel for model.{name}"):
        module.init(jax.random.key(0), side, side, jnp.zeros((3, 4)))


def test_a_cohort_trains_with_kernels_and_its_memory_is_estimated():
    own, _ = lockstep(make_cohort(seeds=(7, 1), model={"kernels": "pallas"}), 8)
    expected, _ = lockstep(make_cohort(seeds=(7, 1)), 8)
    np.testing.assert_allclose(own, expected, rtol=1e-3, atol=1e-4)
    module = models.build({**MODEL, "kernels": "pallas"}, outputs=2)
    assert memory.needs(module, "classification", DIMENSIONS, [(16, 8)], "gpu").step > 0
