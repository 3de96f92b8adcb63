"""What programs hold and move on devices that are not here: they are compiled for them, and not run."""
