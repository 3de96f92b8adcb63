"""Faster prediction on a CPU, by programs that do not repeat the work that is the same for every batch.

For each shape of token rows

  1. operations on weights alone (slicing, transposing, adding and concatenating kernels) are hoisted out of the program
     and computed once;
  2. products of word vectors and weights become lookups in a table with a row for each word, if memory suffices for it:
     without dropout, the product of a word's vector E and a weight W is the same in every sentence, and if attention A
     mixes the words, (A E) W = A (E W);
  3. the rest is compiled with options that suit small batches.

Other files use `prepare` only. docs/cpu_inference.md describes what each optimization saves and how to switch it off.
"""

import dataclasses
import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var, jaxpr_as_fun

from jaxmatch import devices
from jaxmatch.data.text import WordTable
from jaxmatch.layers.core import traced_for

# By default XLA computes most matrix products with the library YNNPACK, and uses vectors of 256 bits even on CPUs with
# vectors of 512. For small batches Eigen and 512 bits are faster; for a training step they are not
# (benchmarks/NOTES.md).
# https://docs.jax.dev/en/latest/201/controlling-xla.html describes such options.
OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": "", "xla_cpu_prefer_vector_width": 512}


@functools.cache
def compiler_options() -> dict[str, str | int]:
    """Returns options for `jax.jit`: those of `OPTIONS` that the installed compiler knows."""
    return {name: value for name, value in OPTIONS.items() if _is_known({name: value})}


def _is_known(options: dict[str, str | int]) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options=options).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


# Primitives whose results are about as large as their arguments, so that hoisting them costs hardly any memory.
_HOISTED = frozenset(
    {"add", "concatenate", "convert_element_type", "neg", "reshape", "slice", "split", "squeeze", "transpose"}
)


@dataclasses.dataclass(frozen=True)
class HoistedProgram:
    """A function in two parts: `apply(prepare(weights), *inputs)` equals `function(weights, *inputs)`.

    Attributes:
      prepare: weights -> prepared weights.
      apply: prepared weights and inputs -> the result of the function.
      key: the jaxpr of `prepare` as text. Programs with equal keys prepare the same weights in the same way.
    """

    prepare: Callable[[Any], list[jax.Array]]
    apply: Callable[..., Any]
    key: str


def hoist(function: Callable[..., Any], weights: Any, *inputs: Any) -> HoistedProgram:
    """Hoists the operations on weights alone out of `function(weights, *inputs)`.

    Arguments:
      function: a function that can be traced, draws no random numbers and has no side effects.
      weights, inputs: the arguments of the function, or their shapes and dtypes (`jax.ShapeDtypeStruct`).

    Returns:
      Both parts, for arguments of exactly these shapes and dtypes. `prepare` is jitted, `apply` is not.
    """
    closed, result = jax.make_jaxpr(function, return_shape=True)(weights, *inputs)
    jaxpr = closed.jaxpr
    count = len(jax.tree.leaves(weights))
    weight_variables, input_variables = list(jaxpr.invars[:count]), list(jaxpr.invars[count:])
    known: set[Var] = set(weight_variables)  # the variables that depend on weights alone
    hoisted, remaining = [], []
    for equation in jaxpr.eqns:
        arguments = variables(equation.invars)
        if equation.primitive.name in _HOISTED and arguments and known.issuperset(arguments):
            hoisted.append(equation)
            known.update(equation.outvars)
        else:
            remaining.append(equation)
    read = variables([variable for equation in remaining for variable in equation.invars] + list(jaxpr.outvars))
    kept = [variable for variable in dict.fromkeys(read) if variable in known]
    first = ClosedJaxpr(jaxpr.replace(constvars=[], invars=weight_variables, outvars=kept, eqns=hoisted), [])
    second = ClosedJaxpr(jaxpr.replace(invars=kept + input_variables, eqns=remaining), closed.consts)
    structure = jax.tree.structure(result)

    @jax.jit
    def prepare(weights: Any) -> list[jax.Array]:
        return jaxpr_as_fun(first)(*jax.tree.leaves(weights))

    def apply(prepared: list[jax.Array], *inputs: Any) -> Any:
        return jax.tree.unflatten(structure, jaxpr_as_fun(second)(*prepared, *jax.tree.leaves(inputs)))

    return HoistedProgram(prepare, apply, str(first.jaxpr))


