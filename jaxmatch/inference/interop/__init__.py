"""Conversion of models: RE2 from its authors' PyTorch and TensorFlow code, and back to PyTorch."""

from jaxmatch.inference.interop.pytorch import re2_from_pytorch, re2_to_pytorch, read_pytorch_checkpoint
from jaxmatch.inference.interop.tensorflow import re2_from_tensorflow

__all__ = ["re2_from_pytorch", "re2_from_tensorflow", "re2_to_pytorch", "read_pytorch_checkpoint"]
