"""What all models share: inputs of several arrays, matrix products, weight normalization, dense and highway layers,
dropout.

The input of a layer is a tuple of arrays, `<float32>[batch, length, size]` each: embeddings, a residual, contextual
features. It stands for their concatenation along the last axis, which is never made: the products of each array with
its rows of a kernel sum to the product of the concatenation with the kernel. This saves copies and, above all, the
gradient of arrays that are not trained, such as fixed word embeddings.
"""

import contextlib
import contextvars
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import flax.traverse_util
import jax
import jax.numpy as jnp

from jaxmatch.config.models import RE2Config

Features = tuple[jax.Array, ...]


def sizes(features: Sequence[jax.Array]) -> tuple[int, ...]:
    """Returns the size of each array."""
    return tuple(each.shape[-1] for each in features)


def split(whole: jax.Array, extents: Sequence[int], axis: int = -1) -> list[jax.Array]:
    """Splits an axis into pieces of the given extents. Their gradients are concatenated, not added."""
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
        elsewhere. For a CPU, an LSTM has a form of its own (layers/lstm.py). Results are the same up to
        rounding.
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
target = _TARGET.get  # returns what a model is now traced for


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
      precision: a key of `PRECISIONS`.
      dtype: float32, or None for the type of `left`.

    Returns:
      [..., rows, columns] in `dtype`.
    """
    return sum_of_products((left,), (right,), precision, dtype)


def dot_products(queries: Features, keys: Features, precision: str) -> jax.Array:
    """Computes the dot products of all pairs of tokens, the scores of attention.

    Arguments:
      queries, keys: <float32 or bfloat16>[..., length, size] each.

    Returns:
      <float32>[..., length, length], because the softmax of scores that were rounded to bfloat16 is far off.
    """
    return sum_of_products(queries, [jnp.swapaxes(key, -1, -2) for key in keys], precision, jnp.float32)


def matmul_features(features: Features, kernel: jax.Array, precision: str, dtype: jnp.dtype | None = None) -> jax.Array:
    """Computes `concatenation of features @ kernel`: <float32 or bfloat16>[..., size] each and <float32>[inputs,
    columns] -> [..., columns]. `precision` and `dtype` are those of `matmul`.
    """
    return sum_of_products(features, split(kernel, sizes(features), axis=0), precision, dtype)


def sum_of_products(
    lefts: Sequence[jax.Array], rights: Sequence[jax.Array], precision: str, dtype: jnp.dtype | None = None
) -> jax.Array:
    """Returns the sum of the products of pairs of matrices, which differ only in `inner` (`matmul`)."""
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
    # The slope is computed beside the value, from the same tanh: the backward pass stores one array, not four.
    (inputs,), (tangent,) = primals, tangents
    x = inputs.astype(jnp.float32)
    square = x * x
    tanh = jnp.tanh(_SCALE * x * (1 + _CUBIC * square))
    slope = 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * _SCALE * (1 + 3 * _CUBIC * square)
    value, slope = (0.5 * x * (1 + tanh)).astype(inputs.dtype), slope.astype(inputs.dtype)
    # The barrier makes XLA's GPU compiler store the slope. Without the barrier, the compiler would store the arrays
    # that the inputs are computed from, three times as much in a convolution.
    return value, jax.lax.optimization_barrier(slope) * tangent


ACTIVATIONS = {"none": lambda values: values, "relu": nn.relu, "sigmoid": nn.sigmoid, "tanh": jnp.tanh, "gelu": gelu}


def column_norms(direction: jax.Array) -> jax.Array:
    """Returns the norm of the weight vector of each output: <float32>[..., outputs] -> <float32>[outputs]."""
    return jnp.sqrt(_squared_norms(direction))


def _squared_norms(direction: jax.Array) -> jax.Array:
    return jnp.sum(jnp.square(direction), axis=tuple(range(direction.ndim - 1)))


def kernel_of(direction: jax.Array, gain: jax.Array) -> jax.Array:
    """Computes `gain * direction / norm(direction)`: <float32>[..., outputs], <float32>[outputs] -> <float32>[...,
    outputs]. The kernel of a zero direction is zero, with a finite gradient.
    """
    squares = _squared_norms(direction)
    norms = jnp.sqrt(jnp.where(squares > 0, squares, 1.0))
    return direction * (gain / norms)


def normalized_kernel(module: nn.Module, shape: tuple[int, ...], *, activated: bool) -> jax.Array:
    """Declares the weights of a layer in `module` and returns the kernel that they define, <float32>[*shape].

    The kernel is `gain * direction / norm(direction)`, with one gain and one norm per output. The direction is
    initialized with standard deviation sqrt(2 / fan in), or sqrt(1 / fan in) if no activation follows.

    Arguments:
      module: the compact module that owns the parameters `direction` and `gain` (or `kernel`). Its
        `config.weight_normalization` is the initial gain:
        'he': the norm of the direction, so that the kernel starts at the direction (the paper; the PyTorch code);
        'unit': 1, which cancels the scale of the direction (the TensorFlow code);
        'none': there is no gain, and the kernel itself is the parameter.
      shape: (..., outputs); the fan in is the product of all dimensions but the last.
      activated: whether an activation follows.
    """
    deviation = math.sqrt((2.0 if activated else 1.0) / math.prod(shape[:-1]))
    initial_direction = nn.initializers.normal(deviation)
    if module.config.weight_normalization == "none":
        return module.param("kernel", initial_direction, shape, jnp.float32)
    direction = module.param("direction", initial_direction, shape, jnp.float32)
    is_he = module.config.weight_normalization == "he"
    gain = module.param("gain", lambda _: column_norms(direction) if is_he else jnp.ones(shape[-1:]))
    return kernel_of(direction, gain)


@jax_defaults()
def fold_weight_norm(params: Any, *, together: bool = False) -> Any:
    """Folds weight normalization into kernels: each direction and gain become the kernel that they define.

    Arguments:
      params: the parameter tree of a module whose `weight_normalization` is not 'none'.
      together: whether all kernels are computed together (`kernels_of`).

    Returns:
      the parameter tree of the same module with `weight_normalization` 'none', which computes the same with less work.
    """
    flat = flax.traverse_util.flatten_dict(dict(params))
    layers = [path[:-1] for path in flat if path[-1] == "direction"]
    directions, gains = ([flat.pop((*layer, name)) for layer in layers] for name in ("direction", "gain"))
    kernels = kernels_of(directions, gains) if together else map(kernel_of, directions, gains)
    flat |= {(*layer, "kernel"): kernel for layer, kernel in zip(layers, kernels, strict=True)}
    return flax.traverse_util.unflatten_dict(flat)


@jax.custom_vjp
def kernels_of(directions: list[jax.Array], gains: list[jax.Array]) -> list[jax.Array]:
    """Computes `kernel_of` of all layers together, with few GPU kernels."""
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
    """A dense layer with weight normalization, followed by GeLU if `activated`.

    Attributes:
      config: the settings, of which `weight_normalization` (`normalized_kernel`) and `precision` apply.
      features: the number of outputs.
      activated: whether GeLU follows; this also sets the scale of the initialization.
    """

    config: RE2Config
    features: int
    activated: bool = True

    @nn.compact
    def weights(self, *sizes: int) -> tuple[list[jax.Array], jax.Array]:
        """Declares the parameters for inputs of the given sizes.

        Returns:
          the rows of the kernel for each input, <float32>[size, features]; and the bias, <float32>[features].
        """
        kernel = normalized_kernel(self, (sum(sizes), self.features), activated=self.activated)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), jnp.float32)
        return split(kernel, sizes, axis=0), bias

    def __call__(self, *inputs: jax.Array) -> jax.Array:
        """Applies the layer to the concatenation of the inputs: <float32>[..., size] -> <float32>[..., features]."""
        rows, bias = self.weights(*sizes(inputs))
        outputs = sum_of_products(inputs, rows, self.config.precision)
        outputs = outputs + bias.astype(outputs.dtype)
        return gelu(outputs) if self.activated else outputs


class Dense(nn.Module):
    """A dense layer: `activation(concatenation of the inputs @ kernel + bias)`."""

    features: int
    activation: str = "none"
    use_bias: bool = True
    precision: str = "float32"

    @nn.compact
    def __call__(self, *inputs: jax.Array) -> jax.Array:
        """Applies the layer to the concatenation of the inputs: <float32>[..., size] -> <float32>[..., features]."""
        shape = (sum(sizes(inputs)), self.features)
        kernel = self.param("kernel", nn.initializers.glorot_uniform(), shape, jnp.float32)
        outputs = matmul_features(inputs, kernel, self.precision)
        if self.use_bias:
            bias = self.param("bias", nn.initializers.zeros, shape[-1:], jnp.float32)
            outputs = outputs + bias.astype(outputs.dtype)
        return ACTIVATIONS[self.activation](outputs)


_LEVELS = 1 << 16


def _lowbias32(words: jax.Array) -> jax.Array:
    """Applies a bijection of <uint32>[...] in which each input bit flips each output bit about half of the time
    (https://nullprogram.com/blog/2018/07/31/).
    """
    words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
    words = (words ^ (words >> 15)) * jnp.uint32(0x846CA68B)
    return words ^ (words >> 16)


def random_levels(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Returns uniform integers below 65536, a hash of the key and the position: <uint32>[*shape].

    Threefry, the generator of `jax.random`, takes several times as many operations, and XLA stores its bits for the
    backward pass. The few operations of this hash are computed again wherever the integers are read, so the integers
    are never in memory; XLA may store which numbers were kept, one byte each.
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

    def __call__(self, inputs: Any, rate: jax.Array | float | None) -> Any:
        """Applies dropout to an array, or to `Features` as to their concatenation: <float32>[...] -> the same shape.

        `rate` is a number or a scalar array below 1, or None in evaluation.
        """
        if rate is None:
            return inputs
        features = inputs if isinstance(inputs, tuple) else (inputs,)
        extents = sizes(features)
        levels = random_levels(self.make_rng("dropout"), (*features[0].shape[:-1], sum(extents)))
        dropped_levels = jnp.round(jnp.asarray(rate, jnp.float32) * _LEVELS)
        threshold, scale = dropped_levels.astype(jnp.uint32), _LEVELS / (_LEVELS - dropped_levels)
        # Each array is compared separately. If one comparison were split, XLA's CPU compiler would read the rate again
        # for each number and would not vectorize.
        kept = tuple(
            jnp.where(own >= threshold, (each.astype(jnp.float32) * scale).astype(each.dtype), 0.0)
            for own, each in zip(split(levels, extents), features, strict=True)
        )
        return kept if isinstance(inputs, tuple) else kept[0]


class HighwayLayer(nn.Module):
    """A highway layer: `gate * relu(W_h x) + (1 - gate) * x`.

    If the sizes differ, the carried x is mapped to the size of the layer, as in CSRAN's code.
    """

    features: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, *inputs: jax.Array) -> jax.Array:
        """Applies the layer to the concatenation of the inputs: <float32>[..., size] -> <float32>[..., features]."""
        dense = functools.partial(Dense, self.features, precision=self.precision)
        transformed = dense("relu", name="transform")(*inputs)
        gate = dense("sigmoid", name="gate")(*inputs)
        carried = inputs[0] if sizes(inputs) == (self.features,) else dense(name="carry")(*inputs)
        return gate * transformed + (1 - gate) * carried


class Highway(nn.Module):
    """Highway layers on top of each other, with dropout before each."""

    features: int
    layers: int
    precision: str = "float32"

    @nn.compact
    def __call__(self, inputs: Features, dropout_rate: jax.Array | None) -> Features:
        """Applies the layers: <float32>[..., size] each -> one <float32>[..., features]. Without layers: `inputs`."""
        for layer in range(self.layers):
            dropped = Dropout()(inputs, dropout_rate)
            inputs = (HighwayLayer(self.features, self.precision, name=f"layer_{layer}")(*dropped),)
        return inputs
