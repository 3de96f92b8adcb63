"""All settings: one dataclass for each model, and one each for data, training, optimizer and execution."""
