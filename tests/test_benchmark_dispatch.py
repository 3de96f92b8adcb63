"""The labels with which the scoring of ten models is timed."""

import numpy as np
import pytest

from benchmarks import wikiqa_scores
from jaxmatch.training.ranking import scores_of_groups


def test_committed_group_sizes_equal_those_of_the_data(data_folder):
    labels, questions, source = wikiqa_scores.dev_labels("")
    real, real_questions, real_source = wikiqa_scores.dev_labels(str(data_folder))
    assert "sizes" in source and "files" in real_source

    def sizes(labels, questions):
        candidates = np.bincount(questions)
        return sorted(zip(candidates, np.bincount(questions, weights=labels), strict=True))

    assert sizes(labels, questions) == sizes(real, real_questions)


def test_scoring_is_timed_and_labels_without_right_answers_raise():
    labels, questions, _ = wikiqa_scores.dev_labels("")
    assert (len(labels), labels.sum(), questions[-1] + 1) == (2733, 140, 296)
    counted = scores_of_groups(labels, np.zeros(len(labels)), questions)["map"]
    assert len(counted) == 122  # questions with right and wrong candidates
    assert wikiqa_scores.scoring(labels, questions)() > 0
    with pytest.raises(ValueError, match="no scores"):
        wikiqa_scores.scoring(np.zeros_like(labels), questions)()
