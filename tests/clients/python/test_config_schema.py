"""The JSON Schema of gateway.toml, checked by another program: it accepts the example and refuses mistakes."""

import datetime
import json
import os
import subprocess
import tomllib

import pytest
from jsonschema import Draft202012Validator, FormatChecker
from processes import ROOT


def run(*arguments):
    done = subprocess.run([os.environ["MODEL_GATEWAY_BIN"], *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def plain(value):
    """A TOML value as JSON has it: a date becomes its text."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(member) for member in value]
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def faults(text):
    validator = Draft202012Validator(json.loads(run("config", "schema")), format_checker=FormatChecker())
    return [".".join(map(str, fault.absolute_path)) for fault in validator.iter_errors(plain(tomllib.loads(text)))]


def switched_on(text):
    """The example with every setting that is switched off switched on."""
    lines = (line[1:] if line.startswith("#") and line[1:2].strip() else line for line in text.splitlines())
    return "\n".join(lines)


def test_the_schema_is_one():
    Draft202012Validator.check_schema(json.loads(run("config", "schema")))


@pytest.mark.parametrize("form", [str, switched_on])
def test_the_example_is_valid(form):
    assert faults(form((ROOT / "gateway.example.toml").read_text())) == []


def test_the_starter_file_is_valid():
    assert faults(run("config", "init", "--out", "-")) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[server]\nlisten = 5", "server.listen"),
        ("[server]\nlisden = 'a:1'", "server"),
        ("[server]\ndrain_seconds = 3601", "server.drain_seconds"),
        ("[routing]\nstrategy = 'cheap'", "routing.strategy"),
        ("[[providers]]\napi = 'openai'", "providers.0"),
        ("[[providers]]\nname = 'a'\nprice_multiplier = -1", "providers.0.price_multiplier"),
        ("[[keys]]\nname = 'k'\nkey = 'sk-0123456789'\nexpires_at = 5", "keys.0.expires_at"),
    ],
)
def test_mistakes_are_found(text, fault):
    assert faults(text) == [fault]
