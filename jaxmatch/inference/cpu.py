"""Faster prediction on a CPU: work that is the same for every batch is done once.

For each shape of token rows

  1. operations on weights alone (slicing, transposing, adding and concatenating kernels) are computed once;
  2. products of word vectors and weights become lookups in a table with a row for each word, if memory suffices for it:
     without dropout, the product of a word's vector E and a weight W is the same in every sentence;
  3. the rest is compiled with options that suit small batches.

docs/cpu_inference.md describes what each of them saves and how to switch them off.
"""

import contextlib
import dataclasses
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from jaxmatch import devices
from jaxmatch.data.text import WordTable
from jaxmatch.layers.core import traced_for

# By default XLA computes most matrix products with the library YNNPACK, and uses vectors of 256 bits even on CPUs with
# vectors of 512. For small batches Eigen and 512 bits are faster; for a training step they are not
# (benchmarks/NOTES.md). https://docs.jax.dev/en/latest/201/controlling-xla.html describes such options.
OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "", "xla_cpu_prefer_vector_width": 512}

# The maximum size of the table of a model. A model whose table would be larger computes the products.
MAX_TABLE_BYTES = 2**30

# Primitives whose results are about as large as their arguments, so that hoisting them costs hardly any memory.
_HOISTED = frozenset(
    {"add", "concatenate", "convert_element_type", "neg", "reshape", "slice", "split", "squeeze", "transpose"}
)
# Primitives that keep the order of the numbers if the size stays the same. For a batch of one, JAX drops the batch axis
# before it multiplies.
_RESHAPES = ("reshape", "squeeze", "broadcast_in_dim")
# Dimension numbers of <float32>[tokens, dimensions] @ <float32>[dimensions, columns].
_MATRIX_PRODUCT = (((1,), (0,)), ((), ()))


@functools.cache
def compiler_options() -> dict[str, str | int]:
    """Returns options for `jax.jit`: those of `OPTIONS` that the installed compiler knows."""
    known = {}
    for name, value in OPTIONS.items():
        with contextlib.suppress(jax.errors.JaxRuntimeError):
            jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
            known[name] = value
    return known


@dataclasses.dataclass(frozen=True)
class SplitProgram:
    """A function in parts: `apply(prepare(weights), None, words, *inputs)` equals `function(weights, words, *inputs)`.

    Attributes:
      prepare: weights -> prepared weights. It is jitted.
      key: the jaxpr of `prepare` as text; programs with equal keys prepare equal weights.
      tabulated: the indices of the prepared weights whose products with word vectors can be looked up.
      make_table: prepared weights and word vectors -> <float32>[words, columns], these products. It is jitted.
      apply: prepared weights, the table, words and inputs -> the result of the function. If the table is None, the
        products are computed. It is not jitted.
    """

    prepare: Callable[[Any], list[jax.Array]]
    key: str
    tabulated: tuple[int, ...]
    make_table: Callable[[list[jax.Array], jax.Array], jax.Array]
    apply: Callable[..., Any]


