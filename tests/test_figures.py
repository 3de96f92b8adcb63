"""Figures show the values they are given, the same values give the same bytes, and other files are refused."""

import json
import math
import sys
import xml.etree.ElementTree

import matplotlib
import numpy as np
import pytest
from small_records import setting_record

from jaxmatch.errors import InputError
from jaxmatch.reporting import figures
from jaxmatch.reporting.figures import curves, scores_against
from jaxmatch.reporting.records import by_setting, setting_name

# Values of a small figure of each kind.
OVER_A = [[0.2, 0.1], [0.3, 0.1], [0.5, 0.8]]
ATTENTION = {
    "kind": "attention",
    **{"text_a": "", "text_b": "", "label": "neutral", "score": None, "probabilities": {}},
    "tokens_a": ["a", "$x$", "bell\x07 \u2028"],
    "tokens_b": ["<unknown>", "日本"],
    "blocks": [
        {"name": "block 1", "over_b": [[0.9, 0.1], [0.4, 0.6], [0.25, 0.75]], "over_a": OVER_A},
        {"name": "block 2", "over_b": [[0.2, 0.8], [0.4, 0.6], [0.25, 0.75]], "over_a": OVER_A},
    ],
}
OCCLUSION = {
    "kind": "occlusion",
    "labels": ["yes", "no"],
    "features": ["embedding", "residual", "contextual"],
    "pairs": [3, 4],
    "accuracy": [0.9, 0.8],
    "change": [[[-0.4, 0.02], [None, None], [-0.1, 0.0]], [[-0.123, -0.2], [-0.3, -0.25], [-0.05, 0.05]]],
}
FIRST, LAST = {"value": 100, "mean": 0.4, "deviation": 0.1, "seeds": [0, 1]}, {"value": 200, "deviation": None}
CURVES = {
    "kind": "curves",
    "score": "dev.macro_f1",
    "axis": "samples",
    "curves": [
        {"name": f"blocks={blocks}", "points": [FIRST, FIRST | LAST | {"mean": 0.5 + blocks / 100}]}
        for blocks in range(1, 7)
    ],
}
DEPTHS = [
    {"value": 1, "mean": 0.7, "deviation": 0.1, "seeds": [0, 1]},
    {"value": 3, "mean": 0.9, "deviation": None, "seeds": [0]},
    {"value": 2, "mean": 0.8, "deviation": 0.05, "seeds": [0, 1]},
]
SCORES = {
    "kind": "scores",
    "score": "dev.accuracy",
    "axis": "model.stacked_layers",
    "curves": [{"name": "CSRAN", "points": DEPTHS[:2]}, {"name": "stacked model", "points": DEPTHS[2:]}],
}
TIMING = {
    "kind": "timing",
    "batch_size": 8,
    "length": 20,
    "rows": [
        {"model": "ESAN", "parameters": 3_856_712, "batch_seconds": [0.002, 0.004]},
        {"model": "RE2", "parameters": 2_000_000, "batch_seconds": [0.001, 0.001]},
    ],
    "published": [
        {"model": "ESAN", "parameters": "3.9M", "seconds": "0.04 ± 0.01"},
        {"model": "CSRAN", "parameters": "> 10M", "seconds": None},
    ],
}
ALL = {"attention": ATTENTION, "occlusion": OCCLUSION, "curves": CURVES, "scores": SCORES, "timing": TIMING}


