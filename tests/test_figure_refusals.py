"""A file that is not a figure is refused in one line, whatever it contains."""

import json

import pytest
from figure_values import ATTENTION, CURVES, OCCLUSION, SCORES, TIMING
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jaxmatch.errors import InputError
from jaxmatch.reporting import figures


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"kind": "picture"}', "[" * 100_000, '{"kind": ["curves"]}', "\ud800"],
)
def test_a_file_that_is_not_a_figure_is_refused(tmp_path, content):
    source = tmp_path / "values.json"
    source.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match="values.json: .*give the JSON file of a figure"):
        figures.redraw(source, tmp_path)
    with pytest.raises(InputError, match="absent.json: there is no such file"):
        figures.redraw(tmp_path / "absent.json", tmp_path)


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "attention"},
        {"kind": "occlusion", "labels": ["yes", "no"]},
        {**OCCLUSION, "change": [[1, 2], [3]]},
        {**OCCLUSION, "labels": ["one"]},
        {**ATTENTION, "tokens_a": ["a"]},
        {**CURVES, "settings": [{"name": "x"}]},
        {**CURVES, "settings": []},
        {**CURVES, "score": 3},
        {**OCCLUSION, "change_deviation": [1]},
        {**SCORES, "curves": []},
        {**TIMING, "rows": []},
        {**TIMING, "rows": [{"model": "ESAN", "parameters": 0, "batch_seconds": [1, 1]}]},
    ],
)
def test_inconsistent_figure_values_are_refused_in_one_line(tmp_path, changed):
    (tmp_path / "values.json").write_text(json.dumps(changed))
    with pytest.raises(InputError, match="values.json: does not hold the values of a figure") as caught:
        figures.redraw(tmp_path / "values.json", tmp_path / "drawn")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "drawn").exists()


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(-2, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


SHOWN = [
    *((ATTENTION, key) for key in ("blocks", "tokens_a", "tokens_b", "label", "score")),
    *((OCCLUSION, key) for key in ("change", "labels", "features")),
    *((CURVES, key) for key in ("settings", "score")),
    *((SCORES, key) for key in ("curves", "axis")),
    *((TIMING, key) for key in ("rows", "published", "batch_size")),
]


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(SHOWN), JSON)
@example((ATTENTION, "tokens_b"), [None, 1.7592612819966262e-135])  # leaves no room for the panels
def test_any_values_are_drawn_or_refused(tmp_path_factory, shown, other):
    """One value of a figure is replaced by an arbitrary value."""
    values, key = shown
    values = {**values, key: other}
    folder = tmp_path_factory.mktemp("any")
    (folder / "values.json").write_text(json.dumps(values))
    try:
        figures.redraw(folder / "values.json", folder)
    except InputError as error:
        assert error.path == folder / "values.json"
