"""CSRAN on Quora question pairs (the paper reports 89.2 test accuracy, Table 4).

    jaxmatch train configs/csran_quora.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/quora

Three stacked layers were best (Figure 3). What the paper does not say for this data set is as on SNLI, and the learning rate
does not decay. Of each word it is given the vector and the characters. Run time and score: not measured.
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
            "data.name": "quora",
            "data.tokenizer": "word",
            "data.minimum_count": 1,  # a word that the vocabulary lacks has no characters
            "data.maximum_length": 100,
            "training.batch_size": 128,
            "training.epochs": 20,
            "training.patience_samples": 1_920_000,  # five epochs
            "optimizer.learning_rate": 0.001,  # 0.001, 0.0003 or 0.0004 in the paper
            "optimizer.learning_rate_floor": 0.0,
            "optimizer.decay_rate": 1.0,
            "optimizer.weight_decay": 1e-8,
            "optimizer.gradient_clip": 5.0,
        },
    )
