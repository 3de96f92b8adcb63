"""One small reader for each format: it turns a file into a `Split`, or raises one error that names file and line."""