Values = dict[Var, jax.Array]


class RewrittenJaxpr:
    """A jaxpr in which given functions compute some of the equations.

    Arguments:
      closed: the jaxpr.
      replaced: the indices of the equations to replace. Each equation has one result.
    """

    def __init__(self, closed: ClosedJaxpr, replaced: Iterable[int]):
        self._closed, self._segments = closed, []
        jaxpr, start = closed.jaxpr, 0
        for index in (*sorted(replaced), len(jaxpr.eqns)):
            self._segments.append((index, jaxpr.eqns[start:index]))
            start = index + 1
        # Segments are built from the last to the first, since each returns the variables that are read after it.
        read = set(variables(jaxpr.outvars))
        for number, (index, equations) in reversed(list(enumerate(self._segments))):
            if index < len(jaxpr.eqns):
                read.update(variables(jaxpr.eqns[index].invars))
            segment = _Segment(jaxpr, equations, read)
            read.update(segment.reads)
            self._segments[number] = index, segment

    def __call__(
        self, arguments: Sequence[jax.Array], replacements: Mapping[int, Callable[[Values], jax.Array]]
    ) -> list[Any]:
        """Evaluates the jaxpr.

        Arguments:
          arguments: the arguments of the jaxpr.
          replacements: index of a replaced equation -> a function of the values known so far that returns the
            equation's result. The function is looked up when the equation is reached, so a replacement may add the
            functions of later equations.

        Returns:
          The results of the jaxpr.
        """
        jaxpr = self._closed.jaxpr
        values = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*self._closed.consts, *arguments), strict=True))
        for index, segment in self._segments:
            values |= segment(values)
            if index < len(jaxpr.eqns):
                values[jaxpr.eqns[index].outvars[0]] = replacements[index](values)
        return [atom.val if isinstance(atom, Literal) else values[atom] for atom in jaxpr.outvars]


class _Segment:
    """Consecutive equations as a function of the variables they read; `wanted`: the variables that are read later."""

    def __init__(self, jaxpr: Any, equations: Sequence[JaxprEqn], wanted: set[Var]):
        written = dict.fromkeys(variable for equation in equations for variable in equation.outvars)
        read = dict.fromkeys(variables(atom for equation in equations for atom in equation.invars))
        self.reads = [variable for variable in read if variable not in written]
        self._returns = [variable for variable in written if variable in wanted]
        segment = jaxpr.replace(constvars=[], invars=self.reads, outvars=self._returns, eqns=list(equations))
        self._function = jaxpr_as_fun(ClosedJaxpr(segment, []))

    def __call__(self, values: Values) -> Values:
        return dict(zip(self._returns, self._function(*(values[variable] for variable in self.reads)), strict=True))


def variables(atoms: Iterable[Any]) -> list[Var]:
    """Returns the atoms that are variables, without literals."""
    return [atom for atom in atoms if not isinstance(atom, Literal)]


# Dimension numbers of <float32>[tokens, dimensions] @ <float32>[dimensions, columns].
_MATRIX_PRODUCT = (((1,), (0,)), ((), ()))
# Dimension numbers of <float32>[batch, length, tokens] @ <float32>[batch, tokens, dimensions].
_BATCHED_PRODUCT = (((2,), (1,)), ((0,), (0,)))
# Primitives that keep the order of the numbers if the size stays the same. For a batch of one, JAX drops the batch axis
# before it multiplies.
_RESHAPES = ("reshape", "squeeze", "broadcast_in_dim")