def split(function: Callable[..., Any], weights: Any, words: Any, *inputs: Any) -> SplitProgram:
    """Takes the operations on weights alone, and products of word vectors and weights, out of a function.

    Arguments:
      function: a function that can be traced, draws no random numbers and has no side effects.
      weights, words, inputs: its arguments, or their shapes and dtypes (`jax.ShapeDtypeStruct`); the parts are for
        exactly these. The first array of `words` is the word vectors, <float32>[words, dimensions].
    """
    closed, result = jax.make_jaxpr(function, return_shape=True)(weights, words, *inputs)
    jaxpr, structure = closed.jaxpr, jax.tree.structure(result)
    count = len(jax.tree.leaves(weights))
    weight_variables, others = list(jaxpr.invars[:count]), list(jaxpr.invars[count:])
    known: set[Var] = set(weight_variables)  # the variables that depend on weights alone
    hoisted, remaining = [], []
    for equation in jaxpr.eqns:
        read = _variables(equation.invars)
        if equation.primitive.name in _HOISTED and read and known.issuperset(read):
            hoisted.append(equation)
            known.update(equation.outvars)
        else:
            remaining.append(equation)
    read = _variables(itertools.chain(*(equation.invars for equation in remaining), jaxpr.outvars))
    kept = [variable for variable in dict.fromkeys(read) if variable in known]
    first = ClosedJaxpr(jaxpr.replace(constvars=[], invars=weight_variables, outvars=kept, eqns=hoisted), [])

    def part(invars: list[Var], equations: list[JaxprEqn], outvars: Sequence[Any] = jaxpr.outvars) -> Callable:
        replaced = jaxpr.replace(invars=invars, eqns=equations, outvars=list(outvars))
        return jaxpr_as_fun(ClosedJaxpr(replaced, closed.consts))

    whole = part(kept + others, remaining)
    place, products = _word_products(remaining, kept, others[0])
    results = [remaining[index].outvars[0] for index in products]
    tabulated = tuple(kept.index(remaining[index].invars[1]) for index in products)
    ends = list(itertools.accumulate(variable.aval.shape[1] for variable in results))
    if products:
        lookup, multiply = remaining[place], remaining[products[0]]
        find_rows = part(kept + others, remaining[:place], [lookup.invars[1]])
        others_than_products = [equation for index, equation in enumerate(remaining) if index not in products]
        rest = part(kept + results + others, others_than_products)

    @jax.jit
    def prepare(weights: Any) -> list[jax.Array]:
        return jaxpr_as_fun(first)(*jax.tree.leaves(weights))

    @jax.jit
    def make_table(prepared: list[jax.Array], vectors: jax.Array) -> jax.Array:
        joined = jnp.concatenate([prepared[index] for index in tabulated], axis=1)
        return multiply.primitive.bind(vectors, joined, **multiply.params)

    def apply(prepared: list[jax.Array], table: jax.Array | None, words: Any, *inputs: Any) -> Any:
        arguments = jax.tree.leaves((words, *inputs))
        if table is None:
            return jax.tree.unflatten(structure, whole(*prepared, *arguments))
        (numbers,) = find_rows(*prepared, *arguments)
        rows = lookup.primitive.bind(table, numbers, **{**lookup.params, "slice_sizes": (1, ends[-1])})
        rows = jnp.split(rows.reshape(-1, ends[-1]), ends[:-1], axis=1)
        rows = jax.lax.optimization_barrier(rows)  # else XLA repeats the lookup for each reader
        return jax.tree.unflatten(structure, rest(*prepared, *rows, *arguments))

    return SplitProgram(prepare, str(first.jaxpr), tabulated, make_table, apply)


def _variables(atoms: Iterable[Any]) -> list[Var]:
    """Returns the atoms that are variables, without literals."""
    return [atom for atom in atoms if not isinstance(atom, Literal)]


def _word_products(equations: Sequence[JaxprEqn], weights: Sequence[Var], vectors: Var) -> tuple[int, list[int]]:
    """Returns the index of the first lookup of word vectors, and those of float32 products of its result and weights.

    All products have the same parameters (precision, type of the result), so that one product with the weights side by
    side computes them all.
    """
    tables, tokens, lookup, found = {vectors}, set(), -1, []
    for index, equation in enumerate(equations):
        name, read = equation.primitive.name, _variables(equation.invars)
        if len(read) < len(equation.invars) or not read or not equation.outvars:
            continue
        (source, *others), written = read, equation.outvars[0]
        if name == "stop_gradient" and source in tables:
            tables.add(written)
        elif name == "gather" and source in tables and lookup < 0 and _gathers_rows(equation):
            lookup = index
            tokens.add(written)
        elif name in _RESHAPES and source in tokens and _extents(written) == _extents(source):
            tokens.add(written)
        elif name == "dot_general" and source in tokens and others[0] in weights and _is_matrix_product(equation):
            found.append(index)
    return lookup, [index for index in found if equations[index].params == equations[found[0]].params]


def _extents(variable: Var) -> tuple[int, int]:
    """Returns the size of an array and the size of its last axis."""
    return variable.aval.size, variable.aval.shape[-1]


def _gathers_rows(lookup: JaxprEqn) -> bool:
    """Returns whether a gather reads whole rows of a table into the last axis of its result."""
    table, result, numbers = lookup.invars[0].aval, lookup.outvars[0].aval, lookup.params["dimension_numbers"]
    return (
        lookup.params["slice_sizes"] == (1, table.shape[1])
        and numbers.offset_dims == (result.ndim - 1,)
        and numbers.start_index_map == numbers.collapsed_slice_dims == (0,)
        and lookup.params["fill_value"] is None
    )


