"""CSRAN, small, on the embedded three-class inference set: for demonstrations and tests.

    jaxmatch train configs/csran_embedded_inference.py --workdir runs/csran_embedded_inference

It needs no files: the pairs and their word vectors are generated. Run time and score: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config("csran"),
        {
            "model.stacked_layers": 2,
            "model.hidden_size": 16,
            "model.highway_layers": 1,
            "model.factors": 4,
            "model.head_size": 32,
            "data.name": "embedded_inference",
            "training.batch_size": 64,
            "training.epochs": 8,
            "training.maximum_buckets": 2,
            "training.patience_samples": 0,
            "optimizer.learning_rate": 0.003,
            "optimizer.decay_rate": 0.9,
            "optimizer.decay_samples": 12_000,
            "optimizer.dropout_rate": 0.0,  # the rules have no noise to overfit
        },
    )