def test_missing_matplotlib_is_an_error_and_the_values_are_saved(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.style", raising=False)
    with pytest.raises(InputError) as caught:
        figures.write(OCCLUSION, tmp_path, "figure")
    assert str(caught.value) == (
        "a figure needs matplotlib, which is not installed; pip install 'jaxmatch[figures]', and draw it again: "
        "jaxmatch figure FILE"
    )
    assert json.loads((tmp_path / "figure.json").read_text()) == OCCLUSION


def drawn(data):
    with figures.style_of():
        figure = figures.KINDS[data["kind"]](data)
        figure.draw_without_rendering()
    return figure


def labels(ticks):
    return [tick.get_text() for tick in ticks]


WHITE = (1.0, 1.0, 1.0, 1.0)


def color_of(axes, value):
    """Returns the color of a value in the heat map of a panel."""
    return tuple(map(float, axes.images[0].to_rgba(np.array([[value]]))[0, 0]))


def test_attention_shows_both_directions_of_each_block():
    panels = [axes for axes in drawn(ATTENTION).axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == [
        f"block {block}, {one} over {other}\n({side} sum to 1)"
        for block in (1, 2)
        for one, other, side in [("first", "second", "rows"), ("second", "first", "columns")]
    ]
    for axes, block, key in zip(panels, (0, 0, 1, 1), ("over_b", "over_a") * 2, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), ATTENTION["blocks"][block][key])
        assert axes.images[0].get_clim() == (0, 0.9)  # the same scale for all blocks
        assert color_of(axes, 0) == WHITE and color_of(axes, 0.9) != WHITE
        assert labels(axes.get_yticklabels()) == ["a", "$x$", "bell\ufffd \ufffd"]
        assert labels(axes.get_xticklabels()) == ["<unknown>", "日本"]


def test_weights_below_zero_are_red_and_those_above_it_blue():
    signed = [[[-0.3, 0.9], [0.0, 0.6], [0.25, -0.9]], np.full((3, 2), 0.1).tolist()]
    blocks = [{"name": "matching forward", "over_b": signed[0], "over_a": signed[1]}]
    axes = drawn({**ATTENTION, "blocks": blocks}).axes[0]
    assert axes.images[0].get_clim() == (-0.9, 0.9) and color_of(axes, 0) == WHITE
    (red, _, blue, _), (red_above, _, blue_above, _) = color_of(axes, -0.5), color_of(axes, 0.5)
    assert red > blue and blue_above > red_above


def test_occlusion_shows_signed_points_and_leaves_missing_values_blank():
    panels = [axes for axes in drawn(OCCLUSION).axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == ["yes", "no"]
    written = [{text.get_position(): text.get_text() for text in axes.texts} for axes in panels]
    assert written[0] == {(0, 0): "−40.0", (0, 2): "−10.0", (1, 0): "−12.3", (1, 1): "−30.0", (1, 2): "−5.0"}
    assert written[1][0, 2] == "+0.0" and written[1][1, 2] == "+5.0" and (0, 1) not in written[1]
    assert {axes.images[0].get_clim() for axes in panels} == {(-40.0, 40.0)}  # one scale for all classes
    assert {color_of(axes, 0) for axes in panels} == {WHITE} and panels[0].get_facecolor() != WHITE
    assert labels(panels[0].get_yticklabels()) == OCCLUSION["features"]
    assert labels(panels[0].get_xticklabels()) == ["1", "2"]


def test_occlusion_over_seeds_shows_mean_and_deviation():
    deviation = [[[0.011, 0.02], [None, None], [0.03, 0.0]], [[0.04, 0.05], [0.06, 0.07], [0.08, 0.09]]]
    figure = drawn({**OCCLUSION, "change_deviation": deviation, "seeds": [0, 1, 2]})
    panels = [axes for axes in figure.axes if axes.get_title()]
    written = [{text.get_position(): text.get_text() for text in axes.texts} for axes in panels]
    assert (written[0][0, 0], written[1][0, 2]) == ("−40.0\n±1.1", "+0.0\n±0.0") and (0, 1) not in written[0]
    assert figure.get_suptitle() == "mean ± sample standard deviation over 3 seeds"
    one_seed = {**OCCLUSION, "change_deviation": np.full((2, 3, 2), None).tolist(), "seeds": [0]}
    assert drawn(one_seed).axes[0].texts[0].get_text() == "−40.0"


def test_scores_are_drawn_at_the_values_of_their_setting():
    figure = drawn(SCORES)
    (axes,) = figure.axes
    assert (axes.get_xlabel(), figure.get_supylabel()) == ("stacked layers", "dev accuracy (%)")
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[1, 70], [3, 90]])
    assert labels(axes.get_xticklabels()) == ["1", "2", "3"]
    assert labels(figure.legends[0].get_texts()) == ["CSRAN (1 to 2 seeds)", "stacked model (2 seeds)"]


