"""The work of a compiled program, read from its text: kernels and the bytes that they move."""

import dataclasses
import math
import re
from collections.abc import Mapping

_BITS = {"pred": 8, "token": 0, "opaque": 0}
_ARRAY = re.compile(r"\b([a-z]+[0-9]*(?:e[0-9]m[0-9][a-z]*)?)\[([0-9,]*)\](\{[^}]*\})?")
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
# Operations that move nothing. They are names for arrays that exist already.
_FREE = {
    "parameter",
    "constant",
    "tuple",
    "get-tuple-element",
    "bitcast",
    "after-all",
    "partition-id",
    "replica-id",
    "opt-barrier",
    "async-done",
    "fusion-done",
    "copy-done",
    "slice-done",
}
# A gather reads rows of a table, not the whole table, so an operand counts at most this many times the result.
MOST_READ = 8


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of a computation: its opcode, the bytes of its result, its operands, and the text after the opcode."""

    opcode: str
    size: int
    operands: tuple[str, ...]
    rest: str


@dataclasses.dataclass
class Work:
    """The cost of running a program, apart from arithmetic.

    Attributes:
      kernels: the number of kernels that are started. A kernel in a loop counts once for each iteration, or once if
        their number is unknown. Of the branches of a conditional, only the one that moves most counts.
      in_loops: the number of these kernels that are inside loops.
      moved: the bytes of their operands and results. An operand counts at most `MOST_READ` times the result. If an
        array is sliced, or updated in place, only the slice counts.
    """

    kernels: int = 0
    in_loops: int = 0
    moved: float = 0.0

    def add(self, other: "Work", times: int = 1, in_loop: bool = False) -> None:
        self.kernels += times * other.kernels
        self.in_loops += times * (other.kernels if in_loop else other.in_loops)
        self.moved += times * other.moved


def array_bytes(text: str) -> int:
    """Returns the bytes of all arrays that a type names, without padding."""
    return (
        sum(
            math.prod(map(int, filter(None, extents.split(",")))) * _bits(kind)
            for kind, extents, _ in _ARRAY.findall(text)
        )
        // 8
    )


def _bits(kind: str) -> int:
    return _BITS.get(kind) if kind in _BITS else int(re.search(r"\d+", kind).group())


def computations(text: str) -> tuple[dict[str, dict[str, Instruction]], str]:
    """Returns the computations of a module, name -> instructions by name, and the name of its entry computation."""
    found: dict[str, dict[str, Instruction]] = {}
    entry, body = "", None
    for line in text.splitlines():
        if head := _COMPUTATION.match(line):
            body = found.setdefault(head.group(2), {})
            entry = head.group(2) if head.group(1) else entry
        elif body is not None and (match := _INSTRUCTION.match(line)):
            body[match.group(1)] = _instruction(match.group(2))
    return found, entry


def _instruction(text: str) -> Instruction:
    """Parses `TYPE opcode(operands), attributes`. The type may contain parentheses of its own."""
    end = _closing(text, 0) + 1 if text.startswith("(") else text.index(" ")
    kind, call = text[:end], text[end:].lstrip()
    opcode, _, _ = call.partition("(")
    start = len(opcode)
    close = _closing(call, start)
    operands = tuple(re.findall(r"%([\w.\-]+)", call[start:close]))
    if "__cublas" in call:  # the last result of cuBLAS is a workspace
        kind = re.sub(r",\s*s8\[[0-9]*\](\{[^}]*\})?\)$", ")", kind)
    return Instruction(opcode, array_bytes(kind), operands, call[start:])


def _closing(text: str, start: int) -> int:
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError(f"no closing parenthesis in {text[:80]!r}")


def work(text: str) -> Work:
    """Returns the work of a module, from its text after compilation."""
    found, entry = computations(text)
    return _work(found, entry, {})


def _work(found: Mapping[str, Mapping[str, Instruction]], name: str, known: dict[str, Work]) -> Work:
    if name in known:
        return known[name]
    total = Work()
    for instruction in found[name].values():
        opcode = instruction.opcode
        if opcode == "while":
            trips = _TRIPS.search(instruction.rest)
            body = re.search(r"body=%?([\w.\-]+)", instruction.rest).group(1)
            total.add(_work(found, body, known), int(trips.group(1)) if trips else 1, in_loop=True)
        elif opcode == "conditional":
            branches = [_work(found, branch, known) for branch in _branches(instruction.rest)]
            total.add(max(branches, key=lambda branch: branch.moved))
        elif opcode in ("call", "async-start"):
            for called in re.findall(r"(?:to_apply|calls)=\{?%?([\w.\-]+)", instruction.rest):
                total.add(_work(found, called, known))
        elif opcode not in _FREE:
            total.add(Work(1, 0, _moved(found, found[name], instruction)))
    known[name] = total
    return total


def _branches(rest: str) -> list[str]:
    """Returns the computations that a conditional chooses from. A conditional has one of two forms."""
    if several := re.search(r"branch_computations=\{([^}]*)\}", rest):
        return re.findall(r"[\w.\-]+", several.group(1))
    return re.findall(r"(?:true|false)_computation=%?([\w.\-]+)", rest)


def _moved(found: Mapping[str, Mapping[str, Instruction]], body: Mapping[str, Instruction], kernel: Instruction) -> int:
    """Returns the bytes that a kernel reads and writes."""
    written, read = kernel.size, [body[operand].size if operand in body else 0 for operand in kernel.operands]
    if kernel.opcode in ("fusion", "fusion-start"):
        inside = found[re.search(r"calls=%?([\w.\-]+)", kernel.rest).group(1)]
        updates = _updates(inside)
        written = inside[next(reversed(inside))].size  # the type of a start also names its operands
        written -= sum(update.size - inside[update.operands[1]].size for update in updates)
        names = {
            int(re.match(r"\((\d+)", one.rest).group(1)): name
            for name, one in inside.items()
            if one.opcode == "parameter"
        }
        read = [_read(inside, names[number], size, updates) for number, size in enumerate(read)]
    return written + sum(min(size, MOST_READ * written) if written else size for size in read)


def _updates(inside: Mapping[str, Instruction]) -> list[Instruction]:
    """Returns the in-place updates of a fused computation. They update a part of a parameter, and their result is a
    result of the computation.
    """
    last = inside[next(reversed(inside))]
    ends = [inside[name] for name in last.operands] if last.opcode == "tuple" else [last]
    ends = [inside[end.operands[0]] if end.opcode == "bitcast" else end for end in ends]
    return [
        end for end in ends if end.opcode == "dynamic-update-slice" and inside[end.operands[0]].opcode == "parameter"
    ]


def _read(inside: Mapping[str, Instruction], name: str, size: int, updates: list[Instruction]) -> int:
    """Returns the bytes that a fused computation reads of a parameter of `size` bytes: all, or only the slices if it
    only slices the parameter or updates it in place.
    """
    uses = [one for one in inside.values() if name in one.operands]
    if not all(one.operands.index(name) == 0 and (one.opcode == "dynamic-slice" or one in updates) for one in uses):
        return size
    return min(size, sum(one.size for one in uses if one.opcode == "dynamic-slice"))
