"""jaxmatch: compact text-matching models trained as whole sweeps."""

__version__ = "0.1.0"
