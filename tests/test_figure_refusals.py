"""A file that is not a figure is refused in one line, whatever it contains."""

import json

import pytest
from figure_values import ATTENTION, CURVES, OCCLUSION, SCORES, TIMING

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
