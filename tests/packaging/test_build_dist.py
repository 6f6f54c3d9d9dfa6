"""`deploy/build-dist` with a compiler and tools that only write down how they are called."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT

HOST = "x86_64-unknown-linux-gnu"
MERGE = """if [ "$1" = --version ]; then echo "  Debian LLVM version $LLVM.1.8"; exit; fi
    touch "${2#--output=}\""""
TOOLS = {
    "rustc": f'if [ "$1" = -vV ]; then printf "host: {HOST}\\nLLVM version: 22.1.2\\n"; else echo /nowhere; fi',
    # The text of a program tells its flags.
    "cargo": f"""echo "$1 ${{RUSTFLAGS-}} ${{*: -1}}" >>"$CALLS"
        mkdir -p target/{HOST}/dist target/dist
        echo "${{RUSTFLAGS-plain}}" >target/{HOST}/dist/model-gateway
        cp "$TOOLS/gw-bench" target/dist/gw-bench""",
    # In the training, the instrumented program writes a profile. Under valgrind, callgrind writes the functions that ran.
    "gw-bench": """echo "gw-bench $3" >>"$CALLS"
        if [ "$3" = train ]; then touch "$(dirname "$LLVM_PROFILE_FILE")/1.profraw"; exit; fi
        mkdir -p target/dist/order
        printf "fn=(1) start\\nfn=(2) chat\\nfn=(1)\\n" | tee target/dist/order/chat.1 >target/dist/order/chat.2""",
    "llvm-profdata-22": MERGE,
    "llvm-profdata": MERGE,
    "valgrind": "exit",
    "readelf": "echo 'Linker: LLD 22.1.2'",
}


class Build:
    """The script in a folder of its own."""

    def __init__(self, directory: Path) -> None:
        self.root = directory
        self.tools = directory / "tools"
        self.calls = directory / "calls"
        self.program = directory / "target/dist/model-gateway"
        (directory / "deploy").mkdir()
        self.tools.mkdir()
        shutil.copy(ROOT / "deploy/build-dist", directory / "deploy")
        for name, text in TOOLS.items():
            (self.tools / name).write_text(f"#!/bin/bash\n{text}\n")
            (self.tools / name).chmod(0o755)

    def run(self, llvm: str = "22", **settings: str) -> str:
        """Gives what the script reports."""
        self.calls.write_text("")
        environment = {"CALLS": str(self.calls), "TOOLS": str(self.tools), "LLVM": llvm, **settings}
        environment["PATH"] = f"{self.tools}:{os.environ['PATH']}"
        script = self.root / "deploy/build-dist"
        done = subprocess.run([str(script)], capture_output=True, text=True, env=environment, timeout=60, check=True)
        return done.stderr


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Build(tmp_path)


def test_the_shipped_program_has_the_profile_of_the_instrumented_one(build: Build) -> None:
    assert "2 functions in the order of their use" in build.run()
    profile = next((build.root / "target/dist/profile").glob("*.profdata"))
    assert build.program.read_text().strip() == f"-Cprofile-use={profile}"
    assert build.calls.read_text().count("gw-bench train") == 1
    # The instrumented program is the same, so its profile is used again: the program stays the same, too.
    build.run()
    assert "gw-bench train" not in build.calls.read_text()
    assert build.program.read_text().strip() == f"-Cprofile-use={profile}"


def test_without_a_fitting_tool_the_program_is_built_without_a_profile(build: Build) -> None:
    assert "no llvm-profdata of LLVM 22: the program is built without a profile" in build.run(llvm="14")
    assert build.program.read_text() == "plain\n"
    assert "profile" not in build.calls.read_text()


def test_a_profile_can_be_left_out(build: Build) -> None:
    assert "llvm-profdata" not in build.run(PROFILE="none")
    assert build.program.read_text() == "plain\n"
