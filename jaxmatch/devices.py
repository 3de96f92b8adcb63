"""The devices that there are."""

import os

import jax

from jaxmatch.errors import InputError


def devices_there_are() -> list[jax.Device]:
    """All devices of JAX's default backend.

    Raises:
      InputError: there are none.
    """
    try:
        return jax.devices()
    except (RuntimeError, AssertionError) as error:  # the latter, without a word, for a platform that jaxlib was built without
        reason = str(error) or f"JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')}"
        raise InputError(f"JAX finds no device ({reason})", remedy="set JAX_PLATFORMS=cpu, or mend what hinders the accelerator") from None
