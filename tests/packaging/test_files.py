"""The other files of deploy/: the Debian package, systemd units, compose files, the image and the release workflow."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from conftest import ROOT

DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="session")
def package(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package of the program."""
    out = tmp_path_factory.mktemp("debian")
    done = subprocess.run([DEPLOY / "debian" / "build", program, out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (package,) = out.glob("*.deb")
    return package


def test_the_package_has_every_file_with_its_rights(package: Path) -> None:
    listing = subprocess.run(["dpkg-deb", "-c", package], capture_output=True, text=True, check=True).stdout
    files = {line.split()[5]: (line.split()[0], line.split()[1]) for line in listing.splitlines()}
    for path, mode in {
        "./usr/bin/model-gateway": "-rwxr-xr-x",
        "./etc/model-gateway/gateway.toml": "-rw-r-----",
        "./usr/lib/systemd/system/model-gateway.service": "-rw-r--r--",
        "./usr/lib/systemd/system/model-gateway.socket": "-rw-r--r--",
        "./usr/share/man/man1/model-gateway.1.gz": "-rw-r--r--",
        "./usr/share/bash-completion/completions/model-gateway": "-rw-r--r--",
        "./usr/share/doc/model-gateway/copyright": "-rw-r--r--",
        "./usr/share/doc/model-gateway/examples/gateway.example.toml": "-rw-r--r--",
    }.items():
        assert files[path] == (mode, "root/root"), path


def test_the_package_names_what_it_needs_and_keeps_the_configuration(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "-e", package, tmp_path], check=True)
    control = (tmp_path / "control").read_text()
    assert re.search(r"^Depends: libc6 \(>= 2\.\d+\), libgcc-s1", control, re.MULTILINE), control
    assert (tmp_path / "conffiles").read_text() == "/etc/model-gateway/gateway.toml\n"
    for script in ["postinst", "prerm", "postrm"]:
        subprocess.run(["sh", "-n", tmp_path / script], check=True)


def test_relocations_as_a_bitmap_need_a_later_glibc(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("int value; int *pointers[] = {&value, &value}; int main(void) { return *pointers[0]; }")

    def needed(*flags: str) -> tuple[int, ...]:
        subprocess.run(["gcc", "-pie", "-fPIE", *flags, "-o", tmp_path / "program", source], check=True)
        done = subprocess.run([DEPLOY / "debian" / "needed-glibc", tmp_path / "program"], capture_output=True, text=True, check=True)
        return tuple(int(part) for part in done.stdout.split(".")) if done.stdout else ()

    assert needed("-static-pie") == ()
    assert (2, 0) < needed() < (2, 36)
    assert needed("-Wl,-z,pack-relative-relocs") == (2, 36)


def test_a_package_that_is_built_twice_is_the_same(package: Path, program: Path, tmp_path: Path) -> None:
    subprocess.run([DEPLOY / "debian" / "build", program, tmp_path], capture_output=True, check=True)
    (again,) = tmp_path.glob("*.deb")
    assert again.read_bytes() == package.read_bytes()


def test_lintian_finds_nothing(package: Path) -> None:
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", package], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_the_installed_program_runs(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "-x", package, tmp_path], check=True)
    done = subprocess.run([tmp_path / "usr/bin/model-gateway", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("model-gateway ")


def test_the_service_is_valid_and_confined(tmp_path: Path) -> None:
    unit = (DEPLOY / "systemd" / "model-gateway.service").read_text()
    # The check wants a program that exists.
    installed = tmp_path / "model-gateway.service"
    installed.write_text(unit.replace("/usr/bin/model-gateway", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", installed], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    threshold = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=20", installed], capture_output=True, text=True
    )
    assert threshold.returncode == 0, threshold.stdout


@pytest.mark.parametrize("file", ["compose.yaml", "compose.single.yaml"])
def test_each_container_of_a_compose_file_has_no_rights(file: str) -> None:
    services = yaml.safe_load((DEPLOY / file).read_text())["services"]
    gateways = [service for name, service in services.items() if name.startswith("gateway")]
    assert gateways
    for gateway in gateways:
        assert gateway["read_only"] is True
        assert gateway["cap_drop"] == ["ALL"]
        assert gateway["security_opt"] == ["no-new-privileges:true"]


def test_the_image_is_empty_but_for_the_program_and_its_user_is_a_number() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    last = lines[len(lines) - lines[::-1].index("FROM scratch") - 1 :]
    assert "USER 10001:10001" in last
    assert not [line for line in last if line.startswith("RUN")]


def test_the_release_workflow_is_valid_and_every_action_is_pinned() -> None:
    workflow = ROOT / ".github" / "workflows" / "release.yml"
    for check in [
        ["check-jsonschema", "--builtin-schema", "vendor.github-workflows"],
        # Finds injections, rights that are too wide and actions without a pin.
        ["zizmor", "--offline", "--no-progress", "--persona", "pedantic"],
    ]:
        done = subprocess.run([*check, workflow], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    used = re.findall(r"uses: (\S+)", workflow.read_text())
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used), used
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    assert jobs["build"]["permissions"] == {"contents": "read"}
    assert "secrets." not in workflow.read_text()
