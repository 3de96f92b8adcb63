"""Trained models as files for programs without this package: StableHLO, ONNX, safetensors."""

from jaxmatch.inference.export.folder import FORMATS, export

__all__ = ["FORMATS", "export"]
