"""Whether a cohort of which runs have stopped goes on in a smaller program.

That must be compiled for every length of rows. On a CPU this takes little in proportion to the steps it saves. On an
accelerator it can take longer than all that is left: for an H200, RE2's programs took 12 to 14 s each to compile on 16
cores, and its steps in float32 10 microseconds for each pair of a run (benchmarks/results/device/README.md, stage
"compiled").
"""

# Pairs that one run trains on in the time that a compilation takes.
PAIRS_A_COMPILATION = 1_250_000


def pays(platform: str, pairs: int, given_up: int, programs: int) -> bool:
    """Whether shrinking saves more than it costs. It depends on nothing that is measured while a cohort trains, so that
    one that was interrupted goes on as one that was not.

    Arguments:
      platform: of the devices, as JAX calls it.
      pairs: that a run would still train on, if none stopped early.
      given_up: slots of each device that the smaller program does not have.
      programs: to be compiled for it.
    """
    return platform == "cpu" or pairs * given_up >= PAIRS_A_COMPILATION * programs
