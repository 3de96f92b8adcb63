"""Tables of measurements on a device, compared with the published figures of the device."""

import pytest
from small_records import ABOUT_A_DEVICE

from benchmarks.accelerators.targets import TARGETS, target_of
from benchmarks.device import tables


def test_published_figures_are_found_by_device_kind_and_bound_the_time():
    h200, h100 = target_of("NVIDIA H200"), target_of("NVIDIA H100 80GB HBM3")
    assert (h200.memory, h200.bandwidth, h200.compiled_as) == (141e9, 4.8e12, "h100")
    assert h100 is TARGETS["h100"] and h200.peak == h100.peak
    # 48 GB take 10 ms, and so do 4.95 TFLOP. 250 kernels start in 1 ms.
    assert h200.least_seconds("float32", 48e9, 1e12, 250) == pytest.approx(11e-3)
    assert h200.least_seconds("float32", 1e9, 4.95e12, 250) == pytest.approx(11e-3)
    assert TARGETS["v5e"].least_seconds("float32", 8.19e9, 1.0, 10**6) == pytest.approx(10e-3)
    # Devices with a similar name, but with other figures.
    assert target_of("NVIDIA H100 PCIe") is target_of("NVIDIA H200 NVL") is target_of("cpu") is None


RE2, TRITON = "re2 10 x 512 float32", "re2-triton 10 x 512 float32"


def test_table_shows_measurements_next_to_figures_compiled_without_a_device():
    row = {
        "model": "re2",
        "replicas": 10,
        "batch": 512,
        "precision": "float32",
        "temporaries": 9e9,
        "in_use": 10e9,
        "moved": 48e9,
        "kernels": 250,
        "seconds": 0.022,
        "seconds_in_a_row": 0.021,
        "loss": 1.0986,
        "least_seconds": 0.011,
        "compile_seconds": 30.0,
        "kind": "NVIDIA H200",
        "process_seconds": 60.0,
        "products": ["tensorfloat32"],
    }
    compiled = {
        "target": "h100",
        "versions": {"jax": "0.10.2"},
        "temporaries": 8e9,
        "moved": 47e9,
        "kernels": 240,
        "least_seconds": 0.015,
        "compile_seconds": 99.0,
    }
    without = {"h100 re2 train 512 10 float32": compiled}
    text = tables.markdown(
        {"h200": {"compiled": {**ABOUT_A_DEVICE, "found": {RE2: row, TRITON: {"problem": "no memory"}}}}}, without
    )
    line = "| 9.00 (8.00) | 10.00 | 48.0 (47.0) | 250 (240) | 11.00 (15.00) | 22.00 | 2.00 | 21.00 | 1.09860 | 30 |  |"
    assert (
        f"| re2 | 10 x 512 | float32 | tensorfloat32 {line}" in text
        and f"- {TRITON}: no memory" in text
        and "In brackets: compiled with jax 0.10.2." in text
    )
    # A program that is not measured yet shows only its compilation. One that failed is not listed as unmeasured.
    assert (
        "| re2-untuned | 10 x 512 | float32 |  | (8.00) |" in text and text.count("| re2 | 10 x 512 | float32 |") == 1
    )
    assert "| re2-triton | 10 x 512 | float32 |" not in text and "| re2-triton | 10 x 512 | bfloat16 |" in text
    tpu = tables.markdown({"v5e": {"compiled": {**ABOUT_A_DEVICE, "found": {RE2: {**row, "kind": "TPU v5 lite"}}}}}, {})
    assert "| re2 | 10 x 64 | bfloat16 |" in tpu and "-triton |" not in tpu and "-untuned |" not in tpu
    # A device without published figures has no bound and no compiled figures.
    unknown = {**row, "kind": "NVIDIA T4", "least_seconds": None}
    text = tables.markdown({"t4": {"compiled": {**ABOUT_A_DEVICE, "found": {RE2: unknown}}}}, without)
    assert "NVIDIA T4: no published figures, so no bound." in text
    assert "| 9.00 | 10.00 | 48.0 | 250 |  | 22.00 |  | 21.00 | 1.09860 | 30 |  |" in text
    # Programs that did not run, or ran only at tiny sizes.
    small = {**row, "overrides": {}}
    text = tables.markdown({"cpu": {"compiled": {**ABOUT_A_DEVICE, "quick": True, "found": {"a": small}}}}, without)
    assert "| 9.00 | 10.00 | 48.0 | 250 | 11.00 | 22.00 | 2.00 | 21.00 | 1.09860 | 30 |  |" in text
    assert (
        "| re2 | 10 x 512 | float32 |  | (8.00) |  | (47.0) | (240) | (15.00) | compiled, not run |  |  |  | (99) |  |"
        in text
    )
    assert "| csran | 10 x 64 | float32 |  |  |  |  |  |  | not run |  |  |  |  |" in text


