"""Faults of commands and of what they print."""

MUTANTS = [
    ("jaxmatch/cli/stream.py", "poll.poll(1000 * SILENCE)", "poll.poll(None)", ["tests/test_cli_streams.py::test_an_answer_does_not_wait_for_the_next_pair"]),
    ("jaxmatch/cli/stream.py", "            number += 1\n", "", ["tests/test_cli_streams.py::test_a_line_that_is_too_long_is_named_wherever_it_stands"]),
    ("jaxmatch/cli/answers.py", "        waiting, self._waiting = self._waiting, []\n", "        waiting = self._waiting\n", ["tests/test_cli_streams.py::test_pairs_that_come_fast_are_answered_together"]),
    ("jaxmatch/cli/answers.py", "if late or len(self._waiting) >= CHUNK:", "if len(self._waiting) >= CHUNK:", ["tests/test_cli_streams.py::test_a_stream_that_never_pauses_is_answered_all_the_same"]),
    ("jaxmatch/cli/answers.py", "if needed > calibration(device.platform).to_use * there_are:", "if needed > 1000 * there_are:", ["tests/test_cli_streams.py::test_a_text_of_too_many_words_is_refused_before_it_is_tried"]),
    ("jaxmatch/cli/predict.py", "            answers.write()  # the pairs before the one that is wrong\n", "", ["tests/test_cli_streams.py::test_all_before_a_bad_line_are_answered"]),
    ("jaxmatch/cli/output.py", "        print(printable(str(text), keep=\"\\n\"), end=end)", "        print(str(text), end=end)", ["tests/test_printable.py"]),
    ("jaxmatch/cli/main.py", "        _flush_quietly()  #", "        pass  #", ["tests/test_cli.py::test_a_failing_command_does_not_complain_of_its_output_too"]),
    ("jaxmatch/cli/main.py", "        super().error(printable(\" \".join(message.split())))", "        super().error(message)", ["tests/test_cli.py::test_words_of_a_wrong_command_line_are_escaped"]),
    ("jaxmatch/reporting/tables/spreadsheet.py", "    return \"'\" * formula + printable(text)", "    return printable(text)", ["tests/test_spreadsheet.py"]),
    ("jaxmatch/reporting/tables/spreadsheet.py", " and not _NUMBER.fullmatch(text)", "", ["tests/test_spreadsheet.py"]),
    ("jaxmatch/reporting/tables/formats.py", "    return _MARKDOWN.sub(r\"\\\\\\g<0>\", printable(\" \".join(text.split())))", "    return _MARKDOWN.sub(r\"\\\\\\g<0>\", \" \".join(text.split()))", ["tests/test_printable.py"]),
    ("jaxmatch/reporting/record_schema.py", "        _check_fields(entry, {\"samples\": (int,), \"train_loss\": _NUMBER, \"dev\": (Mapping,)}, name, f\"curve.{place}.\")\n", "", ["tests/test_record_curves.py"]),
    ("jaxmatch/reporting/tables/comparisons.py", None, None, []),
    ("jaxmatch/reporting/tables/layout.py", "max(found) if HIGHER_IS_BETTER[score.partition(\".\")[2]] else min(found)", "max(found)", ["tests/test_tables.py"]),
    ("jaxmatch/reporting/tables/numbers.py", "100.0 * value if name in PERCENT else value, decimals", "100.0 * value, decimals", ["tests/test_tables.py"]),
    ("jaxmatch/reporting/tables/__init__.py", "deviation=statistics.stdev(values)" , "deviation=statistics.pstdev(values)", []),
    ("jaxmatch/reporting/tables/__init__.py", "statistics.stdev(known.values())", "statistics.pstdev(known.values())", ["tests/test_tables.py", "tests/test_table_formats.py"]),
    ("jaxmatch/reporting/html/markup.py", "    return html.escape(printable(text, keep=\"\\n\"))", "    return printable(text, keep=\"\\n\")", ["tests/test_html.py::test_a_sheet_is_escaped_and_its_best_is_bold"]),
    ("jaxmatch/reporting/html/charts.py", "for samples, value in curve.points if not curve.diverged else ():", "for samples, value in curve.points:", ["tests/test_html.py::test_the_band_is_over_runs_that_still_train_and_did_not_diverge"]),
    ("jaxmatch/analysis/ensemble.py", "probabilities.argmax(axis=2)", "probabilities.argmin(axis=2)", ["tests/test_ensemble.py"]),
    ("jaxmatch/analysis/ensemble.py", " / (2 * runs)", " / 1", ["tests/test_ensemble.py"]),
    ("jaxmatch/reporting/curves.py", "statistics.stdev(values) if len(values) > 1 else None", "statistics.pstdev(values)", ["tests/test_curves.py"]),
    ("jaxmatch/reporting/figures.py", "            _check_numbers(data)\n", "", ["tests/test_special_files.py::test_values_that_no_figure_can_show_are_refused_at_once"]),
]
MUTANTS = [each for each in MUTANTS if each[3]]
