"""What matrix products really use: a device rounds their float32 factors, as it does by default or as far as it is
allowed to.
"""

import os

import jax
import jax.numpy as jnp
from jax.lax import Precision

from jaxmatch.layers.matmul import ASKED, PRECISIONS

_OLD = "NVIDIA before Ampere"
_PRECISE = dict.fromkeys(Precision, "float32")
# Device -> to what it rounds float32 factors, by what JAX asks for
# (https://docs.jax.dev/en/latest/jax.lax.html#jax.lax.Precision). "bfloat16 x 3": each factor as the sum of two of
# bfloat16, three of whose four products are added; of six such is HIGHEST.
_ROUNDED = {
    "cpu": _PRECISE,
    "tpu": _PRECISE | {Precision.DEFAULT: "bfloat16", Precision.HIGH: "bfloat16 x 3"},
    _OLD: _PRECISE,
    "NVIDIA": _PRECISE | {Precision.DEFAULT: "TF32", Precision.HIGH: "TF32"},
    "another": _PRECISE | dict.fromkeys((Precision.DEFAULT, Precision.HIGH), "device-dependent"),
}
_ALGORITHMS = {"F32_F32_F32": "float32", "TF32_TF32_F32": "TF32", "BF16_BF16_F32": "bfloat16"}
_AMPERE = 8  # its compute capability, the first that has TF32


def products_of(precision: str, device: jax.Device) -> str:
    """To what the factors of a model's matrix products are rounded on a device.

    Arguments:
      precision: the model's, a key of `matmul.PRECISIONS`.
      device: that computes them. With `float32`, JAX's default precision counts as it is set now
        (`jax_default_matmul_precision`).

    Returns:
      "float32", "TF32", "bfloat16", "bfloat16 x 3", "device-dependent", or the name of the `jax.lax.DotAlgorithmPreset`
      that is set; "... or ..." where both may be.
    """
    if PRECISIONS[precision] == jnp.bfloat16:
        return "bfloat16"
    return rounded(ASKED.get(precision) or _default(), device)


def rounded(asked: Precision | str, device: jax.Device) -> str:
    """As `products_of`, of a product of float32 factors that JAX asks for in this way; a string names a
    `DotAlgorithmPreset`.
    """
    if isinstance(asked, Precision):
        found = _ROUNDED[_family(device)][asked]
        # The variable keeps NVIDIA's libraries from using TF32, but not XLA's own kernels.
        return "TF32 or float32" if found == "TF32" and os.environ.get("NVIDIA_TF32_OVERRIDE") == "0" else found
    found = _ALGORITHMS.get(asked, asked)
    # A CPU takes an algorithm for the least it has to do.
    return f"{found} or finer" if device.platform == "cpu" and found != "float32" else found


def _default() -> Precision | str:
    """How JAX asks for a product that names no precision."""
    chosen = jax.config.jax_default_matmul_precision
    try:
        return Precision.DEFAULT if chosen is None else Precision(chosen)
    except ValueError:  # the name of an algorithm
        return chosen


def _family(device: jax.Device) -> str:
    if device.platform in ("cpu", "tpu"):
        return device.platform
    major = str(getattr(device, "compute_capability", "")).partition(".")[0]  # "9.0", or of AMD "gfx942"
    if not major.isdecimal():
        return "another"
    return "NVIDIA" if int(major) >= _AMPERE else _OLD
