"""RE2 (Yang et al., 2019), one setting for each data set.

    jaxmatch train configs/re2.py --dataset snli --data-directory DATA --vectors glove.840B.300d.zip --workdir runs/snli
    jaxmatch train configs/re2_snli.py ...        # the same

SNLI, SciTail, Quora and WikiQA have the model and the optimizer of the released PyTorch code, also where the paper has
others: 200 features instead of 150 except on SNLI, dropout not before every layer, and a temperature in the alignment.
Unlike in that code, the outputs of the last two blocks are summed and punctuation is removed, as the paper says;
batches hold pairs of similar length; dev is scored after every epoch; and a long text of Quora is cut after 100 tokens.
`--setting` of sweeps/re2_main.py follows a single source. The other data sets are not in the paper. Scores that were
reached here are in results/. Five runs of six epochs on WikiQA train in 58 minutes on two CPU cores, and in 22 seconds
on an H200.
"""

from ml_collections import ConfigDict

from jaxmatch import default_config, with_overrides
from jaxmatch.config.settings import of_data_set

# The released settings of SNLI, which MultiNLI also has.
_INFERENCE = {
    "model.blocks": 3,
    "data.tokenizer": "word",
    "training.batch_size": 512,
    "training.patience_samples": 2_560_000,
    "training.minimum_samples": 5_120_000,
    "optimizer.learning_rate": 0.002,
    "optimizer.learning_rate_floor": 0.0001,
    "optimizer.warmup_samples": 2_048_000,
    "optimizer.decay_rate": 0.94,
    "optimizer.decay_samples": 256_000,
}
# The released settings of WikiQA, which TrecQA also has.
_ANSWERS = {
    "model.encoder_layers": 3,
    "model.hidden_size": 200,
    "model.prediction": "simple",
    "data.tokenizer": "whitespace",
    "optimizer.decay_rate": 1.0,
}
# Sets of a few thousand pairs.
_SMALL = {"training.batch_size": 64, "training.epochs": 20, "training.maximum_buckets": 8, "optimizer.decay_rate": 1.0}
# Generated pairs with vectors of their own, for demonstrations and tests: a few minutes on two cores. An epoch has
# 6,000 pairs. A run stops after four epochs without a better dev score.
_GENERATED = {
    "model.blocks": 2,
    "model.encoder_layers": 1,
    "model.hidden_size": 32,
    "training.batch_size": 64,
    "training.epochs": 24,
    "training.maximum_buckets": 2,
    "training.patience_samples": 24_000,
    "optimizer.learning_rate": 0.003,
    "optimizer.learning_rate_floor": 0.0001,
    "optimizer.decay_rate": 0.9,
    "optimizer.decay_samples": 12_000,
    "optimizer.dropout_rate": 0.0,  # the rules have no noise to overfit, and dropout slows learning them
}

DATA_SETS = {
    # 88.9 ± 0.1 test accuracy over 10 seeds in the paper (Table 1). The released code reads a preprocessed file that is
    # no longer distributed; here NLTK's word tokenizer splits the official text.
    "snli": _INFERENCE,
    # The mismatched pairs serve as test, because the labels of the test pairs are not public. Without that file, there
    # is no test score.
    "multinli": _INFERENCE | {"data.maximum_length": 100},
    # 86.0 ± 0.6 test accuracy over 10 seeds (Table 2).
    "scitail": {
        "model.encoder_layers": 3,
        "model.hidden_size": 200,
        "model.alignment": "identity",
        "data.tokenizer": "tweet_split",
        "training.epochs": 80,
        "optimizer.decay_rate": 1.0,
    },
    # 89.2 ± 0.2 test accuracy over 10 seeds (Table 3). The split of Wang et al. (2017) comes tokenized; NLTK's word
    # tokenizer, which reads raw questions, too, changes about 2% of its texts, mostly quotation marks.
    "quora": {
        "model.hidden_size": 200,
        "model.prediction": "symmetric",
        "data.tokenizer": "word",
        "data.maximum_length": 100,
        "training.batch_size": 512,
        "training.patience_samples": 2_560_000,
        "training.minimum_samples": 5_120_000,
        "optimizer.learning_rate": 0.0012,
        "optimizer.decay_samples": 256_000,
    },
    # MAP 0.7452 ± 0.0044 and MRR 0.7618 ± 0.0040 over 10 seeds (Table 4), on the questions with right and wrong
    # answers. Checkpoints are chosen by MRR, as the catalog of data sets (jaxmatch/data/data_sets.toml) says.
    "wikiqa": _ANSWERS | {"training.patience_samples": 256_000},
    # Raw: MAP and MRR count all questions with a right answer, including those without a wrong one, which cannot be
    # ranked badly.
    "trecqa": _ANSWERS,
    "trecqa_all": _ANSWERS,
    # Clean: dev and test questions with right and wrong answers, as in Rao et al. (2016).
    "trecqa_clean": _ANSWERS,
    "trecqa_all_clean": _ANSWERS,
    # The released model settings of Quora. Pairs with 3 of 6 votes are left out; a fixed tenth of the training
    # headlines is dev.
    "twitter_url": {
        "model.hidden_size": 200,
        "model.prediction": "symmetric",
        "data.tokenizer": "word",
        "optimizer.decay_rate": 1.0,
    },
    # v1, ten candidate responses for a context. The last 200 tokens of a text are kept, with the turn that is to be
    # answered.
    "ubuntu": {
        "model.hidden_size": 200,
        "data.tokenizer": "whitespace",
        "data.maximum_length": 200,
        "data.truncation_side": "left",
        "training.epochs": 5,
        "training.evaluate_every_samples": 250_000,
        "training.patience_samples": 1_000_000,
        "optimizer.decay_samples": 256_000,
    },
    # Three classes.
    "sick": _SMALL | {"training.patience_samples": 45_000},
    # Relatedness from 1 to 5, and similarity from 0 to 5: regressions by squared error, chosen by Pearson's
    # correlation.
    "sick_relatedness": _SMALL | {"model.prediction": "symmetric", "training.patience_samples": 45_000},
    "stsb": _SMALL | {"model.prediction": "symmetric", "training.patience_samples": 57_000},
    # There is no official dev file: a fixed tenth of the training file is dev.
    "mrpc": _SMALL | {"model.prediction": "symmetric", "training.patience_samples": 37_000},
    # GLUE does not publish the labels of the test pairs, so there is only a dev score.
    "rte": _SMALL | {"training.patience_samples": 25_000},
    # A folder with train.tsv, dev.tsv and test.tsv, or .jsonl: docs/how_to/own_data.md. With a column `group` it is a
    # ranking, otherwise a classification. A regression needs --config.data.task.
    "own": {"training.batch_size": 64, "training.epochs": 20},
    "embedded_inference": _GENERATED,
    "embedded_paraphrase": _GENERATED | {"model.prediction": "symmetric"},
    "embedded_ranking": _GENERATED | {"training.selection": "map"},
}


def get_config(dataset: str = "snli") -> ConfigDict:
    return with_overrides(default_config("re2"), of_data_set(DATA_SETS, dataset))
