"""Faster prediction on a CPU. Other packages use `prepare` only.

docs/cpu_inference.md describes what each optimization does, what it saves and how to switch it off.
"""

from jaxmatch.inference.cpu.predictor import prepare

__all__ = ["prepare"]
