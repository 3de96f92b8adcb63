"""ESAN (Hu et al., 2020), one setting for each data set.

    jaxmatch train configs/esan.py --dataset snli --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/snli
    jaxmatch train configs/esan_snli.py ...        # the same

The paper gives ranges, not the settings of each table, and no numbers for the exponential decay of the learning rate.
The sizes here come to its 3.9M parameters on Quora; the decay is the default (0.95 every 128,000 pairs, down to 6e-5).
The paper mentions neither clipping of the gradient, whose norm has the default limit of 5, nor the size of a
character's embedding, which is 20. On the paper's data sets, a run stops after five epochs without a better dev score.
A word has its vector and its characters; on inference tasks also its part of speech and the exact match. The paper says
nothing about punctuation. It is removed here, as for RE2, with which ESAN is compared. Runs that were trained here are
in results/.
"""

from ml_collections import ConfigDict

from jaxmatch import default_config, with_overrides
from jaxmatch.config.settings import of_data_set

_PAPER = {
    "model.alignment_layers": 2,  # 2 or 3 in the paper
    "model.encoder_layers": 1,  # 1 or 2
    "model.hidden_size": 150,  # 150 to 300
    "model.characters": "cnn",
    "data.tokenizer": "word",
    "data.minimum_count": 1,  # a word that the vocabulary lacks has no characters
    "training.batch_size": 128,  # 64 to 256
}
_INFERENCE = _PAPER | {"model.tags": True, "model.exact_match": True}

DATA_SETS = {
    # 89.0 test accuracy in the paper (Table 1).
    "snli": _INFERENCE | {"training.patience_samples": 2_740_000},
    # 79.3 test accuracy on matched and 78.4 on mismatched pairs (Table 3). A checkpoint is chosen on the matched
    # development pairs; the mismatched ones serve as test.
    "multinli": _INFERENCE | {"data.maximum_length": 100, "training.patience_samples": 1_960_000},
    # 89.3 test accuracy (Table 2). With characters there are 3,856,712 parameters, without them 2.3M.
    "quora": _PAPER | {"data.maximum_length": 100, "training.patience_samples": 1_920_000},
    # Your own files: docs/how_to/own_data.md.
    "own": _PAPER | {"training.batch_size": 64, "training.epochs": 20},
    # Small, on generated pairs with vectors of their own: for demonstrations and tests.
    "embedded_paraphrase": {
        "model.hidden_size": 32,
        "training.batch_size": 64,
        "training.epochs": 8,
        "training.maximum_buckets": 2,
        "training.patience_samples": 0,
        "optimizer.learning_rate": 0.002,
        "optimizer.decay_rate": 0.9,
        "optimizer.decay_samples": 12_000,
        "optimizer.dropout_rate": 0.0,  # the rules have no noise to overfit
    },
}


def get_config(dataset: str = "snli") -> ConfigDict:
    return with_overrides(default_config("esan"), of_data_set(DATA_SETS, dataset))