@dataclasses.dataclass(frozen=True)
class WordProduct:
    """An equation E W or (A E) W of token vectors E, attention weights A and a whole weight W, all float32.

    Attributes:
      equation: the index of the equation.
      attended: the index of the equation that computes A E; None for E W.
      weight: the index of W among the weights.
      columns: the number of columns of W.
    """

    equation: int
    attended: int | None
    weight: int
    columns: int


def find_word_products(jaxpr: Jaxpr, weights: int) -> tuple[int, list[WordProduct]]:
    """Finds the first lookup of word vectors and the products of its result.

    Arguments:
      jaxpr: the jaxpr. Its first arguments are the weights, and the next argument is the table of word vectors.
      weights: the number of weights.

    Returns:
      The index of the lookup, and the products. All products have the same parameters (precision, type of the result),
      so that one product with the weights side by side computes them all.
    """
    index_of = {variable: index for index, variable in enumerate(jaxpr.invars[:weights])}
    tables = {jaxpr.invars[weights]}
    attended: dict[Var, int | None] = {}  # variable -> None if it is E, the equation's index if it is A E
    lookup, found = -1, []
    for index, equation in enumerate(jaxpr.eqns):
        name, read = equation.primitive.name, _arguments(equation)
        if not read or not equation.outvars:
            continue
        written = equation.outvars[0]
        if name == "stop_gradient" and read[0] in tables:
            tables.add(written)
        elif name == "gather" and read[0] in tables and lookup < 0 and _gathers_rows(equation):
            lookup, attended[written] = index, None
        elif name in _RESHAPES and read[0] in attended and _extents(written) == _extents(read[0]):
            attended[written] = attended[read[0]]
        elif (
            name == "dot_general"
            and attended.get(read[-1], -1) is None
            and _is_product(equation, _BATCHED_PRODUCT, _MATRIX_PRODUCT)
        ):
            attended[written] = index
        elif (
            name == "dot_general"
            and read[0] in attended
            and read[-1] in index_of
            and _is_product(equation, _MATRIX_PRODUCT)
        ):
            found.append(WordProduct(index, attended[read[0]], index_of[read[-1]], written.aval.shape[1]))
    parameters = jaxpr.eqns[found[0].equation].params if found else None
    return lookup, [product for product in found if jaxpr.eqns[product.equation].params == parameters]


def _arguments(equation: JaxprEqn) -> list[Var]:
    """Returns the variables that an equation reads; no variables if it also reads a literal."""
    return [] if any(isinstance(atom, Literal) for atom in equation.invars) else list(equation.invars)


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


def _is_product(equation: JaxprEqn, *dimension_numbers: tuple) -> bool:
    """Returns whether a `dot_general` has float32 factors, a float32 result and one of these dimension numbers."""
    float32 = all(variable.aval.dtype == jnp.float32 for variable in (*equation.invars, *equation.outvars))
    return float32 and equation.params["dimension_numbers"] in dimension_numbers


@dataclasses.dataclass(frozen=True)
class TabulatedProgram:
    """A function in two parts: one that makes a table of products, and one that looks them up.

    `apply(weights, make_table(weights, vectors), words, *inputs)` equals `function(weights, words, *inputs)`.

    Attributes:
      columns: the number of columns of the table.
      make_table: weights and word vectors -> <float32>[words, columns].
      apply: weights, the table, words and inputs -> the result of the function.
      weights: the indices of the weights whose products are in the table. Programs with the same indices can share a
        table.
    """

    columns: int
    make_table: Callable[[list[jax.Array], jax.Array], jax.Array]
    apply: Callable[..., Any]
    weights: tuple[int, ...]


