"""The devices that there are."""

import os

import jax

from jaxmatch.errors import InputError


def devices_there_are(platform: str | None = None) -> list[jax.Device]:
    """All devices of a platform, as "cpu"; None: of JAX's default backend.

    Raises:
      InputError: there are none.
    """
    try:
        return jax.devices(platform)
    except (
        RuntimeError,
        AssertionError,
    ) as error:  # the latter, without a word, for a platform that jaxlib was built without
        reason = str(error) or f"JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS', '')}"
        wanted = "no device" if platform is None else f"no {platform}"
        remedy = (
            "set JAX_PLATFORMS=cpu, or mend what hinders the accelerator"
            if platform is None
            else "leave JAX_PLATFORMS unset"
        )
        raise InputError(f"JAX finds {wanted} ({reason})", remedy=remedy) from None
