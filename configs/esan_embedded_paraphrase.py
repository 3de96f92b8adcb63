"""ESAN, small, on the embedded paraphrase set: for demonstrations and tests.

    jaxmatch train configs/esan_embedded_paraphrase.py --workdir runs/esan_embedded_paraphrase

It needs no files: the pairs and their word vectors are generated. Run time and score: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config("esan"),
        {
            "model.hidden_size": 32,
            "data.name": "embedded_paraphrase",
            "training.batch_size": 64,
            "training.epochs": 8,
            "training.maximum_buckets": 2,
            "training.patience_samples": 0,
            "optimizer.learning_rate": 0.002,
            "optimizer.decay_rate": 0.9,
            "optimizer.decay_samples": 12_000,
            "optimizer.dropout_rate": 0.0,  # the rules have no noise to overfit
        },
    )
