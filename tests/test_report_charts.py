"""The charts of a report as Vega draws them: the label of each mark."""

import re

import pytest
import vl_convert
from small_records import record

from jaxmatch.reporting.report import of_each_setting


def curve(*values):
    return [
        {"samples": 10 * place, "train_loss": 2.0, "dev": {"accuracy": value}} for place, value in enumerate(values, 1)
    ]


def marks(drawn, kind):
    """The SVG elements of a kind of mark."""
    svg = vl_convert.vegalite_to_svg(drawn.spec)
    return re.findall(f'<path aria-label="([^"]*)"[^>]*aria-roledescription="{kind}"([^>]*)', svg)


@pytest.fixture(scope="module")
def drawn():
    """The charts of a setting with a run that misses an evaluation, and one that diverged."""
    runs = [
        record(1, seed=1, curve=curve(0.5, 0.7, 0.9), selected_at_samples=30),
        record(1, seed=2, curve=curve(0.7, None, 0.5), selected_at_samples=10),
        record(1, seed=3, curve=curve(0.1, 0.1), selected_at_samples=20, status="diverged"),
    ]
    dev, loss = of_each_setting({"<s>": runs})["<s>"]
    assert (dev.caption, loss.caption) == ("dev accuracy (%): <s>", "training loss: <s>")
    return dev


def test_mean_and_band_exclude_diverged_runs_and_missing_evaluations(drawn):
    ((text, band),) = marks(drawn, "errorband")
    deviation = 100 * 0.02**0.5
    lower, upper = (float(re.search(rf"Mean {end} stdev [^:]*: ([\d.]+)", text)[1]) for end in ("-", r"\+"))
    assert (lower, upper) == (pytest.approx(60 - deviation), pytest.approx(60 + deviation))
    assert len(re.findall("[ML]", band)) == 4  # two evaluations: the other has a single run
    (mean,) = [(text, path) for text, path in marks(drawn, "line mark") if "Mean of" in text]
    assert mean[0].endswith(": 60") and len(re.findall("[ML]", mean[1])) == 2


def test_lines_break_at_missing_values_and_are_dashed_for_diverged_runs(drawn):
    runs = {text.split("run: ")[1][:6]: path for text, path in marks(drawn, "line mark") if "run: " in text}
    assert [len(re.findall("M", path)) for path in runs.values()] == [1, 2, 1]
    dashed = {name for name, path in runs.items() if 'stroke-dasharray="4,3"' in path}
    assert len(runs) == 3 and dashed == {"seed 3"}


def test_a_dot_marks_the_selected_checkpoint_of_each_finished_run(drawn):
    found = [
        re.search(r"pairs seen: (\d+); .*: (\d+); run: (seed \d)", text).groups() for text, _ in marks(drawn, "point")
    ]
    assert found == [("30", "90", "seed 1"), ("10", "70", "seed 2")]


def test_settings_share_scales_and_a_single_value_has_a_nonempty_scale():
    def domains(**settings):
        drawn = [dev.spec["layer"][1]["encoding"] for dev, _ in of_each_setting(settings).values()]
        return [tuple(encoding[axis]["scale"]["domain"] for axis in "xy") for encoding in drawn]

    one, other = domains(a=[record(1, curve=curve(0.5))], b=[record(2, curve=curve(0.9, 0.8))])
    assert one == other == ([0, 20], [pytest.approx(48), pytest.approx(92)])
    ((_, (low, high)),) = domains(a=[record(1, curve=curve(0.5))])
    assert low < 50 < high


def test_an_empty_curve_has_no_chart():
    assert of_each_setting({"a": [record(1, curve=[])]}) == {"a": []}
