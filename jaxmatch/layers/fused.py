"""Layers as few kernels, for NVIDIA GPUs (`model.kernels=pallas`).

A layer of RE2 sums matrix products, adds a bias, applies GeLU and drops some of the numbers. cuBLAS writes every
product of the sum to memory and reads it again. A kernel of ours (layers/fused_kernels.py) keeps the sum in registers.
It writes two arrays: the output, and its derivative by the sum, which is all that the backward pass needs. The
element-wise product of two arrays and dropout are computed where they are read, and a convolution reads the neighbours
of a token, so none of these is ever in memory. On other platforms XLA computes the same.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jaxmatch.config import RE2Config
from jaxmatch.errors import InputError
from jaxmatch.layers import fused_by_xla
from jaxmatch.layers.dropout import Drop
from jaxmatch.layers.fused_terms import Activation, Dropped, Term


def check(config: RE2Config) -> None:
    """Raises InputError where a config asks for kernels that there are not."""
    others = {
        "model.encoder_activation": config.encoder_activation != "gelu",
        "model.kernel_size": len(config.kernel_sizes) > 1,
        "model.dropout_placement": config.dropout_placement != "released",
        "model.precision": config.precision == "highest",
    }
    for name, other in others.items():
        if config.kernels == "pallas" and other:
            value = getattr(config, name.removeprefix("model."))
            raise InputError(f"model.kernels=pallas has no kernel for {name}={value}", remedy="take model.kernels=xla")


def by_kernels(config: RE2Config, dropout_rate: jax.Array | None) -> bool:
    """Whether layers are computed here: those of a training step, where the config says so."""
    return config.kernels == "pallas" and dropout_rate is not None


def layer(
    terms: Sequence[Term],
    inputs: Sequence[jax.Array],
    weights: Sequence[jax.Array],
    bias: jax.Array,
    *,
    precision: str,
    drop: Drop | None = None,
    drop_inputs: Drop | None = None,
    sentences: jax.Array | None = None,
) -> jax.Array:
    """GeLU of a sum of products and a bias, with dropout.

    Arguments:
      terms: the products; `times` is not used here.
      inputs: <float32 or bfloat16>[..., size] each.
      weights: of each term, <float32>[size, features].
      bias: <float32>[features].
      precision: as of `layers.matmul.matmul`.
      drop: what is dropped of the output; None: nothing.
      drop_inputs: what is dropped of the concatenation of all inputs; None: nothing. Terms then have one input each.
      sentences: <int8>[batch, length], which sentence a token is of; None where all distances are 0.

    Returns:
      <float32 or bfloat16>[..., features].

    Raises:
      ValueError: a term multiplies inputs that are dropped.
    """
    dropped: tuple[Dropped | None, ...] = (None,) * len(inputs)
    if drop_inputs is not None:
        if any(len(term.inputs) > 1 for term in terms):
            raise ValueError("products of inputs that are dropped have no gradient here")
        sizes = [each.shape[-1] for each in inputs]
        firsts = [sum(sizes[:number]) for number in range(len(sizes))]
        dropped = tuple(Dropped(drop_inputs, jnp.int32(first), jnp.int32(sum(sizes))) for first in firsts)
    own = None if drop is None else Dropped(drop, jnp.int32(0), jnp.int32(bias.shape[0]))
    return _layer(tuple(terms), precision, tuple(inputs), tuple(weights), bias, own, dropped, sentences)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _layer(terms, precision, inputs, weights, bias, own, dropped, sentences):
    after = Activation(bias, own)
    return sums_of_products((terms,), precision, inputs, (weights,), dropped, sentences, (after,))[0][0]


def _forward(terms, precision, *primals):
    marks = jax.tree.map(lambda primal: () if primal.perturbed else None, primals[0])
    inputs, weights, bias, own, dropped, sentences = jax.tree.map(lambda primal: primal.value, primals)
    ((value, slope),) = sums_of_products(
        (terms,), precision, inputs, (weights,), dropped, sentences, (Activation(bias, own),)
    )
    # Which inputs are trained is part of the tree, not an array of it.
    return value, (inputs, weights, dropped, sentences, slope, marks)


def _backward(terms, precision, saved, gradient):
    inputs, weights, dropped, sentences, slope, marks = saved
    gradient = gradient * slope
    trained = [number for number, mark in enumerate(marks) if mark is not None]
    # The gradient by an input is a sum of products of the gradient, too.
    arrays, sums, of_sums = [gradient], [], []
    for number in trained:
        sums.append([])
        of_sums.append([])
        for term, own in zip(terms, weights, strict=True):
            if number in term.inputs:
                others = [inputs[other] for other in term.inputs if other != number]
                times = len(arrays) if others else None
                arrays += others
                sums[-1].append(Term((0,), -term.distance, rows=term.columns, transposed=True, times=times))
                of_sums[-1].append(own)
    of_inputs = [None] * len(inputs)
    if trained:
        found = sums_of_products(
            tuple(map(tuple, sums)),
            precision,
            tuple(arrays),
            tuple(map(tuple, of_sums)),
            (None,) * len(arrays),
            sentences,
            tuple(dropped[number] for number in trained),
        )
        for number, (own,) in zip(trained, found, strict=True):
            of_inputs[number] = own
    of_weights = _gradient_by_weights(terms, precision, inputs, gradient, dropped, sentences)
    of_bias = gradient.astype(jnp.float32).sum(tuple(range(gradient.ndim - 1)))
    return tuple(of_inputs), of_weights, of_bias, None, None, None


_layer.defvjp(_forward, _backward, symbolic_zeros=True)


def sums_of_products(sums, precision, inputs, weights, dropped, sentences, afters):
    """Sums of products, each with what follows it: an activation gives two arrays, dropout or nothing one.

    Arguments:
      sums: the terms of each sum.
      precision: as of `layers.matmul.matmul`.
      inputs: <float32 or bfloat16>[..., size] each, of all sums.
      weights: of each sum those of each term.
      dropped: what is dropped of each input, or None.
      sentences: as of `layer`.
      afters: of each sum an `Activation`, a `Dropped` or None.
    """
    from jaxmatch.layers import fused_kernels  # Pallas is imported where it is used

    return jax.lax.platform_dependent(
        inputs,
        weights,
        dropped,
        sentences,
        afters,
        cuda=functools.partial(fused_kernels.sums_of_products, sums, precision),
        default=functools.partial(fused_by_xla.sums_of_products, sums, precision),
    )


def _gradient_by_weights(terms, precision, inputs, gradient, dropped, sentences):
    from jaxmatch.layers import fused_kernels

    return jax.lax.platform_dependent(
        inputs,
        gradient,
        dropped,
        sentences,
        cuda=functools.partial(fused_kernels.gradient_by_weights, terms, precision),
        default=functools.partial(fused_by_xla.gradient_by_weights, terms, precision),
    )