def test_timing_shows_sizes_and_times_beside_the_published_ones():
    sizes, times = drawn(TIMING).axes
    assert labels(sizes.get_yticklabels()) == ["ESAN", "RE2", "CSRAN"]
    ours, published = (container.lines[0].get_xydata() for container in sizes.containers)
    np.testing.assert_allclose(ours, [[3_856_712, 0], [2_000_000, 1]])
    np.testing.assert_allclose(published, [[3.9e6, 0]])  # "> 10M" is no number
    ours, published = times.containers
    np.testing.assert_allclose(ours.lines[0].get_xydata(), [[0.003, 0], [0.001, 1]])
    spread = ours.lines[2][0].get_segments()[0][:, 0]
    np.testing.assert_allclose(spread, [0.003 - 0.002 / math.sqrt(2), 0.003 + 0.002 / math.sqrt(2)])
    np.testing.assert_allclose(published.lines[2][0].get_segments()[0][:, 0], [0.03, 0.05])
    assert (sizes.get_xscale(), times.get_xscale()) == ("log", "log")
    assert times.get_xlabel() == "time for 8 pairs of 20 tokens a sentence"
    assert [text.get_text() for text in times.texts] == ["3.0 ms", "1.0 ms", "40 ms"]


def test_each_curve_has_a_line_a_band_and_a_distinct_style():
    figure = drawn(CURVES)
    (axes,) = figure.axes
    assert (axes.get_xlabel(), figure.get_supylabel()) == ("training pairs seen", "dev macro F1 (%)")
    np.testing.assert_allclose(axes.lines[1].get_xydata(), [[100, 40], [200, 52]])
    band = axes.collections[1].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (pytest.approx(30), pytest.approx(52))
    assert len({(line.get_marker(), str(line.get_color())) for line in axes.lines}) == 6
    assert labels(figure.legends[0].get_texts())[:2] == ["blocks=1 (2 seeds)", "blocks=2 (2 seeds)"]


def test_many_curves_get_one_panel_each_with_the_others_in_the_background():
    many = [CURVES["curves"][0] | {"name": f"blocks={blocks}"} for blocks in range(1, 9)]
    figure = drawn({**CURVES, "curves": many})
    assert [axes.get_title() for axes in figure.axes] == [f"blocks={blocks} (2 seeds)" for blocks in range(1, 9)]
    for axes in figure.axes:
        assert len(axes.lines) == 8 and sum(str(line.get_color()) != "gray" for line in axes.lines) == 1


@pytest.mark.parametrize("last", [100_000, 125_000, 170_000, 990_000, 9_900_000])
def test_the_lowest_panel_of_each_column_shows_numbers_that_do_not_touch(last):
    points = [CURVES["curves"][0]["points"][0] | {"value": value} for value in (5_000, last)]
    figure = drawn({**CURVES, "curves": [{"name": f"blocks={blocks}", "points": points} for blocks in range(1, 8)]})
    figure.draw_without_rendering()
    for number, axes in enumerate(figure.axes):
        ticks = [tick.label1 for tick in axes.xaxis.get_major_ticks() if tick.label1.get_visible()]
        boxes = [text.get_window_extent() for text in ticks if text.get_text()]
        assert (len(boxes) >= 2) == (number >= 4)
        assert all(left.x1 + 4 < right.x0 for left, right in zip(boxes, boxes[1:]))


@pytest.mark.parametrize("kind", ALL)
def test_same_values_give_the_same_bytes_with_any_matplotlib_style(tmp_path, kind):
    first = figures.write(ALL[kind], tmp_path / "first", "figure")
    assert [path.name for path in first] == ["figure.json", "figure.svg", "figure.png"]
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "savefig.dpi": 30, "svg.hashsalt": None}):
        second = figures.redraw(first[0], tmp_path / "second")
        assert matplotlib.rcParams["font.size"] == 20  # the user's style is unchanged
    assert [path.read_bytes() for path in first[1:]] == [path.read_bytes() for path in second]
    assert first[2].read_bytes().startswith(b"\x89PNG")
    xml.etree.ElementTree.parse(first[1])  # control characters would make it invalid


