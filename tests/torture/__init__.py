"""Attacks on jaxmatch, and a judge: nothing may be lost, crash, or be silently wrong."""
