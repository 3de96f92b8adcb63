"""DIIN (Gong et al., 2018), one setting for each data set.

    jaxmatch train configs/diin.py --dataset snli --data-directory DATA --vectors glove.840B.300d.zip \\
        --workdir runs/snli
    jaxmatch train configs/diin_snli.py ...        # the same

Sizes, batch size, clipped gradient and L2 penalty are those of the paper and of the authors' code. There, Adadelta with
a rate of 0.5 is followed by SGD, the L2 penalty grows over 100,000 steps, and the share that dropout keeps shrinks from
1 by a factor of 0.977 every 10,000 steps. Here, the optimizer is Adam, the penalty is constant, and the dropout rate is
a constant 0.1, which theirs reaches after 45,000 steps. Their penalty leaves out biases and embeddings and is clipped
with the gradient; here it covers all parameters and is added after clipping.

Texts keep their punctuation, as there, and are lower-cased, which they are not there. Texts of all data sets are cut
after 48 tokens, the default of that code. A word has its vector, its characters, its part of speech and the exact
match. The authors' code also trains the word vectors and starts words without one at random numbers; here vectors are
fixed, and zeros for such words. Runs that were trained here are in results/.
"""

from ml_collections import ConfigDict

from jaxmatch import default_config, with_overrides
from jaxmatch.config.settings import of_data_set

_PAPER = {
    "model.grid_length": 48,
    "model.highway_layers": 2,
    "model.first_scale": 0.3,
    "model.dense_blocks": 3,
    "model.block_layers": 8,
    "model.growth_rate": 20,
    "model.transition_scale": 0.5,
    "model.characters": "cnn",
    "model.character_features": 100,
    "model.tags": True,
    "model.exact_match": True,
    "data.tokenizer": "word",
    "data.minimum_count": 1,  # a word that the vocabulary lacks has no characters
    "data.maximum_length": 48,  # the size of the grid
    "data.remove_punctuation": False,
    "training.batch_size": 70,
    "optimizer.learning_rate": 0.0005,
    "optimizer.learning_rate_floor": 0.0,
    "optimizer.decay_rate": 0.95,
    "optimizer.decay_samples": 128_000,
    "optimizer.dropout_rate": 0.1,
    "optimizer.l2_penalty": 9e-5,
    "optimizer.gradient_clip": 1.0,
}

DATA_SETS = {
    # 88.0 test accuracy in the paper (RE2's Table 1).
    "snli": _PAPER | {"training.patience_samples": 2_740_000},  # five epochs
    # 89.1 test accuracy (RE2's Table 3).
    "quora": _PAPER | {"training.patience_samples": 1_920_000},
    # Your own files: docs/how_to/own_data.md. Parts of speech need NLTK's data and are left out.
    "own": _PAPER | {"model.tags": False, "training.epochs": 20},
    # Small, on generated pairs with vectors of their own: for demonstrations and tests.
    "embedded_inference": {
        "model.exact_match": True,
        "model.grid_length": 16,
        "model.first_scale": 1.0,
        "model.dense_blocks": 2,
        "model.block_layers": 3,
        "model.growth_rate": 8,
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
    return with_overrides(default_config("diin"), of_data_set(DATA_SETS, dataset))
