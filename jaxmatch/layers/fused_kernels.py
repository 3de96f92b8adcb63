"""The two kernels of a fused layer, written in Pallas for Triton: the sum of products, and the gradient by the weights.

Neither has been timed on a GPU. The sizes of the blocks are those of Triton's own examples of matrix products.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from jaxmatch.layers.fused_terms import Activation, Dropped, activated, same_sentence

# What a program has at once, in powers of two, as Triton needs them: tokens, and what is summed over in a step.
TOKENS, STEP = 128, 32
# Of the weights' gradient: rows of the weights, and over how many tokens a program sums at most. XLA adds up the rest.
ROWS, MOST_TOKENS = 64, 10_240


def _features_at_once(features: int) -> int:
    """Columns of a program: few where they are few, as what is beyond them is computed in vain."""
    return 128 if features > 256 else 64


def _call(kernel: Any, name: str, outputs: Any, grid: tuple[int, ...], arguments: Any, interpret: bool) -> Any:
    from jax.experimental.pallas import triton

    parameters = triton.CompilerParams(num_warps=8, num_stages=3)
    call = pl.pallas_call(
        kernel, out_shape=outputs, grid=grid, name=name, interpret=interpret, compiler_params=parameters
    )
    return call(*arguments)


def _flat(values: jax.Array) -> jax.Array:
    return values.reshape(-1, values.shape[-1])


def _sames(terms, sentences) -> dict[int, jax.Array]:
    """Distance -> whether the token so far ahead counts, <int32>[tokens]."""
    distances = {term.distance for term in terms} - {0}
    return {distance: same_sentence(sentences, distance).reshape(-1).astype(jnp.int32) for distance in distances}


class _Block(NamedTuple):
    """Some of the places of an axis: their numbers, and which of them there are."""

    first: Any
    size: int
    places: jax.Array
    there: jax.Array

    @classmethod
    def at(cls, first: Any, size: int, extent: Any) -> "_Block":
        places = first + jnp.arange(size, dtype=jnp.int32)
        return cls(first, size, places, places < extent)

    @property
    def slice(self) -> Any:
        return pl.ds(self.first, self.size)


def _load(array: Any, rows: _Block, columns: _Block, distance: int = 0) -> jax.Array:
    """A block of an array; 0 where there is none. `distance`: of the rows so far ahead, which must be there."""
    from jax.experimental.pallas import triton

    mask = rows.there[:, None] & columns.there[None]
    index: tuple[Any, Any] = rows.slice, columns.slice
    if distance:  # a slice cannot begin before the first row
        ahead = jnp.clip(rows.places + distance, 0, array.shape[0] - 1)
        index = tuple(jnp.broadcast_arrays(ahead[:, None], columns.places[None]))
    return triton.load(array.at[index], mask=mask, other=0.0)


def _read(dropped: Any) -> Any:
    """The scalars of a tree of references."""
    from jax.experimental.pallas import triton

    return jax.tree.map(lambda each: triton.load(each.at[...]), dropped)


def _left(term, inputs, dropped, tokens: _Block, columns: _Block, distance: int) -> jax.Array:
    """What a term multiplies with its weights, of some tokens and columns."""
    factors = []
    for number in term.inputs:
        factor = _load(inputs[number], tokens, columns, distance)
        if dropped[number] is not None:
            kept = dropped[number].factor(tokens.places + distance, columns.places)
            factor = factor * kept.astype(factor.dtype)
        factors.append(factor)
    return math.prod(factors[1:], start=factors[0])


def _starts(blocks: Sequence[int]) -> tuple[int, ...]:
    """Where each one's blocks begin when they are numbered one after another, and how many there are."""
    return tuple(itertools.accumulate(blocks, initial=0))


def sums_of_products(sums, precision, inputs, weights, dropped, sentences, afters, interpret=False):
    """Sums of products, each with what follows it; see `layers.fused.sums_of_products`."""
    *places, _ = inputs[0].shape
    tokens, dtype = math.prod(places), inputs[0].dtype
    features = [own[0].shape[not terms[0].transposed] for terms, own in zip(sums, weights, strict=True)]
    wide = _features_at_once(min(features))
    starts = _starts([pl.cdiv(each, wide) for each in features])
    outputs = tuple(
        (jax.ShapeDtypeStruct((tokens, each), dtype),) * (2 if isinstance(after, Activation) else 1)
        for each, after in zip(features, afters, strict=True)
    )
    arguments = [
        [_flat(each) for each in inputs],
        jax.tree.map(lambda own: own.astype(dtype), weights),
        dropped,
        _sames(itertools.chain(*sums), sentences),
        afters,
    ]
    kernel = functools.partial(_sums_kernel, sums, starts, wide, precision)
    found = _call(kernel, "sums_of_products", outputs, (starts[-1], pl.cdiv(tokens, TOKENS)), arguments, interpret)
    return jax.tree.map(lambda each: each.reshape(*places, -1), found)


