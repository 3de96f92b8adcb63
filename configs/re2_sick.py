"""RE2 on SICK, entailment in three classes; not in the paper, the setting is the default one at batch size 64.

    jaxmatch train configs/re2_sick.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/sick

What it scored here: results/.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "data.name": "sick",
            "training.batch_size": 64,
            "training.epochs": 20,
            "training.patience_samples": 45_000,
            "training.maximum_buckets": 8,
            "optimizer.decay_rate": 1.0,
        },
    )