def test_a_figure_for_a_dark_background_has_another_name_and_lines_that_stand_out(tmp_path):
    files = figures.write(CURVES, tmp_path, "curves", dark=True)
    assert [path.name for path in files] == ["curves.json", "curves-dark.svg", "curves-dark.png"]
    with figures.style_of(dark=True):
        axes = figures.KINDS["curves"](CURVES).axes[0]
    to_rgb = matplotlib.colors.to_rgb
    ground = max(to_rgb(axes.get_facecolor()))
    assert all(max(to_rgb(line.get_color())) > ground + 0.3 for line in axes.lines)
    assert min(to_rgb(axes.xaxis.label.get_color())) > 0.9 and ground < 0.1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "the file is damaged"),
        ("[]", "the file is damaged"),
        ("{}", "does not hold the values of a figure"),
        ('{"kind": ["curves"]}', "does not hold the values of a figure"),
        (json.dumps({"kind": "occlusion"}), "the file is damaged"),
        (json.dumps({**OCCLUSION, "labels": ["one"]}), "the file is damaged"),
        (json.dumps({**ATTENTION, "tokens_a": ["a"]}), "the file is damaged"),
        (json.dumps({**SCORES, "axis": 3}), "the file is damaged"),
    ],
)
def test_a_file_that_is_not_a_figure_is_refused_in_one_line(tmp_path, content, problem):
    source = tmp_path / "values.json"
    source.write_text(content)
    with pytest.raises(InputError, match=f"values.json: {problem}.*give the JSON file of a figure") as caught:
        figures.redraw(source, tmp_path / "drawn")
    assert "\n" not in str(caught.value) and not (tmp_path / "drawn").exists()
    with pytest.raises(InputError, match="absent.json: there is no such file"):
        figures.redraw(tmp_path / "absent.json", tmp_path)


def of_curve(setting, seed, scores=(), status="finished", variant="", **overrides):
    curve = [
        {"samples": 100 * (step + 1), "dev": {"accuracy": score, "loss": 1.0}} for step, score in enumerate(scores)
    ]
    return setting_record(overrides, seed, None, status, variant, run=f"{setting}-seed{seed}", curve=curve)


RECORDS = [
    of_curve("b", 1, (0.5, 0.7, 0.8), blocks=10),
    of_curve("b", 0, (0.3, 0.6), blocks=10),  # stopped early
    of_curve("a", 12, (0.4,), blocks=2),
    of_curve("a", 3, (0.9, math.nan), "diverged", blocks=2),
]


def test_settings_are_sorted_by_value_and_their_runs_by_seed():
    groups = by_setting(RECORDS)
    assert [[one["run"] for one in members] for members in groups] == [["a-seed12"], ["b-seed0", "b-seed1"]]
    assert [setting_name(members[0]) for members in groups] == ["blocks 2", "blocks 10"]


def test_a_setting_is_named_by_its_variant_and_values():
    assert setting_name(of_curve("a", 0, variant="w/o enc-in", kernel=[1, 3])) == "w/o enc-in, kernel 1, 3"
    assert setting_name(of_curve("a", 0)) == "as configured"
    mixed = [of_curve("x", 0, kernel="wide"), of_curve("y", 0, kernel=3), of_curve("z", 0, variant="a", kernel=1)]
    assert [members[0]["run"] for members in by_setting(mixed)] == ["y-seed0", "x-seed0", "z-seed0"]


def test_curve_means_and_deviations_equal_hand_computed_values():
    data = curves(RECORDS)
    assert (data["kind"], data["score"]) == ("curves", "dev.accuracy")
    one, two = data["curves"]
    assert one == {"name": "blocks 2", "points": [{"value": 100, "mean": 0.4, "deviation": None, "seeds": [12]}]}
    # The curve ends where the first seed stops: the mean of the others would be of other runs.
    assert [(point["value"], point["seeds"]) for point in two["points"]] == [(100, [0, 1]), (200, [0, 1])]
    assert [point["mean"] for point in two["points"]] == pytest.approx([0.4, 0.65])
    assert two["points"][0]["deviation"] == pytest.approx(math.sqrt(2 * 0.1**2))


def test_scores_that_are_nan_or_none_are_left_out():
    found = of_curve("a", 0, (0.5, math.nan, None))
    (setting,) = curves([found])["curves"]
    assert [point["value"] for point in setting["points"]] == [100]
    (setting,) = curves([found | {"selected_on": "dev.loss"}])["curves"]
    assert [point["mean"] for point in setting["points"]] == [1.0, 1.0, 1.0]


def test_unfinished_runs_and_different_scores_are_refused():
    with pytest.raises(InputError, match="no run has finished"):
        curves([RECORDS[3]])
    with pytest.raises(InputError, match="no run has been evaluated"):
        curves([of_curve("a", 0)])
    with pytest.raises(InputError, match="different scores: dev.accuracy, dev.mrr"):
        curves([RECORDS[0], {**RECORDS[1], "selected_on": "dev.mrr"}])


