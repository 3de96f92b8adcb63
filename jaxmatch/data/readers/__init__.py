"""One small reader for each format: a file becomes a `Split`, or one clear error with the file and the line."""
