"""What the papers trained and what they printed: the settings behind the rows of their tables, and the figures in
them.
"""
