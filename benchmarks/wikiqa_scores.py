"""The time to score ten models on WikiQA's dev set, all at once."""

import time
from pathlib import Path

import numpy as np

from jaxmatch.data import readers
from jaxmatch.training.scores import replica_scores

REPLICAS = 10
# The maximum time for all ten models, in milliseconds.
GOAL = 50.0
DEV = Path("WikiQACorpus", "WikiQA-dev.txt")
# For use without the data: the number of candidates of each of its 296 questions, then the number of right ones.
CANDIDATES = """
9 5 9 20 1 16 20 11 5 10 24 7 4 11 21 30 6 12 8 20 20 11 8 8 7 8 9 22 3 27 4 15 23 7 5 4 10 8 8 16 17 3 13 6 3 13 14 3
2 11 18 17 7 2 7 28 15 10 3 5 4 24 6 11 8 9 10 24 2 7 10 9 17 7 3 14 2 17 10 3 2 6 22 5 9 5 8 13 8 8 15 8 5 3 7 2 12
11 12 10 1 1 11 3 22 14 6 7 19 3 12 3 8 7 19 5 4 20 6 5 2 9 21 30 21 6 12 5 12 19 6 6 7 19 11 6 6 7 9 11 8 6 10 4 13
12 6 8 19 16 16 9 2 30 12 6 5 2 3 22 9 1 10 17 10 4 14 7 8 12 1 9 5 1 11 6 5 5 5 13 12 10 2 20 26 16 8 2 20 2 5 7 4 4
7 2 5 12 6 6 3 17 20 5 1 7 5 4 7 7 10 3 11 8 6 8 19 7 6 1 3 7 2 8 15 8 11 8 5 5 6 5 7 5 7 11 4 13 10 14 1 26 3 18 4 16
4 7 4 1 5 19 6 2 8 2 8 15 11 3 4 5 6 9 18 13 4 10 8 5 12 4 6 4 6 2 2 7 8 7 12 6 5 8 5 7 18 13 5 4 3 10 7 17 8 17
"""
RIGHT = """
0 2 1 1 0 0 0 0 1 0 0 0 0 0 1 0 0 1 0 0 1 0 0 0 0 1 0 1 0 0 0 0 1 0 0 0 0 0 2 1 0 0 0 0 1 3 0 1 1 0 0 0 0 0 0 0 0 0 1
1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 0 1 0 0 0 0 0 0 0 1 0 0 0 1 0 1 0 0 0 1 0 1 1 1 1 0 0 0 1 1 1 0 0 0 1 0 1 1 1 1 1 0 0 0
1 1 1 0 1 1 0 1 1 2 1 0 0 0 0 0 1 1 0 0 0 0 0 1 1 1 0 2 1 0 1 0 0 1 0 2 1 1 0 0 1 1 0 0 1 0 1 0 1 1 1 0 0 1 1 1 1 0 2
0 0 1 1 1 1 1 0 0 2 1 0 1 1 0 1 0 0 1 0 0 1 1 1 0 0 2 0 0 0 0 1 0 0 0 0 0 0 0 1 1 0 1 0 1 1 1 1 4 0 0 0 1 0 0 1 0 0 1
0 1 0 0 1 0 1 1 1 1 1 1 0 1 0 0 0 0 0 0 0 0 1 0 1 1 0 0 0 1 0 0 2 0 0 1 1 0 1 0 1 1 0 0 0 1 1 0 0 1 1 1 1 1 1 0 1 0 0
0
"""


def dev_labels(data_directory: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Returns the labels and questions of WikiQA's dev set, <int32>[pairs] and <int64>[pairs], and their source: the
    data, or the sizes above.

    Which candidates of a question are right does not change the work.
    """
    file = Path(data_directory) / DEV
    if data_directory and file.exists():
        split = readers.read_wikiqa(file)
        return np.asarray(split.labels, np.int32), np.unique(split.groups, return_inverse=True)[1], "its files"
    candidates, right = (np.array(text.split(), np.int32) for text in (CANDIDATES, RIGHT))
    questions = np.repeat(np.arange(len(candidates)), candidates)
    places = np.arange(len(questions)) - np.repeat(np.cumsum(candidates) - candidates, candidates)
    return (places < right[questions]).astype(np.int32), questions, "the sizes of its questions"


def scoring(labels: np.ndarray, questions: np.ndarray, replicas: int = REPLICAS):
    """Returns a function that measures the seconds to score `replicas` models by MAP, MRR, recall, accuracy and AUC."""
    generator = np.random.default_rng(0)
    outputs = generator.standard_normal((replicas, len(labels), 2)).astype(np.float32)

    def seconds() -> float:
        start = time.perf_counter()
        found = replica_scores("ranking", labels, outputs, label_names=readers.BINARY, groups=questions)
        taken = time.perf_counter() - start
        if not all(0 < scores[name] < 1 for scores in found for name in ("map", "mrr")):
            raise ValueError(f"no scores of random outputs: {found[0]}")
        return taken

    return seconds
