"""The parts that the packaging tests share."""

import os
from pathlib import Path

import pytest

from helm import Helm

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def program() -> Path:
    """The gateway's program."""
    return Path(os.environ["MODEL_GATEWAY_BIN"])
