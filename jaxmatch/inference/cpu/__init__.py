"""Faster prediction on a CPU: `prepare` is all that other packages use.

docs/cpu_inference.md says what each optimization does, what it saves and how to switch it off.
"""

from jaxmatch.inference.cpu.predictor import prepare

__all__ = ["prepare"]
