"""Faults of what is measured and read: scores, times, significance, PyTorch's files, what a cache key names."""

_SCORES, _RECORDS = "jaxmatch/training/scores.py", "jaxmatch/sweep/recording.py"
_TIMES, _TIMING, _SIGNIFICANCE = "jaxmatch/reporting/tables/times.py", "jaxmatch/analysis/timing.py", "jaxmatch/reporting/significance.py"
_FILES, _INTEROP, _ENCODING = "jaxmatch/inference/interop/torch_files.py", "jaxmatch/inference/interop/pytorch.py", "jaxmatch/data/encoding.py"
_READ = ["tests/test_torch_files.py"]
_FLOORS, _FITTED = "jaxmatch/baselines/floors.py", ["tests/test_floors.py"]

MUTANTS = [
    (_SCORES, "positive: int = 1) -> np.ndarray:", "positive: int = 0) -> np.ndarray:", ["tests/test_scores.py::test_f1_of_two_classes_is_that_of_the_second_label"]),
    (_SCORES, "{\"f1\": f1(labels, predictions)", "{\"f1\": f1(labels, predictions, 0)",
     ["tests/test_scores.py::test_f1_of_two_classes_is_that_of_the_second_label"]),
    ("jaxmatch/data/readers/twitter_url.py", "\"1\" if positive > 3 else \"0\"", "\"0\" if positive > 3 else \"1\"",
     ["tests/test_scores.py::test_twitter_url_is_scored_on_paraphrases_from_the_votes_on"]),
    (_SCORES, "outputs[..., 1] - outputs[..., 0])}", "outputs[..., 0] - outputs[..., 1])}", ["tests/test_scores.py"]),
    (_SCORES, "(first + last) / 2.0", "last", ["tests/test_scores.py"]),
    ("jaxmatch/training/ranking.py", "(right > 0) & (right < sizes) if filtered", "(right > 0) if filtered", ["tests/test_scores.py"]),
    ("jaxmatch/config/scores.py", "Score(\"mse\", \"MSE\", higher_is_better=False)", "Score(\"mse\", \"MSE\")", ["tests/test_scores.py::test_of_errors_less_is_better_of_all_else_more"]),
    (_RECORDS, "round(1e6 * answered", "round(1e3 * answered", ["tests/test_records.py::test_microseconds_a_pair_are_millionths_of_a_second"]),
    (_RECORDS, "seconds[\"train\"] / replicas", "seconds[\"train\"]", ["tests/test_records.py::test_microseconds_a_pair_are_millionths_of_a_second"]),
    (_TIMES, "[split[\"pairs\"] / seconds", "[split[\"pairs\"] / 1e3 / seconds", ["tests/test_timing.py::test_the_table_by_hand"]),
    (_SIGNIFICANCE, "statistics.stdev(values) if", "statistics.pstdev(values) if", ["tests/test_timing.py::test_the_table_by_hand"]),
    (_TIMING, "np.array(found[warm:])", "np.array(found)", ["tests/test_timing.py::test_the_first_answers_do_not_count"]),
    (_SIGNIFICANCE, "+ other_variance**2 / (len(original) - 1)", "+ other_variance**2 / (len(values) - 1)", ["tests/test_significance.py"]),
    (_SIGNIFICANCE, "_quantile((1 + confidence) / 2, len", "_quantile(confidence, len", ["tests/test_significance.py"]),
    (_SIGNIFICANCE, "(lower > 0) == higher_is_better", "lower > 0", ["tests/test_significance.py"]),
    (_SIGNIFICANCE, "variances.append((deviation**2 / count, count - 1))", "pass", ["tests/test_significance.py"]),
    (_SIGNIFICANCE, "largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))", "largest = min(1.0, len(p_values) * p_values[place])", ["tests/test_significance.py"]),
    ("jaxmatch/reporting/tables/uncertainty.py", "max(significance.holm(p_values)) < LEVEL", "min(p_values) < LEVEL", ["tests/test_tables.py", "tests/test_uncertainty.py"]),
    ("jaxmatch/reporting/tables/captions.py", 'curve[-1].get("samples") == record.get("selected_at_samples")', 'record.get("selected_at_samples") is None', ["tests/test_uncertainty.py"]),
    ("jaxmatch/reporting/tables/uncertainty.py", "math.sqrt(share * (1 - share) / pairs)", "math.sqrt(share / pairs)", ["tests/test_uncertainty.py"]),
    ("jaxmatch/reporting/html/certainty.py", "np.heaviside(np.subtract.outer(np.asarray(values), np.asarray(others)), 0.5)", "np.heaviside(np.subtract.outer(np.asarray(values), np.asarray(others)), 1.0)", ["tests/test_uncertainty.py"]),
    ("jaxmatch/reporting/html/certainty.py", "[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2))", "[rows[:, :, None], columns[:, None, :]].max(axis=(1, 2))", ["tests/test_uncertainty.py"]),
    (_ENCODING, "        \"tokenizer_release\": importlib.metadata.version(\"nltk\"),\n", "",
     ["tests/test_features.py::test_encodings_are_made_anew_with_another_release_of_nltk"]),
    (_ENCODING, "description[\"embedded\"] = synthetic.VERSION", "pass",
     ["tests/test_features.py::test_encodings_are_made_anew_with_another_version_of_the_generated_data"]),
    (_FILES, "if (module, name) not in _KNOWN:\n            raise pickle.UnpicklingError(f\"it asks for {module}.{name}\")\n        return _KNOWN[module, name]",
     "return _KNOWN.get((module, name)) or super().find_class(module, name)", _READ),
    (_FILES, "if len(content) != storage.nbytes:", "if len(content) < storage.nbytes:", _READ),
    (_FILES, "if order == \"big\":", "if False:", _READ),
    (_FILES, "if self._left < 0:", "if False:", _READ),
    (_FILES, "as_strided(storage[offset:]", "as_strided(storage", _READ),
    (_FILES, "reach > storage.size)", "reach > storage.size + 1)", _READ),
    (_INTEROP, "read(f\"{name}.weight_v\").T", "read(f\"{name}.weight_v\")",
     ["tests/test_interop.py::test_a_checkpoint_file_answers_as_the_released_code"]),
    (_INTEROP, "checkpoint[\"state_dict\"][\"model\"]", "checkpoint[\"state_dict\"]",
     ["tests/test_interop.py::test_a_checkpoint_file_answers_as_the_released_code"]),
    (_FLOORS, "_K1 * (1 - _B + _B * candidates", "_K1 * (_B * candidates", _FITTED),
    (_FLOORS, "train = data.splits[\"train\"]", "train = data.splits[\"dev\"]", _FITTED),
    ("jaxmatch/baselines/bags.py", "np.asarray(tokens) > UNKNOWN", "np.asarray(tokens) >= UNKNOWN", _FITTED),
    ("jaxmatch/baselines/tfidf.py", "found.min(axis=1, keepdims=True) - 1", "found.max(axis=1, keepdims=True) + 1", _FITTED),
    (".ci/run", "    export NLTK_DATA\n", "", ["tests/test_packaging.py::test_continuous_integration_runs_the_tests_on_the_data_beside_the_project"]),
]
