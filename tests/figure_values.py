"""Values of a small figure of each kind."""

ATTENTION = {
    "kind": "attention",
    "text_a": "",
    "text_b": "",
    "label": "neutral",
    "score": None,
    "probabilities": {},
    "tokens_a": ["a", "$x$", "bell\x07 \u2028"],
    "tokens_b": ["<unknown>", "日本"],
    "blocks": [
        {
            "name": "block 1",
            "over_b": [[0.9, 0.1], [0.4, 0.6], [0.25, 0.75]],
            "over_a": [[0.2, 0.1], [0.3, 0.1], [0.5, 0.8]],
        },
        {
            "name": "block 2",
            "over_b": [[0.2, 0.8], [0.4, 0.6], [0.25, 0.75]],
            "over_a": [[0.2, 0.1], [0.3, 0.1], [0.5, 0.8]],
        },
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
CURVES = {
    "kind": "curves",
    "score": "dev.macro_f1",
    "settings": [
        {
            "name": f"blocks={blocks}",
            "seeds": [0, 1],
            "points": [
                {"samples": 100, "mean": 0.4, "deviation": 0.1, "seeds": 2},
                {"samples": 200, "mean": 0.5 + blocks / 100, "deviation": None, "seeds": 1},
            ],
        }
        for blocks in range(1, 15)
    ],
}
SCORES = {
    "kind": "scores",
    "score": "dev.accuracy",
    "axis": "model.stacked_layers",
    "curves": [
        {
            "name": "CSRAN",
            "points": [
                {"value": 1, "mean": 0.7, "deviation": 0.1, "seeds": [0, 1]},
                {"value": 3, "mean": 0.9, "deviation": None, "seeds": [0]},
            ],
        },
        {"name": "stacked model", "points": [{"value": 2, "mean": 0.8, "deviation": 0.05, "seeds": [0, 1]}]},
    ],
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
