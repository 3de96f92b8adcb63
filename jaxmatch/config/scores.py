"""All scores, with the direction that is better and the way that a table prints them."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Score:
    """A score of a model.

    Attributes:
      name: the name in records and in `training.selection`.
      title: the name in tables.
      higher_is_better: whether a higher score is better.
      percent: whether a table shows it in percent.
    """

    name: str
    title: str
    higher_is_better: bool = True
    percent: bool = False


SCORES: dict[str, Score] = {
    score.name: score
    for score in (
        Score("accuracy", "accuracy", percent=True),
        Score("f1", "F1", percent=True),
        Score("max_f1", "max F1", percent=True),
        Score("macro_f1", "macro F1", percent=True),
        Score("auc", "AUC", percent=True),
        Score("map", "MAP"),
        Score("mrr", "MRR"),
        Score("recall_at_1", "R@1"),
        Score("recall_at_2", "R@2"),
        Score("recall_at_5", "R@5"),
        Score("pearson", "Pearson"),
        Score("spearman", "Spearman"),
        Score("mse", "MSE", higher_is_better=False),
        Score("loss", "loss", higher_is_better=False),
    )
}
