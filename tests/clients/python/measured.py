"""Figures that depend on the machine: every run prints them, and only `./test long` compares them with their bounds."""

import os


def at_most(what, figure, bound):
    print(f"measured: {what}: {figure}, bound {bound}")
    assert "CHECK_MACHINE_FIGURES" not in os.environ or figure <= bound, f"{what}: {figure} is above {bound}"
