"""RE2 on RTE in the layout of GLUE; not in the paper.

    jaxmatch train configs/re2_rte.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/rte

GLUE does not publish the labels of the test pairs, so that there is a dev score alone. Run time and scores: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "data.name": "rte",
            "training.batch_size": 64,
            "training.epochs": 20,
            "training.patience_samples": 25_000,
            "training.selection": "accuracy",
            "training.maximum_buckets": 8,
            "optimizer.decay_rate": 1.0,
        },
    )
