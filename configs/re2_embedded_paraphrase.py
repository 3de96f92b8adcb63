"""RE2, small, on the embedded symmetric paraphrase pairs set: for demonstrations and tests, in a minute or two on two cores.

    jaxmatch train configs/re2_embedded_paraphrase.py --workdir runs/embedded_paraphrase

It needs no files: the pairs and their word vectors are generated.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "model.blocks": 2,
            "model.encoder_layers": 1,
            "model.hidden_size": 32,
            "model.prediction": "symmetric",
            "data.name": "embedded_paraphrase",
            "training.batch_size": 64,
            "training.epochs": 8,
            "training.maximum_buckets": 2,
            "training.selection": "accuracy",
            "training.patience_samples": 0,
            "optimizer.learning_rate": 0.003,
            "optimizer.learning_rate_floor": 0.0001,
            "optimizer.decay_rate": 0.9,
            "optimizer.decay_samples": 12_000,
            "optimizer.dropout_rate": 0.0,  # the rules have no noise to overfit, and dropout slows learning them
        },
    )
