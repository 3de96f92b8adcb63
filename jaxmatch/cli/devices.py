"""List the devices that JAX finds, and try a training step in each precision.

    jaxmatch devices
    jaxmatch devices --no-trial

The trial shows that training works here and what a step costs. Precisions that give the same matrix products on the
device are tried once. Run nothing else meanwhile.
"""

import argparse

from jaxmatch.cli.output import show

GIB = 2**30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-trial", action="store_true", help="list devices only, without a trial training step")


def run(arguments: argparse.Namespace) -> None:
    import jax

    from jaxmatch.devices import available_devices
    from jaxmatch.sweep.recording import device_name

    devices = available_devices()
    show(f"JAX {jax.__version__} computes on {device_name(devices)}")
    for device in devices:
        show(f"  {device.platform} {device.id}: {memory_text(device)}")
    if not arguments.no_trial:
        try_device(devices[0])


def memory_text(device) -> str:
    """Describes a device's memory, as the platform reports it: "60.0 GiB for this process, 0.4 GiB in use"."""
    from jaxmatch.devices import device_bytes

    statistics = device.memory_stats() or {}
    if "bytes_limit" in statistics:
        limit, used = statistics["bytes_limit"] / GIB, statistics.get("bytes_in_use", 0) / GIB
        return f"{limit:.1f} GiB for this process, {used:.1f} GiB in use"
    if device.platform == "cpu":
        return f"{device_bytes(device) / GIB:.1f} GiB, its share of this machine's memory"
    return "it does not report its memory"


def try_device(device) -> None:
    from jaxmatch.sweep import trial

    show(f"A training step on {device.platform} {device.id} ({trial.WHAT}):")
    for tried in trial.trials(device):
        outcome = tried.problem or f"{1000 * tried.step_seconds:.3g} ms, compiled in {tried.compile_seconds:.1f} s"
        show(f"  model.precision={' or '.join(tried.precisions)} ({tried.products} products): {outcome}")
