"""The `jaxmatch` command. No module here knows how a model works: each subcommand calls one function and prints."""
