"""The files of ``deploy/``: everything about them that can be checked without Docker, systemd and
Kubernetes."""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from holdfast import Engine
from holdfast.cli.loading import load_module
from holdfast.cli.main import cli
from holdfast.server import app
from tests.server.clients import ApiClient

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text("utf-8")))
UNITS = sorted(DEPLOY.glob("*.service"))


def containers():
    for manifest in MANIFESTS:
        if manifest["kind"] == "Deployment":
            yield from manifest["spec"]["template"]["spec"]["containers"]


def unit(path):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read(path)
    return parser


def commands():
    """Yield each command line of ``holdfast`` in these files."""
    for name in ("worker", "server"):
        yield f"compose {name}", COMPOSE["services"][name]["command"]
    for container in containers():
        yield f"kubernetes {container['name']}", container["args"]
    for path in UNITS:
        words = shlex.split(unit(path)["Service"]["ExecStart"])
        assert words[0].endswith("/holdfast")
        yield path.name, [word for word in words[1:] if word != "$HOLDFAST_MODULES"]


@pytest.mark.parametrize(("place", "words"), list(commands()), ids=lambda value: str(value)[:30])
def test_a_command_has_only_options_that_exist(place, words):
    command = cli.get_command(None, words[0])
    options = {option for param in command.params for option in param.opts}

    assert [word for word in words if word.startswith("--") and word not in options] == []


def test_the_image_copies_files_that_exist_and_runs_without_root():
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    copied = re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
    names = [name for line in copied for name in line.split()[:-1]]
    ignored = (ROOT / ".dockerignore").read_text("utf-8")

    assert [name for name in names if not (ROOT / name).exists()] == []
    assert [name for name in names if f"!{name}" not in ignored] == []
    assert re.search(r"^USER 10001$", text, re.MULTILINE)
    extras = set(re.search(r"\.\[(.+?)\]", text)[1].split(","))
    assert extras <= set(_project()["optional-dependencies"])
    assert text.count("[postgres,sqlite,encryption,mcp]") == 2


def _project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_compose_has_a_database_a_worker_and_a_server():
    services = COMPOSE["services"]

    assert set(services) == {"database", "worker", "server"}
    for name in ("worker", "server"):
        url = services[name]["environment"]["HOLDFAST_DB"]
        assert url.startswith("postgresql://holdfast:${POSTGRES_PASSWORD")
        assert services[name]["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert services["server"]["ports"] == ["127.0.0.1:4653:4653"]
    assert (DEPLOY / "app" / f"{services['worker']['command'][1]}.py").exists()


def test_nothing_contains_a_password():
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            assert not re.search(r"PASSWORD[=:] *['\"]?\w", path.read_text("utf-8")), path


def probes():
    (server,) = [container for container in containers() if container["name"] == "server"]
    return [server[kind]["httpGet"] for kind in ("livenessProbe", "readinessProbe")]


@pytest.mark.parametrize("probe", probes(), ids=lambda probe: probe["path"])
def test_a_probe_is_answered_by_a_server_with_its_host_names(tmp_path, probe):
    headers = {header["name"]: header["value"] for header in probe["httpHeaders"]}
    with Engine(tmp_path / "x.db", work=False) as engine:
        client = ApiClient(app(engine, hosts=["holdfast"]), {})

        assert client("GET", probe["path"], headers=headers, raw=True).status_code == 200
        refused = client("GET", probe["path"], headers={"Host": "10.1.2.3:4653"}, raw=True)

    assert refused.status_code in (400, 403, 421)


def test_containers_have_no_more_rights_than_they_need():
    for manifest in MANIFESTS:
        if manifest["kind"] == "Deployment":
            pod = manifest["spec"]["template"]["spec"]
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["terminationGracePeriodSeconds"] >= 10
    assert all(
        container["securityContext"]["allowPrivilegeEscalation"] is False
        for container in containers()
    )


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_gives_steps_time_to_end_and_restarts(path):
    service = unit(path)["Service"]

    assert service["Restart"] == "always" and service["KillSignal"] == "SIGTERM"
    assert service["NoNewPrivileges"] == "yes"
    timeout = re.search(r"--shutdown-timeout (\d+)s", service["ExecStart"])
    if timeout is not None:
        assert int(service["TimeoutStopSec"]) > int(timeout[1])


def test_the_workflows_of_the_example_run(tmp_path):
    module = load_module(str(DEPLOY / "app" / "workflows.py"))

    with Engine(tmp_path / "x.db", workflows=[module.hello]) as engine:
        assert engine.start(module.hello, "you").result(timeout="20s") == "Hello, you!"
