"""The Helm chart: Helm's own program renders it, and Kubernetes' own schemas check the result."""

import json
import subprocess
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from helm import CHART, Helm

KEY = ["--set", "adminKey.existingSecret=gateway"]
POSTGRES = ["--set-string", 'config=[store]\nurl = "postgres://${DB_PASSWORD}@db/gateway"\n']
EVERYTHING = [
    *POSTGRES,
    *("--set", "existingSecrets={gateway-env}"),
    *("--set", "secretFiles={provider-keys}"),
    *("--set", "autoscaling.enabled=true"),
    *("--set", "ingress.enabled=true", "--set", "ingress.hosts={ai.example.com}", "--set", "ingress.className=nginx"),
    *("--set", "networkPolicy.enabled=true"),
    *("--set", "service.type=LoadBalancer"),
]
# Custom resources: the schemas of Kubernetes do not have them.
CUSTOM = [
    *("--set", "serviceMonitor.enabled=true", "--set", "serviceMonitor.authorization.existingSecret=gateway"),
    *("--set", "httpRoute.enabled=true", "--set", "httpRoute.hostnames={ai.example.com}"),
]


def documents(text: str) -> dict[tuple[str, str], dict]:
    found = [document for document in yaml.safe_load_all(text) if document]
    return {(document["kind"], document["metadata"]["name"]): document for document in found}


@pytest.mark.parametrize("version", ["1.30", "1.33", "1.37"])
@pytest.mark.parametrize("values", [KEY, [*KEY, "--set", "persistence.enabled=false"], EVERYTHING])
def test_every_object_is_valid(helm: Helm, version: str, values: list[str]) -> None:
    rendered = documents(helm.template(*values))
    assert {"StatefulSet", "Service", "ConfigMap", "ServiceAccount", "PodDisruptionBudget"} <= {kind for kind, _ in rendered}
    for document in rendered.values():
        kubernetes_validate.validate(document, version, strict=True)


def test_the_chart_passes_helms_own_check(helm: Helm) -> None:
    done = helm.run("lint", "--strict", str(CHART), *KEY)
    assert done.returncode == 0, done.stdout


def test_the_values_are_those_of_the_schema(helm: Helm) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.validate(yaml.safe_load((CHART / "values.yaml").read_text()), schema)
    refusal = helm.refusal(*KEY, "--set", "replicas=2")
    assert "replicas" in refusal and "values.schema.json" in refusal or "not allowed" in refusal


def test_the_pod_has_no_rights(helm: Helm) -> None:
    pod = documents(helm.template(*KEY))["StatefulSet", "gw-model-gateway"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_configuration_is_mounted_as_a_folder_so_that_changes_arrive(helm: Helm) -> None:
    pod = documents(helm.template(*KEY))["StatefulSet", "gw-model-gateway"]["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts["config"] == {"name": "config", "mountPath": "/etc/model-gateway", "readOnly": True}


def test_a_scrape_finds_each_pod_once(helm: Helm) -> None:
    rendered = documents(helm.template(*KEY, *CUSTOM))
    selector = rendered["ServiceMonitor", "gw-model-gateway"]["spec"]["selector"]["matchLabels"]
    services = [document for (kind, _), document in rendered.items() if kind == "Service"]
    matching = [service for service in services if selector.items() <= service["metadata"]["labels"].items()]
    assert [service["metadata"]["name"] for service in matching] == ["gw-model-gateway"]
    route = rendered["HTTPRoute", "gw-model-gateway"]["spec"]["rules"][0]
    assert route["matches"][0]["path"]["value"] == "/v1"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([], "adminKey.existingSecret is empty"),
        ([*KEY, "--set", "replicaCount=2"], "needs a PostgreSQL store"),
        ([*KEY, "--set", "autoscaling.enabled=true"], "needs a PostgreSQL store"),
        ([*KEY, "--set", "serviceMonitor.enabled=true"], "/metrics needs a key"),
        ([*KEY, "--set", "replicaCount=0"], "replicaCount"),
    ],
)
def test_a_mistake_is_refused_with_its_reason(helm: Helm, values: list[str], reason: str) -> None:
    assert reason in helm.refusal(*values)


def test_the_gateway_accepts_the_default_configuration(helm: Helm, program: Path, tmp_path: Path) -> None:
    config = documents(helm.template(*KEY))["ConfigMap", "gw-model-gateway"]["data"]["gateway.toml"]
    (tmp_path / "gateway.toml").write_text(config)
    environment = {"ADMIN_KEY": "sk-a-key-for-the-test", "HOME": str(tmp_path)}
    done = subprocess.run([program, "check", "gateway.toml"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("file", ["deploy/gateway.toml", "deploy/single/gateway.toml", "deploy/debian/gateway.toml"])
def test_the_gateway_accepts_each_configuration_that_is_shipped(program: Path, tmp_path: Path, file: str) -> None:
    path = Path(__file__).parents[2] / file
    environment = {name: "sk-a-key-for-the-test" for name in ["ADMIN_KEY", "DB_PASSWORD", "REDIS_PASSWORD", "OPENAI_API_KEY"]}
    done = subprocess.run(
        [program, "check", path], cwd=tmp_path, env={**environment, "HOME": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
