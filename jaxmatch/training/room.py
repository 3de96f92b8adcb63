"""Where a device's memory ends: telling that it ran out, and going on with fewer replicas side by side."""

import dataclasses

import jax


@dataclasses.dataclass(frozen=True)
class RanOut:
    """Memory ran out, and training went on with fewer replicas side by side.

    Attributes:
      part: what needed too much, "training" or "evaluation".
      after_steps: lockstep steps made by then.
      device: the kind of device.
      at_once: replicas that a device computed side by side.
      then_at_once: the most it did from then on.
    """

    part: str
    after_steps: int
    device: str
    at_once: int
    then_at_once: int


def ran_out(error: Exception) -> bool:
    """Whether an error says that a device has too little memory for a program, when that is compiled or when it runs."""
    return isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)
