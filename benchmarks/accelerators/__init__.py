"""The memory and the traffic of programs on devices that are not present. The programs are compiled, and not run."""
