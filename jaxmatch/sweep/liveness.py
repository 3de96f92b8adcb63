"""Estimates of the peak memory of a program from its jaxpr, without compiling or running it.

XLA fuses element-wise operations into their users, so only some values are written to memory: results and factors of
matrix products, gathered rows, reductions, concatenations, and the outputs. Such a value stays until its last use,
direct or through element-wise operations.
"""

from typing import Any

_WRITTEN = frozenset(
    (
        "dot_general gather scatter scatter-add concatenate reduce_sum reduce_max reduce_min argmax argmin cumsum sort "
        "scan while cond"
    ).split()
)
_VIEWS = frozenset({"transpose", "reshape", "squeeze"})
# Equations that only wrap a program.
_WRAPPERS = frozenset(
    "pjit jit closed_call custom_jvp_call custom_vjp_call custom_vjp_call_jaxpr remat checkpoint".split()
)


class _Trace:
    """The equations of a program, with those of inner programs inlined.

    Attributes:
      equations: (name, values used, values made), in order. A value is identified by a number.
      size: value -> bytes.
    """

    def __init__(self, program: Any, least_item_bytes: int):
        self._least_item_bytes = least_item_bytes
        self.equations: list[tuple[str, list[int], list[int]]] = []
        self.size: dict[int, int] = {}
        values = {id(variable): self._new(variable) for variable in program.invars}
        self.inputs = frozenset(values.values())
        self._add(program, values)
        self.outputs = frozenset(values[id(variable)] for variable in program.outvars if id(variable) in values)

    def _new(self, variable: Any) -> int:
        number, shaped = len(self.size), variable.aval
        item = max(getattr(shaped.dtype, "itemsize", 0), self._least_item_bytes) if shaped.size > 1 else 0
        self.size[number] = shaped.size * item
        return number

    def _add(self, program: Any, values: dict[int, int]) -> None:
        """Appends a program. `values` holds the values of its variables so far; literals have no values."""
        for equation in program.eqns:
            name = equation.primitive.name
            used = [values.get(id(variable)) for variable in equation.invars]
            inner = [part for part in equation.params.values() if hasattr(part, "eqns")] if name in _WRAPPERS else []
            if inner:
                wrapped = getattr(inner[0], "jaxpr", inner[0])
                known = {
                    id(variable): value
                    for variable, value in zip(wrapped.invars, used, strict=True)
                    if value is not None
                }
                self._add(wrapped, known)
                made = [known.get(id(variable)) for variable in wrapped.outvars]
                values.update(
                    {id(var): value for var, value in zip(equation.outvars, made, strict=True) if value is not None}
                )
            else:
                values.update({id(variable): self._new(variable) for variable in equation.outvars})
                made = [values[id(variable)] for variable in equation.outvars]
                self.equations.append((name, [value for value in used if value is not None], made))


def peak_bytes(program: Any, least_item_bytes: int = 4) -> int:
    """Returns the peak number of bytes of written values during a program, without its arguments.

    Arguments:
      program: the `jaxpr` of `jax.make_jaxpr`.
      least_item_bytes: the size that smaller numbers count as, because a CPU widens half floats to float32.
    """
    trace = _Trace(program, least_item_bytes)
    written = _written(trace) - trace.inputs
    # value -> the written values it is computed from element by element. A written value maps to itself.
    origins: dict[int, frozenset[int]] = {}
    born, last = {}, dict.fromkeys(trace.outputs, len(trace.equations))
    for time, (_, used, made) in enumerate(trace.equations):
        needed = frozenset().union(*(origins.get(value, frozenset()) for value in used))
        last.update({value: max(time, last.get(value, 0)) for value in needed})
        for value in made:
            origins[value] = frozenset({value}) if value in written else needed
            if value in written:
                born[value] = time
    change = [0] * (len(trace.equations) + 2)
    for value, time in born.items():
        change[time] += trace.size[value]
        change[max(last.get(value, time), time) + 1] -= trace.size[value]
    held = most = 0
    for difference in change:
        held += difference
        most = max(most, held)
    return most


def _written(trace: _Trace) -> frozenset[int]:
    """Returns the values that are written to memory."""
    maker = {value: (name, used) for name, used, made in trace.equations for value in made}
    found = set(trace.outputs)
    for name, used, made in trace.equations:
        if name in _WRITTEN:
            found.update(made)
        for value in used if name == "dot_general" else ():
            while value in maker and maker[value][0] in _VIEWS and maker[value][1]:
                value = maker[value][1][0]  # a product reads a transposed matrix in place
            found.add(value)
    return frozenset(found)
