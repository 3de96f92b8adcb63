"""What all models share: sequences in parts, matrix products, weight normalization, dense and highway layers, dropout.

The input of a layer consists of several arrays: the embeddings, a residual, contextual features. They are passed on as
a tuple of arrays, `<float32>[batch, length, size]` each, which stands for their concatenation along the last axis. The
concatenation is never made: the products of each part with its rows of a kernel sum to the product of the
concatenation with the kernel. This saves the copies and, above all, the gradient of parts that are not trained: no
gradient is computed for a part that consists of fixed word embeddings.
"""

import contextlib
import contextvars
import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import flax.traverse_util
import jax
import jax.numpy as jnp

from jaxmatch.config.models import RE2Config

Parts = tuple[jax.Array, ...]


def sizes(parts: Sequence[jax.Array]) -> tuple[int, ...]:
    """Returns the number of features of each part."""
    return tuple(part.shape[-1] for part in parts)


def split(whole: jax.Array, extents: Sequence[int], axis: int = -1) -> list[jax.Array]:
    """Splits an axis into pieces of the given extents.

    The pieces are slices that cost nothing. Their gradients are concatenated, not added.
    """
    return jax.lax.split(whole, extents, axis % whole.ndim)


# precision -> the type of the factors and of the outputs of layers. jaxmatch/devices.py describes how a device rounds
# float32 factors.
PRECISIONS = {"highest": jnp.float32, "float32": jnp.float32, "tensorfloat32": jnp.float32, "bfloat16": jnp.bfloat16}
# precision -> the precision that JAX is given for a product; the others use JAX's default.
JAX_PRECISIONS = {"highest": jax.lax.Precision.HIGHEST, "tensorfloat32": jax.lax.Precision.HIGH}

# The names of GPUs in JAX and XLA.
GPUS = ("gpu", "cuda", "rocm")
# In aligned products, rows of matrices begin at multiples of this many bytes. cuBLAS reads rows that begin elsewhere
# number by number (benchmarks/NOTES.md).
ALIGNMENT = 16


class Target(NamedTuple):
    """What a model is traced for. A model does not see it; only this folder reads it.

    Attributes:
      platform: the platform of the devices, or "" for any. For GPUs, rows of matrices are padded with zeros to
        `ALIGNMENT`. For TPUs, a product of tokens with a weight keeps the axes of batch and length, which are one axis
        elsewhere. For a CPU, an LSTM has a form of its own (layers/lstm_on_cpu.py). Results have the same shapes, and
        the same values up to rounding.
      most_words: the maximum number of distinct words of a batch, padding included; features of a word are then
        computed once for each distinct word (layers/words.py). None: once for each token.
      length, drawn_length: the length of the rows, and the length for which dropout draws its random numbers,
        `<int32>[]`, or None if both are the same. A row that is padded further has the same random numbers.
    """

    platform: str = ""
    most_words: int | None = None
    length: int = 0
    drawn_length: jax.Array | None = None


_ANY = Target()
_TARGET = contextvars.ContextVar("target", default=_ANY)


def target() -> Target:
    """Returns what a model is now traced for."""
    return _TARGET.get()


@contextlib.contextmanager
def traced_for(*arguments: Any, **named: Any) -> Iterator[None]:
    """Traces models for a `Target` with these attributes."""
    before = _TARGET.set(Target(*arguments, **named))
    try:
        yield
    finally:
        _TARGET.reset(before)