def tabulate(function: Callable[..., Any], weights: list[Any], words: Any, *inputs: Any) -> TabulatedProgram | None:
    """Moves the products E W and (A E) W of a function to a table, if they are float32 products with a whole weight.

    Arguments:
      function: a function that can be traced, draws no random numbers and has no side effects.
      weights: the first argument of the function: arrays, or their shapes and dtypes (`jax.ShapeDtypeStruct`).
      words: the second argument: a tree of arrays, of which the first is the word vectors, <float32>[words,
        dimensions].
      inputs: the other arguments.

    Returns:
      Both parts, for arguments of exactly these shapes and dtypes. `make_table` is jitted, `apply` is not. None if the
      function has no such product.
    """
    closed, result = jax.make_jaxpr(function, return_shape=True)(weights, words, *inputs)
    equations, structure = closed.jaxpr.eqns, jax.tree.structure(result)
    lookup_index, found = find_word_products(closed.jaxpr, len(weights))
    if not found:
        return None
    groups = _groups(found, equations)
    ends = list(itertools.accumulate(group.columns for group in groups))
    used = tuple(product.weight for group in groups for product in group.products)
    lookup, multiply = equations[lookup_index], equations[found[0].equation]
    rewritten = RewrittenJaxpr(closed, [lookup_index, *(index for group in groups for index in group.replaced)])

    @jax.jit
    def make_table(weights: list[jax.Array], vectors: jax.Array) -> jax.Array:
        joined = jnp.concatenate([weights[index] for index in used], axis=1)
        return multiply.primitive.bind(vectors, joined, **multiply.params)

    def apply(weights: list[jax.Array], table: jax.Array, words: Any, *inputs: Any) -> Any:
        replacements: dict[int, Callable[[Values], jax.Array]] = {}

        def look_up(values: Values) -> jax.Array:
            vectors, ids = (values[variable] for variable in lookup.invars)
            rows = lookup.primitive.bind(table, ids, **{**lookup.params, "slice_sizes": (1, ends[-1])})
            rows = jnp.split(rows.reshape(-1, ends[-1]), ends[:-1], axis=1)
            rows = jax.lax.optimization_barrier(rows)  # else XLA repeats the lookup for each reader
            for group, products in zip(groups, rows, strict=True):
                replacements.update(group.replacements(products))
            return lookup.primitive.bind(vectors, ids, **lookup.params)

        replacements[lookup_index] = look_up
        return jax.tree.unflatten(structure, rewritten([*weights, *jax.tree.leaves((words, *inputs))], replacements))

    return TabulatedProgram(ends[-1], make_table, apply, used)


@dataclasses.dataclass(frozen=True)
class _Group:
    """Products that are adjacent in the table: one product E W, or all products (A E) W of one A E.

    Attributes:
      products: the products in the order of their columns.
      attend: the equation that computes A E; None for E W.
    """

    products: tuple[WordProduct, ...]
    attend: JaxprEqn | None

    @property
    def columns(self) -> int:
        return sum(product.columns for product in self.products)

    @property
    def replaced(self) -> list[int]:
        """The indices of the equations to replace."""
        own = [product.equation for product in self.products]
        if self.attend is None:
            return own
        *_, tokens, dimensions = self.attend.invars[1].aval.shape
        # A (E W) is less work than (A E) W if there are fewer tokens than dimensions.
        return [self.products[0].attended, *own] if tokens < dimensions else []

    def replacements(self, products: jax.Array) -> dict[int, Callable[[Values], jax.Array]]:
        """Returns index of an equation -> a function that computes it from `products`.

        Arguments:
          products: E W of the whole group, <float32>[tokens, columns].
        """
        if self.attend is None:
            return {self.products[0].equation: lambda values: products}
        attended: list[jax.Array] = []  # A (E W) of the whole group, once A is known

        def attend(values: Values) -> jax.Array:
            attention, vectors = (values[variable] for variable in self.attend.invars)
            by_row = products.reshape(*vectors.shape[:-1], self.columns)
            attended.append(
                self.attend.primitive.bind(attention, by_row, **self.attend.params).reshape(-1, self.columns)
            )
            return self.attend.primitive.bind(attention, vectors, **self.attend.params)

        def product_in(columns: slice, values: Values) -> jax.Array:
            return attended[0][:, columns]

        ends = itertools.accumulate(product.columns for product in self.products)
        by_equation = {
            product.equation: functools.partial(product_in, slice(end - product.columns, end))
            for product, end in zip(self.products, ends, strict=True)
        }
        return {self.products[0].attended: attend} | by_equation


