"""The devices that programs are compiled for, with the figures their makers publish."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Target:
    """A device.

    Attributes:
      name: what tables call it.
      platform: "tpu" or "cuda".
      topology: of a TPU slice, as XLA names it; of a GPU the file in this folder that describes it to XLA.
      memory: bytes.
      bandwidth: of that memory, bytes a second.
      peak: precision -> operations a second of matrix products, as `model.precision` runs on it by default. Float32 products are
        TensorFloat-32 on a GPU and passes of bfloat16 on a TPU.
    """

    name: str
    platform: str
    topology: str
    memory: float
    bandwidth: float
    peak: dict[str, float]


# NVIDIA's data sheets (A100 80GB SXM, H100 SXM, dense), Google's "TPU architecture" pages. A TPU's default for float32 is one
# pass of bfloat16.
TARGETS = {
    target.name: target
    for target in (
        Target("h100", "cuda", "h100.txt", 80e9, 3.35e12, {"float32": 495e12, "bfloat16": 989e12}),
        Target("a100", "cuda", "a100.txt", 80e9, 2.04e12, {"float32": 156e12, "bfloat16": 312e12}),
        Target("v5e", "tpu", "v5e:2x2", 16e9, 0.819e12, {"float32": 197e12, "bfloat16": 197e12}),
        Target("v6e", "tpu", "v6e:2x2", 32e9, 1.64e12, {"float32": 918e12, "bfloat16": 918e12}),
        Target("v5p", "tpu", "v5p:2x2x1", 95e9, 2.765e12, {"float32": 459e12, "bfloat16": 459e12}),
    )
}
# Seconds that a GPU takes to start a kernel.
SECONDS_A_KERNEL = 4e-6
