"""The data sets that are read from their official files: paths and readers."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from jaxmatch.data.dataset import Split
from jaxmatch.data.readers import mrpc, quora, rte, scitail, sick, snli, stsb, trecqa, twitter_url, ubuntu, wikiqa

SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True)
class Source:
    """A data set that can be read from its official files.

    Attributes:
      name: the name of the data set.
      task: "classification", "regression" or "ranking".
      labels: label names in the order of the model's outputs; empty for a regression.
      folder: the official folder, relative to the data directory.
      files: split -> candidate file names in that folder. The first file that exists is read. Empty if the official
        release has no such split.
      read: the function that reads the file of a split.
      selection: the score that chooses a checkpoint.
      read_split: split -> the function that reads it instead of `read`.
      about: split -> a description, if its name does not describe it, or the reason why it does not exist.
      filtered: whether only questions with right and wrong candidates count in the scores of a ranking; otherwise all
        questions with a right candidate count.
      companion_suffix: the suffix of a second file that each split's file needs in the same folder; empty if no second
        file is needed.
    """

    name: str
    task: str
    labels: tuple[str, ...]
    folder: str
    files: Mapping[str, tuple[str, ...]]
    read: Callable[[Path], Split]
    selection: str
    read_split: Mapping[str, Callable[[Path], Split]] = dataclasses.field(default_factory=dict)
    about: Mapping[str, str] = dataclasses.field(default_factory=dict)
    filtered: bool = True
    companion_suffix: str = ""


_HELD_OUT = "a tenth of the official training file, whose other pairs are train; there is no official dev file"
_TREC_FOLDER = "jacana-qa-naacl2013-data-results"


def _trecqa(name: str, train: str, *, clean: bool) -> Source:
    kept = "questions with right and wrong answers only"
    counted = "MAP and MRR over the questions with a right answer, those without a wrong one among them"
    return Source(
        name=name,
        task="ranking",
        labels=trecqa.LABELS,
        folder=_TREC_FOLDER,
        files={"train": (train,), "dev": ("dev.xml",), "test": ("test.xml",)},
        read=trecqa.read_clean if clean else trecqa.read,
        selection="map",
        # The clean sets differ in dev and test (Rao et al., 2016, Table 1). Training uses all questions.
        read_split={"train": trecqa.read},
        about=dict.fromkeys(("dev", "test"), kept if clean else counted),
        filtered=clean,
    )


_SICK_FILES = {"train": ("SICK_train.txt",), "dev": ("SICK_trial.txt",), "test": ("SICK_test_annotated.txt",)}

# The repository of the corpus holds samples of the files that its authors send on request.
_TWITTER_TRAIN = ("Twitter_URL_Corpus_train.txt", "Twitter_URL_Corpus_train_sample.txt")

CATALOG: dict[str, Source] = {
    "snli": Source(
        name="snli",
        task="classification",
        labels=snli.LABELS,
        folder="snli_1.0",
        files={split: (f"snli_1.0_{split}.jsonl", f"snli_1.0_{split}.txt") for split in SPLITS},
        read=snli.read,
        selection="accuracy",
    ),
    "scitail": Source(
        name="scitail",
        task="classification",
        labels=scitail.LABELS,
        folder="SciTailV1.1/tsv_format",
        files={split: (f"scitail_1.0_{split}.tsv",) for split in SPLITS},
        read=scitail.read,
        selection="accuracy",
    ),
    "quora": Source(
        name="quora",
        task="classification",
        labels=quora.LABELS,
        folder="Quora_question_pair_partition",
        files={split: (f"{split}.tsv",) for split in SPLITS},
        read=quora.read,
        selection="accuracy",
    ),
    "wikiqa": Source(
        name="wikiqa",
        task="ranking",
        labels=wikiqa.LABELS,
        folder="WikiQACorpus",
        files={split: (f"WikiQA-{split}.txt",) for split in SPLITS},
        read=wikiqa.read,
        selection="mrr",
        companion_suffix=wikiqa.COMPANION_SUFFIX,
    ),
    "sick": Source(
        name="sick",
        task="classification",
        labels=sick.LABELS,
        folder="SICK",
        files=_SICK_FILES,
        read=sick.read_entailment,
        selection="accuracy",
    ),
    "sick_relatedness": Source(
        name="sick_relatedness",
        task="regression",
        labels=(),
        folder="SICK",
        files=_SICK_FILES,
        read=sick.read_relatedness,
        selection="pearson",
    ),
    "multinli": Source(
        name="multinli",
        task="classification",
        labels=snli.LABELS,
        folder="multinli_1.0",
        files={
            "train": ("multinli_1.0_train.jsonl", "multinli_1.0_train.txt"),
            "dev": ("multinli_1.0_dev_matched.jsonl", "multinli_1.0_dev_matched.txt"),
            "test": ("multinli_1.0_dev_mismatched.jsonl", "multinli_1.0_dev_mismatched.txt"),
        },
        read=snli.read,
        selection="accuracy",
        about={
            "dev": "the matched development pairs",
            "test": "the mismatched development pairs; the labels of the official test pairs are not public",
        },
    ),
    "trecqa": _trecqa("trecqa", "train.xml", clean=False),
    "trecqa_clean": _trecqa("trecqa_clean", "train.xml", clean=True),
    "trecqa_all": _trecqa("trecqa_all", "train-all.xml", clean=False),
    "trecqa_all_clean": _trecqa("trecqa_all_clean", "train-all.xml", clean=True),
    "twitter_url": Source(
        name="twitter_url",
        task="classification",
        labels=twitter_url.LABELS,
        folder="Twitter_URL_Corpus",
        files={
            "train": _TWITTER_TRAIN,
            "dev": _TWITTER_TRAIN,
            "test": ("Twitter_URL_Corpus_test.txt", "Twitter_URL_Corpus_test_sample.txt"),
        },
        read=twitter_url.read,
        selection="max_f1",
        read_split={"train": twitter_url.read_train, "dev": twitter_url.read_dev},
        about={"dev": _HELD_OUT},
    ),
    "ubuntu": Source(
        name="ubuntu",
        task="ranking",
        labels=ubuntu.LABELS,
        folder="ubuntu_data",
        files={"train": ("train.txt",), "dev": ("valid.txt",), "test": ("test.txt",)},
        read=ubuntu.read,
        selection="recall_at_1",
        read_split={"train": ubuntu.read_train},
    ),
    "mrpc": Source(
        name="mrpc",
        task="classification",
        labels=mrpc.LABELS,
        folder="MRPC",
        files={
            "train": ("msr_paraphrase_train.txt",),
            "dev": ("msr_paraphrase_train.txt",),
            "test": ("msr_paraphrase_test.txt",),
        },
        read=mrpc.read,
        selection="accuracy",
        read_split={"train": mrpc.read_train, "dev": mrpc.read_dev},
        about={"dev": _HELD_OUT},
    ),
    "rte": Source(
        name="rte",
        task="classification",
        labels=rte.LABELS,
        folder="RTE",
        files={"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ()},
        read=rte.read,
        selection="accuracy",
        about={"test": "the official test file has no labels"},
    ),
    "stsb": Source(
        name="stsb",
        task="regression",
        labels=(),
        folder="stsbenchmark",
        files={split: (f"sts-{split}.csv",) for split in SPLITS},
        read=stsb.read,
        selection="pearson",
    ),
}
