"""RE2 on the Ubuntu dialogue corpus v1, ten candidate responses a context, chosen by R10@1; not in the paper.

    jaxmatch train configs/re2_ubuntu.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/ubuntu

The text is tokenised already. Of a text the last 200 tokens are kept, with the turn that is to be answered. Run time and scores: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config(),
        {
            "model.hidden_size": 200,
            "data.name": "ubuntu",
            "data.tokenizer": "whitespace",
            "data.maximum_length": 200,
            "data.truncation_side": "left",
            "training.epochs": 5,
            "training.evaluate_every_samples": 250_000,
            "training.patience_samples": 1_000_000,
            "training.selection": "recall_at_1",
            "optimizer.decay_samples": 256_000,
        },
    )
