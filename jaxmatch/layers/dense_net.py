"""DenseNet (Huang et al., 2017) as in DIIN (section 3.2): blocks in which each convolution sees the block's input and
the outputs of all earlier convolutions, without batch normalization.
"""

import itertools

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxmatch.config import DIINConfig
from jaxmatch.errors import InputError
from jaxmatch.layers.linear import Linear
from jaxmatch.layers.matmul import matmul, over_features
from jaxmatch.layers.parts import split


def scaled(channels: int, scale: float) -> int:
    """Returns the scaled number of channels, at least one."""
    return max(int(channels * scale), 1)


def convolve_grid(grid: jax.Array, kernel: jax.Array, precision: str) -> jax.Array:
    """Computes a correlation over a grid, with zeros beyond its edges, as one matrix product (layers/convolution.py).

    Arguments:
      grid: <float32>[batch, height, width, inputs].
      kernel: <float32>[extent, extent, inputs, features], extent odd.
      precision: the precision of the matrix product.

    Returns:
      <float32>[batch, height, width, features].
    """
    extent, _, inputs, features = kernel.shape
    wide = kernel.transpose(2, 0, 1, 3).reshape(inputs, -1)
    # The contributions of each place to itself and its neighbors, which are then shifted and summed.
    contributions = split(matmul(grid, wide, precision), [features] * extent**2)
    distances = range(-(extent // 2), extent // 2 + 1)
    places = itertools.product(distances, distances)
    return sum(_shifted(one, *place) for one, place in zip(contributions, places, strict=True))


def _shifted(values: jax.Array, down: int, right: int) -> jax.Array:
    """Shifts <...>[batch, height, width, ...].

    Place (y, x) gets the value of place (y + down, x + right), or zero beyond the edges.
    """
    edges = [(0, 0, 0), (-down, down, 0), (-right, right, 0), (0, 0, 0)]
    return jax.lax.pad(values, jnp.zeros((), values.dtype), edges)


def max_pool(grid: jax.Array) -> jax.Array:
    """Applies max pooling over 2 x 2 windows with stride 2 to [batch, height, width, channels].

    A last odd row or column is left out.
    """
    batch, height, width, channels = grid.shape
    grid = grid[:, : height // 2 * 2, : width // 2 * 2]
    return grid.reshape(batch, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))


class GridConvolution(nn.Module):
    """A 3 x 3 convolution followed by ReLU.

    Arguments:
      features: the number of output channels.
      precision: the precision of the matrix product.
    """

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, grid: jax.Array) -> jax.Array:
        """Applies the layer: <float32>[batch, height, width, channels] -> <float32>[batch, height, width, features]."""
        shape = (3, 3, grid.shape[-1], self.features)
        kernel = self.param("kernel", nn.initializers.glorot_uniform(), shape, jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, shape[-1:], jnp.float32)
        outputs = convolve_grid(grid, kernel, self.precision)
        return nn.relu(outputs + over_features(bias, outputs))


class DenseBlock(nn.Module):
    """A dense block and its transition layer.

    Each convolution sees the block's input and the outputs of all convolutions before it. The transition layer scales
    down the number of channels, without an activation, and halves the grid.

    Arguments:
      config: the settings, of which `block_layers`, `growth_rate`, `transition_scale` and `precision` apply.
    """

    config: DIINConfig

    @nn.compact
    def __call__(self, grid: jax.Array) -> jax.Array:
        """Applies the block to <float32>[batch, height, width, channels].

        Returns:
          <float32>[batch, height // 2, width // 2, new channels].

        Raises:
          InputError: the grid has fewer than two rows or columns.
        """
        if min(grid.shape[1:3]) < 2:
            raise InputError("the grid is too small for its dense blocks", remedy="give a larger model.grid_length")
        # The channels are concatenated: with a product for each part (layers/parts.py), a step takes twice the memory.
        config = self.config
        for number in range(config.block_layers):
            new = GridConvolution(config.growth_rate, config.precision, name=f"layer_{number}")(grid)
            grid = jnp.concatenate([grid, new], axis=-1)
        channels = scaled(grid.shape[-1], config.transition_scale)
        return max_pool(Linear(channels, precision=config.precision, name="transition")(grid))
