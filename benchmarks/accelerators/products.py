"""The number formats that the matrix products of a program use, read from its text."""

import re
from typing import NamedTuple

import jax
from jax.lax import Precision

from jaxmatch.devices import rounded

_ARRAY = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = ([a-z]+[0-9]*\w*)\[", re.MULTILINE)
# On a TPU, a product is a convolution without a window. On a GPU, cuBLAS computes most products, and XLA's own kernels
# contain a dot.
_PRODUCT = re.compile(r' (?:dot|convolution|custom-call(?=.*custom_call_target="__cublas))\(([^)]*)\)(.*)')
_PRECISION = re.compile(r'operand_precision"?[=:][{\[]"?(\w+)"?,"?(\w+)"?[}\]]')
_ALGORITHM = re.compile(r'algorithm"?[=:]"?(?:dot_|ALG_DOT_)(\w+)')
_ROUNDED = {"bf16": "bfloat16", "f16": "float16"}
_ALGORITHMS = {"F32_F32_F32": "float32", "TF32_TF32_F32": "TF32", "BF16_BF16_F32": "bfloat16"}


class Product(NamedTuple):
    """A kind of matrix product.

    Attributes:
      factors: the types of the factors, as XLA names them.
      requested: what JAX requests: a precision, or the name of an algorithm.
    """

    factors: tuple[str, str]
    requested: Precision | str

    def uses(self, device: jax.Device) -> str:
        """Returns the format to which a device rounds the factors. Of two types, the wider one counts."""
        wide = next((kind for kind in self.factors if kind not in _ROUNDED), None)
        if wide is None:
            return _ROUNDED[self.factors[0]]
        if isinstance(self.requested, str):
            return _ALGORITHMS.get(self.requested, self.requested)
        return rounded(self.requested, device)


def products(text: str) -> set[Product]:
    """Returns the kinds of products in an HLO module, as it was lowered (`lowered.as_text("hlo")`) or compiled
    (`compiled.as_text()`).
    """
    kinds = dict(_ARRAY.findall(text))
    return {_product(operands, rest, kinds) for operands, rest in _PRODUCT.findall(text)}


def _product(operands: str, rest: str, kinds: dict[str, str]) -> Product:
    names = re.findall(r"%([\w.\-]+)", operands) or operands.split(", ")
    factors = kinds[names[0]], kinds[names[1]]
    if found := _ALGORITHM.search(rest):
        return Product(factors, found.group(1).upper())
    match = _PRECISION.search(rest)
    both = [Precision[name.upper()] for name in match.groups()] if match else [Precision.DEFAULT]
    return Product(factors, min(both, key=lambda precision: precision.value))