DEPTH = "model.stacked_layers"


def at(seed, accuracy, variant="CSRAN", status="finished", test=None, data="snli", **changed):
    overrides = {DEPTH: changed.pop("depth", 1), **changed}
    scores = {"accuracy": accuracy, "loss": 1.0}
    return setting_record(overrides, seed, scores, status, variant, data, test=test)


BY_DEPTH = [
    at(0, 0.7, variant="stacked model", depth=2),
    at(1, 0.9, depth=10),
    at(0, 0.8, depth=10),
    at(1, 0.6, depth=2),
    at(0, 0.4, depth=2),
    at(2, math.nan, depth=2, status="diverged"),
]


def test_curves_equal_hand_computed_means_and_deviations():
    data = scores_against(BY_DEPTH, DEPTH)
    assert (data["kind"], data["axis"], data["score"]) == ("scores", DEPTH, "dev.accuracy")
    one, two = data["curves"]
    assert one["name"] == "CSRAN" and [point["value"] for point in one["points"]] == [2, 10]
    assert [point["mean"] for point in one["points"]] == pytest.approx([0.5, 0.85])
    assert [point["deviation"] for point in one["points"]] == pytest.approx([math.sqrt(0.02), math.sqrt(0.005)])
    assert [point["seeds"] for point in one["points"]] == [[0, 1], [0, 1]]
    assert two == {"name": "stacked model", "points": [{"value": 2, "mean": 0.7, "deviation": None, "seeds": [0]}]}
    losses = scores_against([one | {"selected_on": "dev.loss"} for one in BY_DEPTH], DEPTH)
    assert losses["score"] == "dev.loss" and losses["curves"][1]["points"][0]["mean"] == 1.0


def test_axis_can_be_named_by_its_suffix_and_other_axes_split_the_curves():
    records = [at(0, 0.1 * depth * rate, depth=depth, rate=rate) for depth in (1, 2) for rate in (1, 3)]
    data = scores_against(records, "stacked_layers", "dev.loss")
    assert [(curve["name"], [point["mean"] for point in curve["points"]]) for curve in data["curves"]] == [
        ("CSRAN, rate 1", [1.0, 1.0]),
        ("CSRAN, rate 3", [1.0, 1.0]),
    ]


def test_each_data_set_has_its_own_curve():
    """CSRAN's Figure 3 has one curve per data set."""
    data = scores_against([at(0, 0.5), at(0, 0.7, data="quora"), at(0, 0.8, data="quora", depth=2)], DEPTH)
    assert {curve["name"]: len(curve["points"]) for curve in data["curves"]} == {"snli: CSRAN": 1, "quora: CSRAN": 2}


@pytest.mark.parametrize(
    ("records", "arguments", "problem"),
    [
        ([], (DEPTH,), "no run has finished"),
        (BY_DEPTH, ("model.blocks",), "'model.blocks' is not an axis of .* grid; its axes are model.stacked_layers"),
        ([{**BY_DEPTH[0], "overrides": {}}], (DEPTH,), "is not an axis of .*; draw its learning curves"),
        ([at(0, 0.1, **{"other.stacked_layers": 2})], ("stacked_layers",), "is more than one axis"),
        ([at(0, 0.1, depth="deep")], (DEPTH,), "is 'deep' in run .*, which is not a number"),
        (BY_DEPTH, (DEPTH, "test.accuracy"), "is missing or undefined; its scores are dev.accuracy, dev.loss"),
        ([at(0, None)], (DEPTH,), "the score 'dev.accuracy' of run .* is missing or undefined"),
        ([at(0, 0.1), at(0, 0.2) | {"run": "other-seed0"}], (DEPTH,), "runs of two .* have model.stacked_layers=1"),
        ([at(0, 0.1), {**at(0, 0.2, depth=2), "selected_on": "dev.f1"}], (DEPTH,), "say which with --score"),
        (BY_DEPTH + BY_DEPTH, (DEPTH,), "runs of two folders or settings have .*; leave one of the two out"),
    ],
)
def test_invalid_requests_are_refused(records, arguments, problem):
    with pytest.raises(InputError, match=problem):
        scores_against(records, *arguments)
