"""The first sweep: do more blocks help on the embedded inference set, and which learning rate is best?

    jaxmatch sweep sweeps/quickstart.py --workdir runs/quickstart

Two block counts x two learning rates x three seeds: twelve runs in two programs, a few minutes on two cores.
"""

from jaxmatch import Sweep, TableLayout, load_config


def get_sweep() -> Sweep:
    return Sweep(
        name="quickstart",
        config=load_config("re2", dataset="embedded_inference"),
        grid={"model.blocks": (1, 2), "optimizer.learning_rate": (1e-3, 3e-3)},
        seeds=(0, 1, 2),
        table=TableLayout(
            title="RE2 on the embedded inference set",
            rows=("model.blocks", "optimizer.learning_rate"),
            scores=("dev.accuracy", "test.accuracy"),
        ),
    )
