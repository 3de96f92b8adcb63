"""Weight normalization of all layers of a model at once, for GPUs, where each kernel launch costs time.

The norms and gains of a layer and their gradients take about four GPU kernels, which take longer to launch than to run.
Here the directions of all layers are stacked. One GPU kernel computes all norms, and another one all sums of the
backward pass.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import flax.traverse_util
import jax
import jax.numpy as jnp

from jaxmatch.layers.matmul import over_features


def folded(module: nn.Module, params: Any) -> tuple[nn.Module, Any]:
    """Folds weight normalization into kernels as `weights.folded` does, with few GPU kernels.

    Arguments:
      module: the model, whose `weight_normalization` is not 'none'.
      params: the parameter tree of the model.

    Returns:
      the same model with `weight_normalization` 'none', and its parameters.
    """
    flat = flax.traverse_util.flatten_dict(dict(params))
    layers = [path[:-1] for path in flat if path[-1] == "direction"]
    directions, gains = ([flat.pop((*layer, name)) for layer in layers] for name in ("direction", "gain"))
    flat |= {(*layer, "kernel"): kernel for layer, kernel in zip(layers, kernels_of(directions, gains), strict=True)}
    plain = module.clone(config=dataclasses.replace(module.config, weight_normalization="none"))
    return plain, flax.traverse_util.unflatten_dict(flat)


@jax.custom_vjp
def kernels_of(directions: list[jax.Array], gains: list[jax.Array]) -> list[jax.Array]:
    """Computes `weights.kernel_of` of each: <float32>[..., outputs], <float32>[outputs] -> <float32>[..., outputs]."""
    return _forward(directions, gains)[0]


def _forward(directions, gains):
    norms = jnp.sqrt(jnp.sum(jnp.square(_stacked(directions)), axis=1))
    norms = jnp.where(norms > 0, norms, 1.0)  # padding columns have norm 0
    scales = _stacked(gains)[:, 0] / norms
    return _scaled(directions, scales), (directions, norms, scales)


def _backward(saved, gradients):
    directions, norms, scales = saved
    d_scales = jnp.sum(_stacked(gradients) * _stacked(directions), axis=1)
    d_gains = d_scales / norms
    # The kernel depends on a direction d only by d / |d|, so the part of the gradient parallel to d is subtracted.
    parallel = _scaled(directions, d_gains * scales / norms)
    d_directions = [total - part for total, part in zip(_scaled(gradients, scales), parallel, strict=True)]
    return d_directions, [d_gain[: direction.shape[-1]] for d_gain, direction in zip(d_gains, directions, strict=True)]


kernels_of.defvjp(_forward, _backward)


def _stacked(arrays: Sequence[jax.Array]) -> jax.Array:
    """Stacks arrays of <float32>[..., outputs] as <float32>[array, rows, outputs], padded with zeros."""
    flat = [each.reshape(-1, each.shape[-1]) for each in arrays]
    rows, columns = (max(each.shape[axis] for each in flat) for axis in (0, 1))
    return jnp.stack([jnp.pad(each, ((0, rows - each.shape[0]), (0, columns - each.shape[1]))) for each in flat])


def _scaled(arrays: Sequence[jax.Array], factors: jax.Array) -> list[jax.Array]:
    """Multiplies each array, <float32>[..., outputs], with its row of `factors`, <float32>[array, outputs]."""
    return [each * over_features(factor[: each.shape[-1]], each) for each, factor in zip(arrays, factors, strict=True)]
