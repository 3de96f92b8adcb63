"""RE2 on MRPC, the Microsoft Research Paraphrase Corpus; not in the paper.

    jaxmatch train configs/re2_mrpc.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/mrpc

There is no official dev file: a fixed tenth of the training file is dev. Run time and scores: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "model.prediction": "symmetric",
            "data.name": "mrpc",
            "training.batch_size": 64,
            "training.epochs": 20,
            "training.patience_samples": 37_000,
            "training.selection": "accuracy",
            "training.maximum_buckets": 8,
            "optimizer.decay_rate": 1.0,
        },
    )