@contextlib.contextmanager
def jax_defaults() -> Iterator[None]:
    """Traces with JAX's defaults for random bits and for the promotion of types and shapes, whatever the process has
    set. The random bits of a run are part of what its name stands for, and Flax and optax promote types.
    """
    with (
        jax.threefry_partitionable(True),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        yield


def of_scores(precision: str) -> str:
    """Returns the precision of logits and cosines: float32 if a model's precision is bfloat16, otherwise the same."""
    return "float32" if precision == "bfloat16" else precision


def matmul(left: jax.Array, right: jax.Array, precision: str, dtype: jnp.dtype | None = None) -> jax.Array:
    """Multiplies matrices in `precision`, or in bfloat16 if `left` is bfloat16.

    Sums are float32 in every precision, and are rounded once, to the type of the result.

    Arguments:
      left: <float32 or bfloat16>[..., rows, inner].
      right: <float32 or bfloat16>[..., inner, columns].
      precision: the precision, a key of `PRECISIONS`.
      dtype: float32, or None for the type of `left`.

    Returns:
      [..., rows, columns] in `dtype`.
    """
    return _sum_of_products((left,), (right,), precision, dtype)


def dot_products(queries: Parts, keys: Parts, precision: str) -> jax.Array:
    """Computes the dot products of all pairs of tokens, the scores of attention.

    Arguments:
      queries, keys: parts of <float32 or bfloat16>[..., length, size].
      precision: the precision, as for `matmul`.

    Returns:
      <float32>[..., length, length], because the softmax of scores that were rounded to bfloat16 is far off.
    """
    return _sum_of_products(queries, [jnp.swapaxes(key, -1, -2) for key in keys], precision, jnp.float32)


def _sum_of_products(
    lefts: Sequence[jax.Array], rights: Sequence[jax.Array], precision: str, dtype: jnp.dtype | None
) -> jax.Array:
    """Returns the sum of the products of several pairs of matrices, all as `matmul` takes them and of equal shapes but
    for `inner`.
    """
    dtype = dtype or lefts[0].dtype
    *rows, _ = lefts[0].shape
    columns = rights[0].shape[-1]
    # As products of two matrices: on a CPU and a GPU, their gradients need no copies in another layout. A TPU pads the
    # innermost axis in memory to a multiple of 128. If the axes are kept, XLA makes the batch innermost. Otherwise the
    # features are, and 150 of them take the memory of 256.
    one_axis = rights[0].ndim == 2 and len(rows) > 1 and target().platform != "tpu"
    if one_axis:
        lefts = [left.reshape(-1, left.shape[-1]) for left in lefts]
    summed_in = dtype if len(lefts) == 1 else jnp.float32
    products = [_product(left, right, precision, summed_in) for left, right in zip(lefts, rights, strict=True)]
    # Columns that are only padding are cut off once, after the sum. Otherwise XLA copies each product to add it.
    summed = functools.reduce(jnp.add, products)[..., :columns].astype(dtype)
    return summed.reshape(*rows, columns) if one_axis else summed


def _product(left: jax.Array, right: jax.Array, precision: str, dtype: jnp.dtype) -> jax.Array:
    """Returns a product as `matmul` does. On GPUs, columns of zeros may follow."""
    factors = jnp.bfloat16 if left.dtype == jnp.bfloat16 else PRECISIONS[precision]
    left, right = left.astype(factors), right.astype(factors)
    if target().platform in GPUS:
        left, right = _aligned(left, (left.ndim - 1,)), _aligned(right, (right.ndim - 2, right.ndim - 1))
    if factors == dtype:
        return jnp.matmul(left, right, precision=JAX_PRECISIONS.get(precision))
    return _float32_product(left, right)


@jax.custom_vjp
def _float32_product(left: jax.Array, right: jax.Array) -> jax.Array:
    """Multiplies <bfloat16> matrices without rounding the result, <float32>.

    The products of the gradient are those of a bfloat16 product. JAX's own would multiply a float32 gradient, which
    takes a device longer.
    """
    return jnp.matmul(left, right, preferred_element_type=jnp.float32)


def _gradient_of_product(factors: tuple[jax.Array, jax.Array], gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    (left, right), gradient = factors, gradient.astype(jnp.bfloat16)
    (of_left,) = jax.linear_transpose(lambda left: jnp.matmul(left, right), left)(gradient)
    (of_right,) = jax.linear_transpose(lambda right: jnp.matmul(left, right), right)(gradient)
    return of_left, of_right


_float32_product.defvjp(lambda left, right: (_float32_product(left, right), (left, right)), _gradient_of_product)


def _aligned(matrices: jax.Array, axes: Sequence[int]) -> jax.Array:
    """Pads the given axes with zeros to multiples of `ALIGNMENT` bytes."""
    least = ALIGNMENT // matrices.dtype.itemsize
    widths = [(0, -size % least if axis in axes else 0) for axis, size in enumerate(matrices.shape)]
    return jnp.pad(matrices, widths)


def matmul_in_parts(parts: Parts, kernel: jax.Array, precision: str, dtype: jnp.dtype | None = None) -> jax.Array:
    """Computes `[part; ...; part] @ kernel` without the concatenation (layers/core.py).

    Arguments:
      parts: parts of <float32 or bfloat16>[..., inputs of the part].
      kernel: <float32>[inputs, columns].
      precision, dtype: the same as for `matmul`.

    Returns:
      [..., columns] in `dtype`.
    """
    return matmul_by_rows(parts, split(kernel, sizes(parts), axis=0), precision, dtype)


def matmul_by_rows(
    parts: Parts, rows: Sequence[jax.Array], precision: str, dtype: jnp.dtype | None = None
) -> jax.Array:
    """Computes `matmul_in_parts` with the rows of the kernel for each part, <float32>[inputs of the part, columns]."""
    return _sum_of_products(parts, rows, precision, dtype)


def lowest(dtype: jnp.dtype) -> float:
    """Returns the lowest finite number of a type. Unlike -inf, it gives no NaN if a whole row is masked."""
    return float(jnp.finfo(dtype).min)


_SCALE, _CUBIC = math.sqrt(2 / math.pi), 0.044715


@jax.custom_jvp
def gelu(inputs: jax.Array) -> jax.Array:
    """Computes 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) in float32: <float32 or bfloat16>[...] -> the same
    shape and type.
    """
    x = inputs.astype(jnp.float32)
    return (0.5 * x * (1 + jnp.tanh(_SCALE * (x + _CUBIC * x**3)))).astype(inputs.dtype)


@gelu.defjvp
def _derivative(primals, tangents):
    # The derivative is computed beside the value, from the same tanh: the backward pass stores one array, not four.
    (inputs,), (tangent,) = primals, tangents
    value, slope = gelu_and_slope(inputs)
    # The barrier makes XLA's GPU compiler store the slope. Without the barrier, the compiler would store the arrays
    # that the inputs are computed from, three times as much in a convolution.
    return value, jax.lax.optimization_barrier(slope) * tangent


def gelu_and_slope(inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Computes GeLU and its derivative: <float32 or bfloat16>[...] -> two arrays of the same shape and type."""
    x = inputs.astype(jnp.float32)
    square = x * x
    tanh = jnp.tanh(_SCALE * x * (1 + _CUBIC * square))
    slope = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * _SCALE * (1 + 3 * _CUBIC * square)
    return (0.5 * x * (1 + tanh)).astype(inputs.dtype), slope.astype(inputs.dtype)


def column_norms(direction: jax.Array) -> jax.Array:
    """Returns the norm of the weight vector of each output: <float32>[..., outputs] -> <float32>[outputs]."""
    return jnp.sqrt(_squared_norms(direction))


def _squared_norms(direction: jax.Array) -> jax.Array:
    return jnp.sum(jnp.square(direction), axis=tuple(range(direction.ndim - 1)))


@jax_defaults()
def fold_weight_norm(params: Any) -> Any:
    """Folds weight normalization into kernels: each direction and gain become the kernel that they define.

    Arguments:
      params: the parameter tree of a module whose `weight_normalization` is not 'none'.

    Returns:
      the parameter tree of the same module with `weight_normalization` 'none', which computes the same with less work.
    """
    if not isinstance(params, Mapping):
        return params
    folded_params = {
        name: fold_weight_norm(value) for name, value in params.items() if name not in ("direction", "gain")
    }
    if "direction" in params:
        folded_params["kernel"] = kernel_of(params["direction"], params["gain"])
    return folded_params


def kernel_of(direction: jax.Array, gain: jax.Array) -> jax.Array:
    """Computes `gain * direction / norm(direction)`. The kernel of a zero direction is zero, with a finite gradient.

    Arguments:
      direction: <float32>[..., outputs].
      gain: <float32>[outputs].

    Returns:
      <float32>[..., outputs].
    """
    squares = _squared_norms(direction)
    norms = jnp.sqrt(jnp.where(squares > 0, squares, 1.0))
    return direction * (gain / norms)


def normalized_kernel(
    module: nn.Module, shape: tuple[int, ...], *, activated: bool, weight_normalization: str
) -> jax.Array:
    """Declares the weights of a layer in `module` and returns the kernel that they define.

    The kernel is `gain * direction / norm(direction)`, with one gain and one norm per output. The direction is
    initialized with standard deviation sqrt(2 / fan in), or sqrt(1 / fan in) if no activation follows. The gain is
    initialized to
      'he': the norm of the direction, so that the kernel starts at the direction (the paper; the PyTorch code);
      'unit': 1, which cancels the scale of the direction (the TensorFlow code).
    With 'none', the kernel itself is the parameter.

    Arguments:
      module: the compact module that owns the parameters `direction` and `gain` (or `kernel`).
      shape: (..., outputs); the fan in is the product of all dimensions but the last.
      activated: whether an activation follows.
      weight_normalization: 'he', 'unit' or 'none', as described above.

    Returns:
      <float32>[*shape].
    """
    deviation = math.sqrt((2.0 if activated else 1.0) / math.prod(shape[:-1]))
    initial_direction = nn.initializers.normal(deviation)
    if weight_normalization == "none":
        return module.param("kernel", initial_direction, shape, jnp.float32)
    direction = module.param("direction", initial_direction, shape, jnp.float32)
    initial_gain = {"he": lambda _: column_norms(direction), "unit": lambda _: jnp.ones(shape[-1:])}[
        weight_normalization
    ]
    gain = module.param("gain", initial_gain)
    return kernel_of(direction, gain)


@jax_defaults()
def fold_weight_norm_jointly(module: nn.Module, params: Any) -> tuple[nn.Module, Any]:
    """Folds weight normalization into kernels as `fold_weight_norm` does, with few GPU kernels.

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
    """Computes `kernel_of` of each: <float32>[..., outputs], <float32>[outputs] -> <float32>[..., outputs]."""
    return _joint_forward(directions, gains)[0]


def _joint_forward(directions, gains):
    norms = jnp.sqrt(jnp.sum(jnp.square(_stacked(directions)), axis=1))
    norms = jnp.where(norms > 0, norms, 1.0)  # padding columns have norm 0
    scales = _stacked(gains)[:, 0] / norms
    return _scaled(directions, scales), (directions, norms, scales)


def _joint_backward(saved, gradients):
    directions, norms, scales = saved
    d_scales = jnp.sum(_stacked(gradients) * _stacked(directions), axis=1)
    d_gains = d_scales / norms
    # The kernel depends on a direction d only by d / |d|, so the part of the gradient parallel to d is subtracted.
    parallel = _scaled(directions, d_gains * scales / norms)
    d_directions = [total - part for total, part in zip(_scaled(gradients, scales), parallel, strict=True)]
    return d_directions, [d_gain[: direction.shape[-1]] for d_gain, direction in zip(d_gains, directions, strict=True)]


kernels_of.defvjp(_joint_forward, _joint_backward)


def _stacked(arrays: Sequence[jax.Array]) -> jax.Array:
    """Stacks arrays of <float32>[..., outputs] as <float32>[array, rows, outputs], padded with zeros."""
    flat = [each.reshape(-1, each.shape[-1]) for each in arrays]
    rows, columns = (max(each.shape[axis] for each in flat) for axis in (0, 1))
    return jnp.stack([jnp.pad(each, ((0, rows - each.shape[0]), (0, columns - each.shape[1]))) for each in flat])


def _scaled(arrays: Sequence[jax.Array], factors: jax.Array) -> list[jax.Array]:
    """Multiplies each array, <float32>[..., outputs], with its row of `factors`, <float32>[array, outputs]."""
    return [each * factor[: each.shape[-1]] for each, factor in zip(arrays, factors, strict=True)]


class WeightNormDense(nn.Module):
    """A dense layer: `[part; ...; part] @ kernel + bias`, followed by GeLU if `activated`.

    Arguments:
      config: the settings, of which `weight_normalization` (layers/core.py) and `precision` apply.
      features: the number of outputs.
      activated: whether GeLU follows; this also sets the scale of the initialization.
    """

    config: RE2Config
    features: int
    activated: bool = True

    @nn.compact
    def weights(self, *sizes: int) -> tuple[list[jax.Array], jax.Array]:
        """Declares the parameters of the layer for parts of the given sizes.

        Returns:
          the rows of the kernel for each part, <float32>[size, features]; and the bias, <float32>[features].
        """
        kernel = normalized_kernel(
            self,
            (sum(sizes), self.features),
            activated=self.activated,
            weight_normalization=self.config.weight_normalization,
        )
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        return split(kernel, sizes, axis=0), bias

    def __call__(self, *parts: jax.Array) -> jax.Array:
        """Applies the layer to the concatenation of parts of <float32>[..., inputs] -> <float32>[..., features]."""
        rows, bias = self.weights(*sizes(parts))
        outputs = matmul_by_rows(parts, rows, self.config.precision)
        outputs = outputs + bias.astype(outputs.dtype)
        return gelu(outputs) if self.activated else outputs


ACTIVATIONS = {"none": lambda values: values, "relu": nn.relu, "sigmoid": nn.sigmoid, "tanh": jnp.tanh}


class Dense(nn.Module):
    """A dense layer: `activation([part; ...; part] @ kernel + bias)`.

    Arguments:
      features: the number of outputs.
      activation: the activation, a key of `ACTIVATIONS`.
      use_bias: whether there is a bias.
      precision: the precision of the matrix product.
    """

    features: int
    activation: str = "none"
    use_bias: bool = True
    precision: str = "float32"

    @nn.compact
    def __call__(self, *parts: jax.Array) -> jax.Array:
        """Applies the layer to the concatenation of parts of <float32>[..., inputs] -> <float32>[..., features]."""
        shape = (sum(sizes(parts)), self.features)
        kernel = self.param("kernel", nn.initializers.glorot_uniform(), shape, jnp.float32)
        outputs = matmul_in_parts(parts, kernel, self.precision)
        if self.use_bias:
            bias = self.param("bias", nn.initializers.zeros, shape[-1:], jnp.float32)
            outputs = outputs + bias.astype(outputs.dtype)
        return ACTIVATIONS[self.activation](outputs)


_LEVELS = 1 << 16


def _lowbias32(words: jax.Array) -> jax.Array:
    """Applies a bijection of <uint32>[...] ("lowbias32"): each input bit flips each output bit about half of the
    time.
    """
    words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
    words = (words ^ (words >> 15)) * jnp.uint32(0x846CA68B)
    return words ^ (words >> 16)


def random_levels(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Returns uniform integers below 65536, a hash of the key and the position: <uint32>[*shape].

    Threefry, the generator of `jax.random`, takes several times as many operations. XLA computes it once and stores its
    bits for the backward pass. It computes the few operations of this hash again wherever the integers are read, so
    they are never in memory; XLA may store which numbers were kept, one byte each. The constants are those of
    https://nullprogram.com/blog/2018/07/31/.
    """
    first, second = jax.random.key_data(key)
    length = target().drawn_length
    if length is None or len(shape) < 3 or shape[1] != target().length:
        indices = jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)
    else:
        row, position = (jax.lax.iota(jnp.uint32, size) for size in shape[:2])
        features = jnp.arange(math.prod(shape[2:]), dtype=jnp.uint32).reshape(shape[2:])
        token = (row[:, None] * length.astype(jnp.uint32) + position).reshape(*shape[:2], *(1,) * features.ndim)
        indices = token * jnp.uint32(features.size) + features
    return _lowbias32(_lowbias32(indices ^ first) + second) >> 16


class Dropout(nn.Module):
    """A dropout layer, which zeroes each number with probability `rate` and scales the others so that the mean stays.

    The random numbers depend on the key `dropout` only, not on the rate: a higher rate drops the same positions and
    more. The rate is rounded to a multiple of 1/65536.
    """

    def __call__(self, inputs: jax.Array, rate: jax.Array | float | None) -> jax.Array:
        """Applies dropout: <float32>[...] -> the same shape.

        `rate` is a number or a scalar array below 1, or None in evaluation.
        """
        return self.in_parts((inputs,), rate)[0]

    def in_parts(self, parts: Parts, rate: jax.Array | float | None) -> Parts:
        """Applies dropout to parts (layers/core.py), as a call does to their concatenation."""
        if rate is None:
            return parts
        extents = sizes(parts)
        levels = random_levels(self.make_rng("dropout"), (*parts[0].shape[:-1], sum(extents)))
        dropped_levels = jnp.round(jnp.asarray(rate, jnp.float32) * _LEVELS)
        threshold, scale = dropped_levels.astype(jnp.uint32), _LEVELS / (_LEVELS - dropped_levels)
        # Each part is compared separately. If one comparison were cut into parts, XLA's CPU compiler would read the
        # rate again for each number and would not vectorize.
        return tuple(
            jnp.where(own >= threshold, (part.astype(jnp.float32) * scale).astype(part.dtype), 0.0)
            for own, part in zip(split(levels, extents), parts, strict=True)
        )


class HighwayLayer(nn.Module):
    """A highway layer: `gate * relu(W_h x) + (1 - gate) * x`.

    If the sizes differ, the carried x is mapped to the size of the layer, as in CSRAN's code.

    Arguments:
      features: the number of outputs.
      precision: the precision of the matrix products.
    """

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, *parts: jax.Array) -> jax.Array:
        """Applies the layer to the concatenation of parts of <float32>[..., inputs] -> <float32>[..., features]."""
        options = dict(precision=self.precision)
        transformed = Dense(self.features, "relu", **options, name="transform")(*parts)
        gate = Dense(self.features, "sigmoid", **options, name="gate")(*parts)
        if sizes(parts) == (self.features,):
            carried = parts[0]
        else:
            carried = Dense(self.features, **options, name="carry")(*parts)
        return gate * transformed + (1 - gate) * carried


class Highway(nn.Module):
    """Highway layers on top of each other, with dropout before each.

    Arguments:
      features: the number of outputs of each layer.
      layers: the number of layers.
      precision: the precision of the matrix products.
    """

    features: int
    layers: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, parts: Parts, dropout_rate: jax.Array | None) -> Parts:
        """Applies the layers: parts of <float32>[..., inputs] -> one part of <float32>[..., features].

        Without layers, the parts are returned unchanged.
        """
        for layer in range(self.layers):
            parts = Dropout().in_parts(parts, dropout_rate)
            parts = (HighwayLayer(self.features, self.precision, name=f"layer_{layer}")(*parts),)
        return parts