def _groups(products: list[WordProduct], equations: Sequence[JaxprEqn]) -> list[_Group]:
    """Groups products: all products of the same A E are one group, and each product E W is a group of its own."""
    together: dict[Any, list[WordProduct]] = {}
    for product in products:
        together.setdefault(product if product.attended is None else product.attended, []).append(product)
    return [
        _Group(tuple(group), None if group[0].attended is None else equations[group[0].attended])
        for group in together.values()
    ]


# The maximum size of the tables of all models of a process together. A model whose table does not fit computes the
# products.
MAX_TABLE_BYTES = 2**30

# Threads may share a model, so only one of them prepares programs and tables at a time.
_prepare_lock = threading.RLock()


def prepare(module: nn.Module, params: Any, vectors: jax.Array) -> "Predictor":
    """Prepares a model for predictions on a CPU.

    Nothing is computed before the first prediction.

    Arguments:
      module: the model. It needs the method `match` (models/pair_model.py).
      params: the parameters of the model.
      vectors: <float32>[words, dimensions], the word vectors of the model.

    Returns:
      A function (words, tokens, sentences) -> logits <float32>[batch, outputs]; see `Predictor.__call__`.
    """
    return Predictor(module, params, vectors)


class PreparedProgram(NamedTuple):
    """A program for one shape of token rows, and two of its arguments.

    Attributes:
      predict: (weights, table, words, tokens, sentences) -> logits <float32>[batch, outputs]; it is jitted.
      weights: the prepared weights.
      table: <float32>[words, columns], the products of word vectors; None if the program computes these products.
    """

    predict: Callable[..., jax.Array]
    weights: list[jax.Array]
    table: jax.Array | None


class Predictor:
    """A callable that predicts batches with the program of their shape; `prepare` returns it.

    Attributes:
      programs: (names of the token features, shape of the rows, signature of the words or None for the model's own
        words) -> program.
    """

    def __init__(self, module: nn.Module, params: Any, vectors: jax.Array):
        self._module, self._params, self._vectors = module, params, vectors
        self.programs: dict[tuple, PreparedProgram] = {}
        self._weights: dict[str, list[jax.Array]] = {}
        self._tables: dict[tuple, _Table] = {}

    def __call__(self, words: jax.Array | WordTable, tokens: dict[str, jax.Array], sentences: jax.Array) -> jax.Array:
        """Predicts a batch.

        Arguments:
          words: the table that the ids index. Products are looked up only if its vectors are the model's own.
          tokens: 'ids' and the other features of the tokens, each <int32>[batch, length].
          sentences: <int8>[batch, length], the sentence of a token, 1 or 2; 0 is padding.

        Returns:
          The logits, <float32>[batch, outputs].
        """
        program = self.program(words, tokens, sentences)
        return program.predict(program.weights, program.table, words, tokens, sentences)

    def program(
        self, words: jax.Array | WordTable, tokens: dict[str, jax.Array], sentences: jax.Array
    ) -> PreparedProgram:
        """Returns the program for a batch of this shape, and prepares it if the shape is new."""
        own = (words.vectors if isinstance(words, WordTable) else words) is self._vectors
        key = tuple(sorted(tokens)), sentences.shape, None if own else _Signature.of(words)
        program = self.programs.get(key)
        if program is None:
            with _prepare_lock:
                program = self.programs.get(key) or self._new_program(key, words, own)
        return program

    def _new_program(self, key: tuple, words: jax.Array | WordTable, own: bool) -> PreparedProgram:
        if devices.clear_programs_if_scarce():
            _program.cache_clear()
            self.programs.clear()  # else they compile again without a check of the memory mappings
        self.programs[key] = self._prepared(*key[:2], words, own)
        return self.programs[key]

    def _prepared(
        self, names: tuple[str, ...], shape: tuple[int, int], words: jax.Array | WordTable, own: bool
    ) -> PreparedProgram:
        signature = self._module, _Signature.of(self._params), _Signature.of(words), names, shape
        program = _program(*signature, tabulated=own)
        if program.tabulated and not self._fits(program):
            program = _program(*signature, tabulated=False)
        key = program.hoisted.key
        if key not in self._weights:  # one copy of the weights for all shapes
            self._weights[key] = program.hoisted.prepare(self._params)
        return PreparedProgram(program.predict, self._weights[key], self._table(program))

    def _fits(self, program: "_Program") -> bool:
        """Returns whether the table of a program exists, or fits into the memory that is left for tables."""
        size = 4 * program.tabulated.columns * self._vectors.shape[0]
        return program.table_key in self._tables or table_bytes() + size <= MAX_TABLE_BYTES

    def _table(self, program: "_Program") -> jax.Array | None:
        """Returns the table of a program, which the programs of a model share."""
        if program.tabulated is None:
            return None
        key = program.table_key
        if key not in self._tables:
            self._tables[key] = _Table(program.tabulated.make_table(self._weights[program.hoisted.key], self._vectors))
        return self._tables[key].products


