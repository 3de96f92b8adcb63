"""Layouts of arrays in the memory of a device, where those that XLA chooses take too much memory."""

from typing import Any

import jax


def in_rows(platform: str, tree: Any) -> Any:
    """Returns the same tree, whose matrices a TPU keeps row by row. Other platforms need no such constraint.

    In the branches of a conditional, XLA for TPUs lays out matrices of [replica, parameters] column by column. Ten
    replicas are then padded to 128, so that the state of RE2 takes twelve times its size (benchmarks/NOTES.md).
    """
    if platform != "tpu":
        return tree
    from jax.experimental.layout import Layout, with_layout_constraint

    rows = Layout((0, 1))
    return jax.tree.map(lambda leaf: with_layout_constraint(leaf, rows) if leaf.ndim == 2 else leaf, tree)
