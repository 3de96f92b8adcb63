"""What layers/fused_kernels.py computes, computed by XLA: for other platforms, and to compare with."""

import math
from typing import Any

import jax
import jax.numpy as jnp

from jaxmatch.layers.fused_terms import Dropped, Term, activated, same_sentence
from jaxmatch.layers.matmul import matmul, over_features


def sums_of_products(sums, precision, inputs, weights, dropped, sentences, afters):
    """Sums of products, each with what follows it; see `layers.fused.sums_of_products`."""
    return tuple(
        _sum_of_products(terms, precision, inputs, own, dropped, sentences, after)
        for terms, own, after in zip(sums, weights, afters, strict=True)
    )


def _sum_of_products(terms, precision, inputs, weights, dropped, sentences, after):
    total: Any = 0
    for term, own in zip(terms, weights, strict=True):
        own = own.T if term.transposed else own
        product = _moved(matmul(_left(term, inputs, dropped), own, precision), term.distance, sentences)
        total = total + (product if term.times is None else product * inputs[term.times])
    if after is None:
        return (total,)
    if isinstance(after, Dropped):
        return (total * _factor(after, total),)
    kept = 1.0 if after.dropped is None else _factor(after.dropped, total)
    return activated(total, over_features(after.bias, total), kept)


def gradient_by_weights(terms, precision, inputs, gradient, dropped, sentences):
    """The gradient by the weights of each term, <float32>[size, features]."""
    found = []
    for term in terms:
        left, right = _left(term, inputs, dropped), _moved(gradient, -term.distance, sentences)
        flat = matmul(left.reshape(-1, left.shape[-1]).T, right.reshape(-1, right.shape[-1]), precision)
        found.append(flat.astype(jnp.float32))
    return tuple(found)


def _left(term: Term, inputs, dropped) -> jax.Array:
    """What a term multiplies with its weights."""
    factors = [inputs[n] if dropped[n] is None else inputs[n] * _factor(dropped[n], inputs[n]) for n in term.inputs]
    return math.prod(factors[1:], start=factors[0])


def _factor(dropped: Dropped, values: jax.Array) -> jax.Array:
    tokens, features = jnp.arange(values[..., 0].size), jnp.arange(values.shape[-1])
    return dropped.factor(tokens, features).reshape(values.shape).astype(values.dtype)


def _moved(values: jax.Array, distance: int, sentences: jax.Array | None) -> jax.Array:
    """<...>[batch, length, features] of the tokens so far ahead; 0 where that is another sentence."""
    if not distance:
        return values
    return jnp.where(same_sentence(sentences, distance)[..., None], jnp.roll(values, -distance, axis=1), 0)
