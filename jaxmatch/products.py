"""The precision that matrix products really have: a device may round their float32 factors, by default or because the
requested precision allows it.
"""

import os

import jax
import jax.numpy as jnp
from jax.lax import Precision

from jaxmatch.layers.core import JAX_PRECISIONS, PRECISIONS

_BEFORE_AMPERE = "NVIDIA before Ampere"
_PRECISE = dict.fromkeys(Precision, "float32")
# Device -> requested precision -> the type to which float32 factors are rounded
# (https://docs.jax.dev/en/latest/jax.lax.html#jax.lax.Precision). "bfloat16 x 3": each factor is the sum of two
# bfloat16 numbers, and three of their four products are added. HIGHEST splits each factor into three bfloat16 numbers,
# and adds six of their nine products.
_ROUNDED = {
    "cpu": _PRECISE,
    "tpu": _PRECISE | {Precision.DEFAULT: "bfloat16", Precision.HIGH: "bfloat16 x 3"},
    _BEFORE_AMPERE: _PRECISE,
    "NVIDIA": _PRECISE | {Precision.DEFAULT: "TF32", Precision.HIGH: "TF32"},
    "another": _PRECISE | dict.fromkeys((Precision.DEFAULT, Precision.HIGH), "device-dependent"),
}
_ALGORITHMS = {"F32_F32_F32": "float32", "TF32_TF32_F32": "TF32", "BF16_BF16_F32": "bfloat16"}
_AMPERE = 8  # the compute capability of Ampere, the first with TF32


def products_of(precision: str, device: jax.Device) -> str:
    """Returns the type to which a device rounds the factors of a model's matrix products.

    Arguments:
      precision: the precision of the model, a key of `matmul.PRECISIONS`. With `float32`, the result depends on JAX's
        default precision as it is now set (`jax_default_matmul_precision`).
      device: the device that computes the products.

    Returns:
      "float32", "TF32", "bfloat16", "bfloat16 x 3", "device-dependent", or the name of the `jax.lax.DotAlgorithmPreset`
      that is set; "... or ..." if either is possible.
    """
    if PRECISIONS[precision] == jnp.bfloat16:
        return "bfloat16"
    return rounded(JAX_PRECISIONS.get(precision) or _default(), device)


def rounded(requested: Precision | str, device: jax.Device) -> str:
    """Returns the type to which a device rounds float32 factors, as in `products_of`.

    Arguments:
      requested: the precision that JAX requests for the product, or the name of a `DotAlgorithmPreset`.
      device: the device that computes the product.
    """
    if isinstance(requested, Precision):
        found = _ROUNDED[_family(device)][requested]
        # This variable prevents TF32 in NVIDIA's libraries, but not in XLA's own kernels.
        return "TF32 or float32" if found == "TF32" and os.environ.get("NVIDIA_TF32_OVERRIDE") == "0" else found
    found = _ALGORITHMS.get(requested, requested)
    # A CPU treats an algorithm as the least precision that it must provide.
    return f"{found} or finer" if device.platform == "cpu" and found != "float32" else found


def _default() -> Precision | str:
    """Returns the precision that JAX requests for a product that names no precision."""
    chosen = jax.config.jax_default_matmul_precision
    try:
        return Precision.DEFAULT if chosen is None else Precision(chosen)
    except ValueError:  # the name of an algorithm
        return chosen


def _family(device: jax.Device) -> str:
    if device.platform in ("cpu", "tpu"):
        return device.platform
    major = str(getattr(device, "compute_capability", "")).partition(".")[0]  # "9.0", or "gfx942" for AMD
    if not major.isdecimal():
        return "another"
    return "NVIDIA" if int(major) >= _AMPERE else _BEFORE_AMPERE
