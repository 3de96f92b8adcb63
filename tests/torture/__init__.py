"""Attacks on jaxmatch, and a judge: nothing may be lost, crash, or be silently wrong."""

from torture import answers, damage, inputs, kills, launchers, limits

GROUPS = {
    "kills": kills,
    "launchers": launchers,
    "limits": limits,
    "damage": damage,
    "inputs": inputs,
    "answers": answers,
}