def _is_matrix_product(equation: JaxprEqn) -> bool:
    """Returns whether a `dot_general` is the product of two float32 matrices with a float32 result."""
    float32 = all(variable.aval.dtype == jnp.float32 for variable in (*equation.invars, *equation.outvars))
    return float32 and equation.params["dimension_numbers"] == _MATRIX_PRODUCT


class PreparedProgram(NamedTuple):
    """The jitted program for one shape of token rows, (weights, table, words, tokens, sentences) -> logits
    <float32>[batch, outputs], and its first two arguments.
    """

    predict: Callable[..., jax.Array]
    weights: list[jax.Array]
    table: jax.Array | None


# Threads may share a model, so only one of them prepares programs and tables at a time.
_prepare_lock = threading.Lock()


class Predictor:
    """A callable that predicts batches with the program of their shape.

    Nothing is computed before the first prediction. The module needs the method `match` (models/pair_model.py).

    Attributes:
      programs: (names of the token features, shape of the rows, signature of the words or None for the model's own
        words) -> program.
    """

    def __init__(self, module: nn.Module, params: Any, vectors: jax.Array):
        self._module, self._params, self._vectors = module, params, vectors
        self.programs: dict[tuple, PreparedProgram] = {}
        self._weights: dict[str, list[jax.Array]] = {}
        self._tables: dict[str, jax.Array] = {}

    def __call__(self, words: jax.Array | WordTable, tokens: dict[str, jax.Array], sentences: jax.Array) -> jax.Array:
        """Computes the logits of the rows of `InferenceModel.inputs`, <float32>[batch, outputs].

        Products are looked up only if the vectors of the words are the model's own.
        """
        program = self.program(words, tokens, sentences)
        return program.predict(program.weights, program.table, words, tokens, sentences)

    def program(self, words: jax.Array | WordTable, tokens: Mapping[str, Any], sentences: Any) -> PreparedProgram:
        """Returns the program for a batch of this shape, and prepares it if the shape is new."""
        own = (words.vectors if isinstance(words, WordTable) else words) is self._vectors
        key = tuple(tokens), sentences.shape, None if own else _signature(words)
        program = self.programs.get(key)
        if program is None:
            with _prepare_lock:
                program = self.programs.get(key) or self._new_program(key, words, own)
        return program

    def _new_program(self, key: tuple, words: jax.Array | WordTable, own: bool) -> PreparedProgram:
        if devices.mappings_are_scarce():
            jax.clear_caches()
            _program.cache_clear()
            self.programs.clear()  # else they compile again without a check of the memory mappings
        parts, predict = _program(self._module, _signature(self._params), _signature(words), *key[:2])
        if parts.key not in self._weights:  # one copy of the weights for all shapes
            self._weights[parts.key] = parts.prepare(self._params)
        weights, table = self._weights[parts.key], parts.key + str(parts.tabulated)
        columns = sum(weights[index].shape[1] for index in parts.tabulated)
        if own and table not in self._tables and 0 < 4 * columns * len(self._vectors) <= MAX_TABLE_BYTES:
            self._tables[table] = parts.make_table(weights, self._vectors)
        self.programs[key] = PreparedProgram(predict, weights, self._tables.get(table) if own else None)
        return self.programs[key]


@functools.cache
def _program(
    module: nn.Module, params: tuple, words: tuple, names: tuple[str, ...], shape: tuple[int, int]
) -> tuple[SplitProgram, Callable[..., jax.Array]]:
    """Returns the parts of a program for rows of one shape, and its jitted `apply`; models of equal structure share it.

    `params` and `words` are signatures, `names` those of the token features.
    """

    def match(params: Any, words: Any, tokens: dict[str, jax.Array], sentences: jax.Array) -> jax.Array:
        with traced_for("cpu"):
            return module.apply({"params": params}, tokens, sentences, words, method="match")

    tokens = {name: jax.ShapeDtypeStruct(shape, np.int32) for name in names}
    arguments = jax.tree.unflatten(*params), jax.tree.unflatten(*words), tokens, jax.ShapeDtypeStruct(shape, np.int8)
    parts = split(match, *arguments)
    return parts, jax.jit(parts.apply, compiler_options=compiler_options())


def _signature(tree: Any) -> tuple[Any, tuple[jax.ShapeDtypeStruct, ...]]:
    """Returns the structure of a tree of arrays, and their shapes and dtypes: hashable arguments of `unflatten`."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves)
