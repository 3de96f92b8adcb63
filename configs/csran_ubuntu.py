"""CSRAN on the Ubuntu dialogue corpus v1 (the paper reports an R10@1 of 0.556, Table 7).

    jaxmatch train configs/csran_ubuntu.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/ubuntu

What the paper does not say for this data set is as on SNLI, and the learning rate does not decay. Of a text the last 200
tokens are kept, with the turn that is to be answered; the released code keeps 40. Of each word it is given the vector and the characters. Run time and
score: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config("csran"),
        {
            "model.stacked_layers": 3,  # 2 to 5 in the paper
            "model.aggregation_layers": 1,  # 1 or 2
            "model.hidden_size": 200,  # of a direction; 64, 100, 200 or 300
            "model.highway_layers": 2,
            "model.head_layers": 3,  # with the last; 1 to 3
            "model.head_size": 300,  # 100, 200, 300 or 600
            "model.characters": "bilstm",
            "data.name": "ubuntu",
            "data.tokenizer": "whitespace",
            "data.minimum_count": 1,  # a word that the vocabulary lacks has no characters
            "data.maximum_length": 200,
            "data.truncation_side": "left",
            "training.batch_size": 128,
            "training.epochs": 5,
            "training.evaluate_every_samples": 250_000,
            "training.patience_samples": 1_000_000,
            "training.selection": "recall_at_1",
            "optimizer.learning_rate": 0.001,  # 0.001, 0.0003 or 0.0004 in the paper
            "optimizer.learning_rate_floor": 0.0,
            "optimizer.decay_rate": 1.0,
            "optimizer.weight_decay": 1e-8,
            "optimizer.gradient_clip": 5.0,
        },
    )
