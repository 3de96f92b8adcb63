"""The `jaxmatch` command. Nothing here knows how a model works; each subcommand calls one function and prints."""
