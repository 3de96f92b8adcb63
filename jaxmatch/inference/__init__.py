"""Trained models: the folder that stores a model, prediction, and conversion from and to other programs."""
