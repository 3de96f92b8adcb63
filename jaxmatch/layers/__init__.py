"""The layers that the models are built from. Most of them are one box of a paper's figure."""
