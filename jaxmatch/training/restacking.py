"""The decision whether a cohort continues in a smaller program after some of its runs have stopped.

The smaller program must be compiled for every row length. On a CPU, compilation takes little time compared with the
steps that it saves. On an accelerator, it can take longer than the rest of the training: for an H200, RE2's programs
took 12 to 14 s each to compile on 16 cores, and its steps in float32 10 microseconds for each pair of a run
(benchmarks/results/device/README.md, stage "compiled").
"""

# Pairs that one run trains on in the time that a compilation takes.
PAIRS_A_COMPILATION = 1_250_000


def pays(platform: str, pairs: int, given_up: int, programs: int) -> bool:
    """Returns whether shrinking saves more time than it costs.

    The decision depends on nothing that is measured while a cohort trains, so that a cohort that was interrupted
    continues like one that was not.

    Arguments:
      platform: the platform of the devices, as JAX names it.
      pairs: the number of pairs that a run would still train on if no run stopped early.
      given_up: the number of slots that each device loses.
      programs: the number of programs to compile for the smaller size.
    """
    return platform == "cpu" or pairs * given_up >= PAIRS_A_COMPILATION * programs
