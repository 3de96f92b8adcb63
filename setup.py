"""The part that pyproject.toml cannot express: configs/ and sweeps/ are installed below the package."""

from setuptools import find_packages, setup

LAUNCHERS = {"jaxmatch.launchers.configs": "configs", "jaxmatch.launchers.sweeps": "sweeps"}

setup(packages=[*find_packages(include=["jaxmatch*"]), *LAUNCHERS], package_dir=LAUNCHERS)
