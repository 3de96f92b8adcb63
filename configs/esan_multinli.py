"""ESAN on MultiNLI (the paper reports 79.3 test accuracy on matched and 78.4 on mismatched pairs, Table 3).

    jaxmatch train configs/esan_multinli.py --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/multinli

The paper gives ranges, not the settings of each table, and no decay of the learning rate: the sizes here are those that give
its 3.9M parameters on Quora, the decay is RE2's default (0.95 per 128,000 pairs), and a run stops after five epochs without a
better dev score. A checkpoint is chosen on the matched development pairs; the mismatched ones stand as the test split. Of each
word it is given the vector, the characters, the part of speech and the exact match. Run time and score: not measured.
"""

from ml_collections import ConfigDict

from jaxmatch.settings import default_config, with_overrides


def get_config() -> ConfigDict:
    return with_overrides(
        default_config("esan"),
        {
            "model.alignment_layers": 2,  # 2 or 3 in the paper
            "model.encoder_layers": 1,  # 1 or 2
            "model.hidden_size": 150,  # 150 to 300
            "model.characters": "cnn",
            "model.tags": True,
            "model.exact_match": True,
            "data.name": "multinli",
            "data.tokenizer": "word",
            "data.minimum_count": 1,  # a word that the vocabulary lacks has no characters
            "data.maximum_length": 100,
            "training.batch_size": 128,  # 64 to 256
            "training.patience_samples": 1_960_000,
        },
    )
