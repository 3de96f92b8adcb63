"""The devices that programs are compiled for, with the figures that their makers publish."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Target:
    """A device.

    Attributes:
      name: the name of the device in tables.
      platform: "tpu" or "cuda".
      topology: the topology of a TPU slice, as XLA names it, or the file in this folder that describes a GPU to XLA.
      memory: the memory in bytes.
      bandwidth: the bandwidth of that memory, in bytes a second.
      peak: precision -> operations of matrix products a second, as `model.precision` runs on the device by default.
        Float32 products are TensorFloat-32 on a GPU and passes of bfloat16 on a TPU.
      kinds: the names that JAX has for such devices (`jax.Device.device_kind`). Other devices with a similar name, such
        as an H100 PCIe, have other figures.
    """

    name: str
    platform: str
    topology: str
    memory: float
    bandwidth: float
    peak: dict[str, float]
    kinds: tuple[str, ...]

    def least_seconds(self, precision: str, moved: float, operations: float, kernels: int) -> float:
        """Returns a lower bound on a program's time, from the published figures."""
        starts = kernels * SECONDS_A_KERNEL if self.platform == "cuda" else 0.0
        return max(moved / self.bandwidth, operations / self.peak[precision]) + starts


# Seconds that a GPU takes to start a kernel.
SECONDS_A_KERNEL = 4e-6
# NVIDIA's data sheet (H100 SXM, dense), Google's "TPU architecture" pages. A TPU's default for float32 is one pass of
# bfloat16.
_OF_HOPPER = {"float32": 495e12, "bfloat16": 989e12}
_H100 = Target("h100", "cuda", "h100.txt", 80e9, 3.35e12, _OF_HOPPER, ("NVIDIA H100 80GB HBM3",))
_OF_V5E = {"float32": 197e12, "bfloat16": 197e12}
_V5E = Target("v5e", "tpu", "v5e:2x2", 16e9, 0.819e12, _OF_V5E, ("TPU v5e", "TPU v5 lite"))
TARGETS = {target.name: target for target in (_H100, _V5E)}
# The H200 is an H100 with more and faster memory, and runs the same programs.
_H200 = Target("h200", "cuda", "", 141e9, 4.8e12, _OF_HOPPER, ("NVIDIA H200",))


def target_of(kind: str) -> Target | None:
    """Returns the target that a device is, by its kind in JAX, or None if its figures are not in the table."""
    return next((target for target in (*TARGETS.values(), _H200) if kind in target.kinds), None)
