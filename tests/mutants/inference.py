"""Faults of ranking, searching, calibrating and exporting with a trained model."""

_INFERENCE = "jaxmatch/inference/"
_CALIBRATION = _INFERENCE + "calibration.py"
_ON_CALIBRATION, _ON_SEARCH = ["tests/test_calibration.py"], ["tests/test_search.py"]
_CALIBRATED = ["tests/test_calibration.py::test_a_calibrated_run_predicts_with_its_temperature_and_threshold"]
_ON_DEV = ["tests/test_calibration.py::test_dev_can_choose_a_threshold_of_the_first_label_for_a_target_precision"]
_FEATURES = ["tests/test_feature_sweep.py::test_the_saved_model_reproduces_the_scores_of_its_record"]
_TIES = ["tests/test_calibration.py::test_ties_of_thresholds_go_to_fewer_false_positives_and_then_to_the_nearest_to_one_half"]
_QUALITY = ["tests/test_calibration.py::test_precision_recall_and_f1_of_the_positive_label_equal_sklearn"]
_ON_INDEX = ["tests/test_search.py"]
_ON_THRESHOLDS = ["tests/test_calibration.py::test_no_threshold_is_better_than_the_chosen_one"]

MUTANTS = [
    ("jaxmatch/inference/calibration.py", "logits / np.exp(log_temperature), numbers", "logits * np.exp(log_temperature), numbers", _ON_CALIBRATION),
    ("jaxmatch/inference/calibration.py", "merits = hits + (~right).sum() - (taken - hits)", "merits = hits", _ON_THRESHOLDS),
    ("jaxmatch/inference/calibration.py", "merits = 2 * hits / np.maximum(taken + right.sum(), 1)", "merits = hits / np.maximum(taken, 1)", _ON_THRESHOLDS),
    ("jaxmatch/inference/calibration.py", "possible & (precisions >= precision) & (hits > 0)", "possible & (hits > 0)", _ON_THRESHOLDS),
    ("jaxmatch/inference/calibration.py", "if len(labels) - len(missing) < 2:", "if len(labels) == len(missing):", ["tests/test_calibration.py::test_pairs_of_one_label_are_refused"]),
    ("jaxmatch/inference/calibration.py", "weights=confidence - right", "weights=right", _ON_CALIBRATION),
    (_CALIBRATION, "return logits.astype(np.float64) / self.temperature", "return logits.astype(np.float64)", _ON_CALIBRATION),
    (_CALIBRATION, "math.log(self.threshold) - math.log1p(-self.threshold)", "math.log(self.threshold)", _ON_CALIBRATION),
    (_CALIBRATION, 'if stored.pop("parameters") != parameters:', "if False:", _ON_CALIBRATION),
    ("jaxmatch/inference/calibration.py", "positive = labels[1] if positive is None", "positive = labels[0] if positive is None", _CALIBRATED),
    ("jaxmatch/inference/calibration.py", "np.abs(gaps).sum()", "abs(gaps.sum())",
     ["tests/test_calibration.py::test_expected_calibration_error_equals_sklearn_calibration_curve"]),
    ("jaxmatch/inference/calibration.py", "best[np.argmin(abs(best - 0.5))]", "best[0]", _TIES),
    ("jaxmatch/inference/calibration.py", "hits * (len(order) + 1) - taken  #", "hits  #", _TIES),
    ("jaxmatch/inference/calibration.py", "thresholds = (falling[:-1] + falling[1:]) / 2", "thresholds = falling[:-1]", _TIES),
    ("jaxmatch/inference/calibration.py", '"precision": hits / max(taken, 1)', '"precision": hits / max(labeled, 1)', _QUALITY),
    ("jaxmatch/inference/calibration.py", '"recall": hits / max(labeled, 1)', '"recall": hits / max(taken, 1)', _QUALITY),
    ("jaxmatch/inference/calibration.py", '"f1": 2 * hits / max', '"f1": hits / max', _QUALITY),
    ("jaxmatch/inference/calibration.py", "probabilities_of(logits / np.float64(temperature))[:, column]", "probabilities_of(logits)[:, column]", _CALIBRATED),
    ("jaxmatch/analysis/evaluate.py", "quality(Calibration(positive=calibration.positive), logits", "quality(Calibration(), logits", _ON_DEV),
    ("jaxmatch/inference/matcher.py", "(a.count(UNKNOWN) + b.count(UNKNOWN))", "a.count(UNKNOWN)", ["tests/test_matcher.py::test_a_prediction_tells_the_share_of_unknown_words"]),
    ("jaxmatch/inference/search.py", "near = near.astype(np.float64) - near.min()", "near = near.astype(np.float64)", _ON_SEARCH),
    ("jaxmatch/inference/search.py", "reciprocal[number] += 1 / ranks[0] if ranks else 0", "reciprocal[number] += 0", _ON_SEARCH),
    ("jaxmatch/inference/search.py", 'lines=lines, mix=described["mix"], stored', "lines=lines, stored", _ON_SEARCH),
    ("jaxmatch/inference/matcher.py", "label = self.calibration.positive", "pass",
     ["tests/test_search.py::test_match_label_is_optional_with_two_labels_and_required_with_three"]),
    ("jaxmatch/cli/models.py", 'matcher, "dev")', 'matcher, "test")', _ON_DEV),
    ("jaxmatch/inference/matcher.py", "best = np.argsort(-merits", "best = np.argsort(merits", _ON_SEARCH),
    ("jaxmatch/inference/matcher.py", "label = self.labels[1]", "label = self.labels[0]", _ON_SEARCH),
    ("jaxmatch/inference/search.py", "np.argpartition(-scores, count - 1)", "np.argpartition(scores, count - 1)", _ON_SEARCH),
    ("jaxmatch/inference/search.py", "index=int(best[one.index])", "index=one.index", _ON_SEARCH),
    ("jaxmatch/inference/search.py", 'check_replaceable(path, _INDEX, "an index")', "pass", _ON_INDEX),
    ("jaxmatch/inference/model_folder.py", "if other := sorted({path.relative_to(folder).as_posix() for path in found} - known):", "if other := []:", _ON_INDEX),
    ("jaxmatch/inference/search.py", "out=means, where=lengths > 0", "out=means, where=lengths < 0", _ON_SEARCH),
    (_INFERENCE + "matcher.py", "calibration.decisive(logits, self.labels).argmax(axis=1)", "calibration.scaled(logits).argmax(axis=1)", _CALIBRATED),
    (_INFERENCE + "matcher.py", 'and model.get("words", "fixed") == "fixed"', "",
     ["tests/test_vectors.py::test_unseen_words_are_unknown_if_word_vectors_were_trained"]),
    ("jaxmatch/inference/matcher.py", "tags_of(pair[side]) for pair", "tags_of(pair[0]) for pair", _FEATURES),
    ("jaxmatch/inference/matcher.py", "[mark[side] for mark in marks]", "[mark[1 - side] for mark in marks]", _FEATURES),
    ("jaxmatch/inference/matcher.py", "tuple(map(padded, sides)) for name", "tuple(map(padded, sides[::-1])) for name", _FEATURES),
    (_INFERENCE + "matcher.py", "(min(batch, most), batch % most)", "(batch,)", ["tests/test_warmup.py::test_warmup_prepares_the_given_batch_sizes"]),
    ("jaxmatch/reporting/records.py", "        if len(kinds) > 1:", "        if len(kinds) > 9:", ["tests/test_best_run.py", "tests/test_records.py"]),
    ("jaxmatch/inference/matcher.py", "        with _predictor_lock:", "        self.__dict__.pop(\"_predictor\", None)\n        with _predictor_lock:", ["tests/test_serve.py"]),
    ("jaxmatch/inference/export.py", '"temperature": calibration.temperature', '"temperature": 1.0', ["tests/test_export.py::test_an_export_runs_without_this_package"]),
    ("jaxmatch/inference/export.py", '"threshold": calibration.threshold', '"threshold": None', ["tests/test_export.py::test_export_states_the_calibration"]),
    ("jaxmatch/inference/export.py", '"positive": calibration.positive', '"positive": None', ["tests/test_export.py::test_export_states_the_calibration"]),
    ("jaxmatch/inference/export.py", 'check_replaceable(path, DESCRIPTION, "an export")', "pass", ["tests/test_export.py::test_export_does_not_replace_a_folder_with_other_files"]),
    ("jaxmatch/inference/export.py", "if not np.allclose(found, expected, rtol=1e-4, atol=1e-4):", "if False:", ["tests/test_export.py::test_exported_program_with_different_outputs_is_refused"]),
    ("jaxmatch/inference/export.py", "        vars(jnp).update(attributes)", "        pass", ["tests/test_export.py::test_onnx_export_of_every_model_but_diin_gives_the_same_logits"]),
    ("jaxmatch/data/text.py", '(" {2,}", " ")', '(" {2,}", "")', ["tests/test_tokens.py::test_many_spaces_take_little_time"]),
    ("jaxmatch/data/text.py", '(r"\\A|\\Z", " "), ', "", ["tests/test_tokens.py"]),
    ("jaxmatch/devices.py", "_process != os.getpid()", "False", ["tests/test_matcher.py::test_use_after_a_fork_is_refused"]),
    ("jaxmatch/inference/matcher.py", "if isinstance(texts, str):", "if False:", ["tests/test_search.py::test_invalid_arguments_of_rank_and_index_raise"]),
]