def _sums_kernel(sums, starts, wide, precision, inputs, weights, dropped, same, afters, *outputs):
    """Computes a block of tokens and of one sum's features. All references are whole arrays."""
    from jax.experimental.pallas import triton

    number, dropped = pl.program_id(0), _read(dropped)
    tokens = _Block.at(pl.program_id(1) * TOKENS, TOKENS, outputs[0][0].shape[0])
    for terms, of_terms, after, own_outputs, start, end in zip(
        sums, weights, afters, outputs, starts, starts[1:], strict=False
    ):
        features = _Block.at((number - start) * wide, wide, own_outputs[0].shape[1])
        is_own = (number >= start) & (number < end)
        features = features._replace(there=features.there & is_own)
        total = jnp.zeros((TOKENS, wide), jnp.float32)
        for term, own in zip(terms, of_terms, strict=True):
            begin, stop = term.rows or (0, own.shape[int(term.transposed)])

            def add(step, partial, term=term, own=own, begin=begin, stop=stop, features=features):
                inner = _Block.at(begin + step * STEP, STEP, stop)
                left = _left(term, inputs, dropped, tokens, inner, term.distance)
                right = _load(own, features, inner) if term.transposed else _load(own, inner, features)
                return partial + triton.dot(left, right, trans_b=term.transposed, allow_tf32=precision != "highest")

            needed = is_own
            if term.columns is not None:
                first, last = term.columns
                needed &= (features.first < last) & (features.first + wide > first)
            steps = jnp.where(needed, jnp.int32(pl.cdiv(stop - begin, STEP)), jnp.int32(0))
            partial = jax.lax.fori_loop(jnp.int32(0), steps, add, jnp.zeros_like(total))
            if term.distance:
                counts = triton.load(same[term.distance].at[tokens.slice], mask=tokens.there, other=0)
                partial = jnp.where(counts[:, None] > 0, partial, 0.0)
            if term.times is not None:
                partial *= _load(inputs[term.times], tokens, features).astype(jnp.float32)
            total += partial
        results = (total,)
        if isinstance(after, Dropped):
            results = (total * _read(after).factor(tokens.places, features.places),)
        elif after is not None:
            bias = triton.load(after.bias.at[features.slice], mask=features.there, other=0.0)
            kept = 1.0 if after.dropped is None else _read(after.dropped).factor(tokens.places, features.places)
            results = activated(total, bias[None], kept)
        mask = tokens.there[:, None] & features.there[None]
        for output, result in zip(own_outputs, results, strict=True):
            triton.store(output.at[tokens.slice, features.slice], result.astype(output.dtype), mask=mask)


def gradient_by_weights(terms, precision, inputs, gradient, dropped, sentences, interpret=False):
    """The gradient by the weights of each term, <float32>[size, features]: `left.T @ gradient`."""
    flat, features = _flat(gradient), gradient.shape[-1]
    sizes = [inputs[term.inputs[0]].shape[-1] for term in terms]
    starts = _starts([pl.cdiv(size, ROWS) for size in sizes])
    parts = pl.cdiv(flat.shape[0], MOST_TOKENS)
    grid = (pl.cdiv(features, _features_at_once(features)), starts[-1], parts)
    outputs = [jax.ShapeDtypeStruct((parts, starts[-1] * ROWS, features), jnp.float32)]
    back = {-distance: same for distance, same in _sames(_reversed(terms), sentences).items()}
    arguments = [[_flat(each) for each in inputs], flat, dropped, back]
    kernel = functools.partial(_weights_kernel, terms, starts, precision)
    (found,) = _call(kernel, "gradient_by_weights", outputs, grid, arguments, interpret)
    found = found.sum(0)
    return tuple(found[start * ROWS :][:size] for start, size in zip(starts, sizes, strict=False))


def _reversed(terms):
    return [term._replace(distance=-term.distance) for term in terms]


def _weights_kernel(terms, starts, precision, inputs, gradient, dropped, same, output):
    """Computes a block of rows and features, summed over one part of the tokens."""
    from jax.experimental.pallas import triton

    count, wide = gradient.shape[0], _features_at_once(gradient.shape[1])
    features = _Block.at(pl.program_id(0) * wide, wide, gradient.shape[1])
    number, part = pl.program_id(1), pl.program_id(2)
    steps = pl.cdiv(count, STEP * output.shape[0])
    dropped = _read(dropped)
    total = jnp.zeros((ROWS, wide), jnp.float32)
    for term, start, end in zip(terms, starts, starts[1:], strict=False):
        size = inputs[term.inputs[0]].shape[1]
        rows = _Block.at((number - start) * ROWS, ROWS, size)
        rows = rows._replace(there=rows.there & (rows.places >= 0))

        def add(step, total, term=term, rows=rows):
            tokens = _Block.at((part * steps + step) * STEP, STEP, count)
            left = _left(term, inputs, dropped, tokens, rows, 0)
            right = _load(gradient, tokens, features, -term.distance)
            if term.distance:
                counts = triton.load(same[term.distance].at[tokens.slice], mask=tokens.there, other=0)
                right = jnp.where(counts[:, None] > 0, right, 0.0)
            return total + triton.dot(left, right, trans_a=True, allow_tf32=precision != "highest")

        own_steps = jnp.where((number >= start) & (number < end), jnp.int32(steps), jnp.int32(0))
        total = jax.lax.fori_loop(jnp.int32(0), own_steps, add, total)
    rows = _Block.at(number * ROWS, ROWS, output.shape[1])
    mask = rows.there[:, None] & features.there[None]
    triton.store(output.at[part, rows.slice, features.slice], total, mask=mask)
