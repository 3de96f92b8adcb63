"""BiMPM (Wang et al., 2017), one setting for each data set.

    jaxmatch train configs/bimpm.py --dataset snli --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/snli
    jaxmatch train configs/bimpm_snli.py ...        # the same

Sizes, dropout, Adam and its learning rate are those of the paper's section 4.1, the same for all data sets. Batch size,
epochs and clipped gradient are the defaults of the authors' first code. Texts keep their punctuation, as there. A word
has its vector and its characters. Runs that were trained here are in results/.
"""

from ml_collections import ConfigDict

from jaxmatch import default_config, with_overrides
from jaxmatch.config.settings import of_data_set

_PAPER = {
    "model.hidden_size": 100,
    "model.perspectives": 20,
    "model.characters": "bilstm",
    "model.character_features": 50,
    "data.tokenizer": "word",
    "data.minimum_count": 1,  # a word that the vocabulary lacks has no characters
    "data.maximum_length": 100,
    "data.remove_punctuation": False,
    "training.batch_size": 60,
    "training.epochs": 10,
    "training.patience_samples": 0,
    "optimizer.learning_rate": 0.001,
    "optimizer.learning_rate_floor": 0.0,
    "optimizer.decay_rate": 1.0,
    "optimizer.dropout_rate": 0.1,
    "optimizer.gradient_clip": 50.0,
}

DATA_SETS = {
    # 86.9 test accuracy in RE2's Table 1, 87.5 in CSRAN's Table 2.
    "snli": _PAPER,
    # 88.2 test accuracy in RE2's Table 3.
    "quora": _PAPER,
    # Your own files: docs/how_to/own_data.md.
    "own": _PAPER | {"training.epochs": 20},
    # Small, on generated pairs with vectors of their own: for demonstrations and tests.
    "embedded_paraphrase": {
        "model.hidden_size": 16,
        "model.perspectives": 5,
        "model.head_size": 32,
        "training.batch_size": 64,
        "training.epochs": 8,
        "training.maximum_buckets": 2,
        "training.patience_samples": 0,
        "optimizer.learning_rate": 0.003,
        "optimizer.decay_rate": 0.9,
        "optimizer.decay_samples": 12_000,
        "optimizer.dropout_rate": 0.0,  # the rules have no noise to overfit
    },
}


def get_config(dataset: str = "snli") -> ConfigDict:
    return with_overrides(default_config("bimpm"), of_data_set(DATA_SETS, dataset))