def test_times_are_shown_when_the_compiled_program_cannot_be_parsed():
    """For example, XLA may have changed the text format of its programs."""
    text = tables.markdown(
        {
            "t4": {
                "compiled": {
                    **ABOUT_A_DEVICE,
                    "found": {
                        "a": {
                            "model": "re2",
                            "replicas": 10,
                            "batch": 64,
                            "precision": "float32",
                            "seconds": 0.022,
                            "seconds_in_a_row": 0.021,
                            "compile_seconds": 30.0,
                            "in_use": None,
                            "kind": "NVIDIA H200",
                            "unread": "KeyError: 'x'",
                        }
                    },
                }
            }
        },
        {},
    )
    assert "| re2 | 10 x 64 | float32 |  |  |  |  |  |  | 22.00 |  | 21.00 |  | 30 |  |" in text and "KeyError" in text


def dispatched(**changes):
    times = [{"count": 1, "seconds": 0.001, "compile_seconds": 40.0}]
    piece = {"replicas": 10, "batch": 64, "precision": "float32", "lengths": [14, 25], "times": times}
    return {**piece, "kind": "NVIDIA H200", "xla_flags": "", "commit": "b" * 40, **changes}


def page_of(stage, found, **changes):
    return tables.markdown({"h200": {stage: {**ABOUT_A_DEVICE, "found": found, **changes}}}, {})


def test_step_times_are_listed_with_their_compiler_options():
    row = "| 10 x 64 | float32 | {} | bbbbbbb | 14 and 25 | 1 | 1.000 |"
    without = "--xla_gpu_enable_triton_gemm=false"
    # Training had no compiler options at the time of the first measurements.
    first = page_of("dispatched", {"a": dispatched()})
    assert row.format("XLA's Triton products") in first and "before commit efe718d" in first
    for piece, options in (
        (dispatched(xla_flags=without), without),
        (dispatched(compiler_options={"xla_gpu_enable_triton_gemm": False}), "xla_gpu_enable_triton_gemm=False"),
        (dispatched(compiler_options={}, kind="TPU v5e"), ""),
    ):
        text = page_of("dispatched", {"a": piece})
        assert row.format(options) in text and "Triton products" not in text


def test_a_stage_lists_the_points_not_measured_yet():
    found = {"10 x 64 float32": dispatched(), "1 x 64 float32": {"problem": "no memory"}}
    text = page_of("dispatched", found)
    assert "\n\nNot measured yet: 10 x 64 bfloat16.\n\n" in text and "- 1 x 64 float32: no memory" in text
    row = {"precision": "TF32", "batch": 512, "replicas": 10, "goal": "", "remark": ""}
    found = {f"1 and 10 x {batch} float32": {"rows": [row], "notes": []} for batch in (64, 512)}
    missing = (
        "Not measured yet: 1 and 10 x 128 float32 (goal: a run ≤ 0.20); 1 and 10 x 512 bfloat16 (goal: ceiling ≥ 35%)"
    )
    assert f"{missing}.\n" in page_of("replicas", found)
    assert "1 and 10 x 64 float32 (goal: sorted peer ≥ 30)" in page_of("replicas", {"a": {"problem": "no memory"}})
    assert "Not measured yet" not in page_of("replicas", found, quick=True)
    # Each row has the commit of its own piece.
    pieces = {
        str(batch): {"rows": [{**row, "batch": batch}], "notes": [], "commit": 40 * at}
        for batch, at in ((64, "a"), (512, "b"))
    }
    lines = [line for line in page_of("replicas", pieces).splitlines() if line.startswith("| TF32")]
    assert [line.split(" | ")[-1] for line in lines] == ["aaaaaaa |", "bbbbbbb |"]
    # Points without goals are listed, too.
    text = page_of("more-replicas", found)
    assert "1 and 64 x 64 float32; 1 and 64 x 128 float32; 1 and 64 x 512 float32; 1 and 32 x 64" in text


def test_stages_that_have_not_run_are_listed():
    sentence = "Stages that have not run on this device yet: compiled, replicas, wikiqa, depth, more-replicas."
    assert sentence in page_of("dispatched", {"10 x 64 float32": dispatched()})
    assert "have not run on this device" not in page_of("dispatched", {"10 x 64 float32": dispatched()}, quick=True)
