"""Trained models: the folder they are stored in, what predicts with them, and models from other programs."""