@dataclasses.dataclass(frozen=True)
class _Program:
    """The program for rows of one shape; models of the same structure share it."""

    hoisted: HoistedProgram
    tabulated: TabulatedProgram | None
    predict: Callable[..., jax.Array]

    @property
    def table_key(self) -> tuple:
        """The key of the table: programs with equal keys compute equal tables from the same weights."""
        return self.hoisted.key, self.tabulated.weights


@functools.cache
def _program(
    module: nn.Module,
    params: "_Signature",
    words: "_Signature",
    names: tuple[str, ...],
    shape: tuple[int, int],
    *,
    tabulated: bool,
) -> _Program:
    """Traces and splits a program. If `tabulated`, it looks up products in a table, if the model has such products."""
    jit = functools.partial(jax.jit, compiler_options=compiler_options())
    tokens = {name: jax.ShapeDtypeStruct(shape, np.int32) for name in names}
    sentences = jax.ShapeDtypeStruct(shape, np.int8)

    def match(params: Any, words: Any, tokens: dict[str, jax.Array], sentences: jax.Array) -> jax.Array:
        with traced_for("cpu"):
            return module.apply({"params": params}, tokens, sentences, words, method="match")

    hoisted = hoist(match, params.tree(), words.tree(), tokens, sentences)
    if tabulated:
        weights = jax.eval_shape(hoisted.prepare, params.tree())
        found = tabulate(hoisted.apply, weights, words.tree(), tokens, sentences)
        if found is not None:
            return _Program(hoisted, found, jit(found.apply))
    return _Program(hoisted, None, jit(lambda weights, table, *inputs: hoisted.apply(weights, *inputs)))


@dataclasses.dataclass(frozen=True)
class _Signature:
    """The shapes and dtypes of a tree of arrays, as a hashable value."""

    structure: Any
    leaves: tuple[jax.ShapeDtypeStruct, ...]

    @classmethod
    def of(cls, tree: Any) -> Self:
        leaves, structure = jax.tree.flatten(tree)
        return cls(structure, tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves))

    def tree(self) -> Any:
        return jax.tree.unflatten(self.structure, self.leaves)


@dataclasses.dataclass(eq=False)
class _Table:
    """Products of word vectors, <float32>[words, columns]. `table_bytes` counts a table as long as a model holds it."""

    products: jax.Array

    def __post_init__(self):
        _live_tables.add(self)


_live_tables: weakref.WeakSet[_Table] = weakref.WeakSet()


def table_bytes() -> int:
    """Returns the total size in bytes of the tables of all models in this process."""
    return sum(table.products.nbytes for table in _live_tables)
