"""The parts of the models: each file is one box of a paper's figure."""
