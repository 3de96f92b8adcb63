"""RE2 on SICK, which is not in the paper: one to three blocks, two learning rates, five seeds.

jaxmatch sweep sweeps/re2_sick.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/sick
"""

from jaxmatch import Sweep, TableLayout, load_config


def get_sweep() -> Sweep:
    return Sweep(
        name="re2-sick",
        config=load_config("re2", dataset="sick"),
        grid={"model.blocks": (1, 2, 3), "optimizer.learning_rate": (5e-4, 1e-3)},
        seeds=(0, 1, 2, 3, 4),
        table=TableLayout(
            title="RE2 on SICK (entailment): blocks and learning rate",
            rows=("model.blocks", "optimizer.learning_rate"),
            scores=("dev.accuracy", "test.accuracy"),
            notes=("49 test pairs and 3 dev pairs of SICK are also in its training file",),
        ),
    )
