"""The plug-in under the real engine, against the sandbox's cloud (no clusters behind it).

Whole environments are the business of `tests/sandbox`; here the engine judges this plug-in: what
it shows as a change, an error or nothing.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pulumi
import pulumi_gcp as gcp
import pytest
from pulumi import automation as auto

from tests.cloud.stand_in import PROJECT, Served, compute

ROOT = Path(__file__).parents[2]
REGION = "us-central1"

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(600),
    # What the SDK's inline programs leave to the garbage collector is not the plug-in's.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Program = Callable[[], None]


def _pulumi() -> str | None:
    folders = [str(ROOT / ".sandbox" / "bin"), os.environ.get("PATH", os.defpath)]
    return shutil.which("pulumi", path=os.pathsep.join(folders))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("cloud") / "cloud.db") as served:
        yield served


@pytest.fixture(scope="module")
def stack(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    binary = _pulumi()
    if binary is None:
        pytest.skip("no pulumi: `make sandbox` builds one")
    folder = tmp_path_factory.mktemp("engine")
    for name in ("bin", "state", "home", "work"):
        (folder / name).mkdir()
    launcher = folder / "bin" / "pulumi-resource-gcp"
    launcher.write_text(
        f"#!/bin/sh\ncd {ROOT}\nexec {sys.executable} -m sandbox.plugins.pulumi_resource_gcp $@\n"
    )
    launcher.chmod(0o755)
    path = os.pathsep.join([str(launcher.parent), str(Path(binary).parent), os.environ["PATH"]])
    environment = {
        "PATH": path,
        "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
        "PULUMI_HOME": str(folder / "home"),
        "PULUMI_CONFIG_PASSPHRASE": "x",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "GOOGLE_OAUTH_ACCESS_TOKEN": "anything",
        "GOOGLE_PROJECT": PROJECT,
        "GOOGLE_REGION": REGION,
        "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": f"{served.url}/compute/v1/",
        "GOOGLE_CONTAINER_CUSTOM_ENDPOINT": f"{served.url}/container/v1beta1/",
        "GOOGLE_SERVICE_USAGE_CUSTOM_ENDPOINT": f"{served.url}/serviceusage/v1/",
        "GOOGLE_RESOURCE_MANAGER_CUSTOM_ENDPOINT": f"{served.url}/resourcemanager/v1/",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", path)
        yield Run(environment, folder / "work")


@pytest.fixture
def run(stack: Run) -> Iterator[Run]:
    """The stack, empty before and after."""
    try:
        yield stack
    finally:
        stack.clean()
        gc.collect()


class Run:
    """One stack and the commands on it."""

    def __init__(self, environment: dict[str, str], work: Path) -> None:
        options = auto.LocalWorkspaceOptions(env_vars=environment, work_dir=str(work))
        self.stack = auto.create_stack(
            "dev", project_name="proj", program=lambda: None, opts=options
        )
        self._empty = True

    def up(self, program: Program) -> auto.UpResult:
        self._empty = False
        self.stack.workspace.program = program
        return self.stack.up(color="never")

    def destroy(self) -> None:
        self.stack.destroy(color="never")
        self._empty = True

    def preview(self, program: Program) -> dict[str, int]:
        """Return how many resources would see which operation."""
        self.stack.workspace.program = program
        summary = self.stack.preview(color="never").change_summary
        return {getattr(kind, "value", kind): count for kind, count in summary.items()}

    def fails(self, call: Callable[[], object]) -> str:
        with pytest.raises(auto.CommandError) as caught:
            call()
        return str(caught.value)

    def clean(self) -> None:
        if not self._empty:
            self.destroy()


def environment_of(prefix: str, *, protected: bool = False, **cluster: Any) -> Program:
    """The recorded program: network, subnetwork, firewall rule, API, Autopilot cluster."""

    def program() -> None:
        api = gcp.projects.Service(
            "gke", service="container.googleapis.com", disable_on_destroy=False
        )
        network = gcp.compute.Network(
            "net",
            name=f"{prefix}-net",
            auto_create_subnetworks=False,
            mtu=8244,
            opts=pulumi.ResourceOptions(depends_on=[api]),
        )
        subnetwork = gcp.compute.Subnetwork(
            "sub",
            name=f"{prefix}-sub",
            network=network.id,
            region=REGION,
            ip_cidr_range="192.168.0.0/24",
        )
        gcp.compute.Firewall(
            "fw",
            name=f"{prefix}-internal",
            network=network.self_link,
            allows=[{"protocol": "tcp", "ports": ["0-65535"]}, {"protocol": "icmp"}],
            source_ranges=["192.168.0.0/16"],
        )
        made = gcp.container.Cluster(
            "cluster",
            **{
                "name": f"{prefix}-cluster",
                "location": REGION,
                "enable_autopilot": True,
                "enable_multi_networking": True,
                "allow_net_admin": True,
                "deletion_protection": protected,
                "ip_allocation_policy": {},
                "network": network.id,
                "subnetwork": subnetwork.id,
                **cluster,
            },
        )
        pulumi.export("endpoint", made.endpoint)
        pulumi.export("ca", made.master_auth.cluster_ca_certificate)

    return program


def test_an_environment_comes_stays_the_same_and_goes(run: Run, served: Served) -> None:
    program = environment_of("life")
    assert run.preview(program) == {"create": 6}
    outputs = run.up(program).outputs
    assert outputs["endpoint"].value.startswith("127.0.0.1:")
    assert outputs["ca"].secret
    assert run.preview(program) == {"same": 6}
    run.stack.refresh(color="never")
    assert run.preview(program) == {"same": 6}
    exported = run.stack.export_stack()
    assert "clientKey" in str(exported.deployment)
    run.destroy()
    assert served.runtime.running == {}
    assert _networks(served) == ["default"]


def _networks(served: Served) -> list[str]:
    answer = httpx.get(served.url + compute("global/networks")).json()
    return [item["name"] for item in answer["items"]]


def test_changes_in_place_are_made_in_place(run: Run) -> None:
    run.up(environment_of("edit"))
    changed = environment_of("edit", allow_net_admin=False, resource_labels={"team": "a"})
    assert run.preview(changed) == {"same": 5, "update": 1}
    run.up(changed)
    assert run.preview(changed) == {"same": 6}


def test_protection_holds_until_an_update_takes_it_away(run: Run) -> None:
    run.up(environment_of("guard", protected=True))
    text = run.fails(run.destroy)
    assert "Cannot destroy cluster because deletion_protection is set to true." in text
    free = environment_of("guard")
    assert run.preview(free) == {"same": 5, "update": 1}
    run.up(free)
    run.destroy()


def test_an_error_reads_as_it_does_with_the_real_provider(run: Run, served: Served) -> None:
    run.up(environment_of("twice"))

    def again() -> None:
        environment_of("twice")()
        gcp.compute.Network("other", name="twice-net", auto_create_subnetworks=False)

    text = run.fails(lambda: run.up(again))
    assert (
        "1 error occurred:\n    \t* Error creating Network: googleapi: Error 409: The resource "
        f"'projects/{PROJECT}/global/networks/twice-net' already exists, alreadyExists"
    ) in text
    assert "Traceback" not in text


def test_a_refused_value_names_resource_and_property(run: Run) -> None:
    def wrong() -> None:
        gcp.compute.Network("net", name="Bad_Name")

    text = run.fails(lambda: run.preview(wrong))
    assert (
        'gcp:compute/network:Network resource \'net\' has a problem: "name" ("Bad_Name") doesn\'t '
        "match regexp \"^(?:[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?)$\". Examine values at 'net.name'."
    ) in text


def test_a_replaced_network_takes_everything_on_it_along(run: Run) -> None:
    run.up(environment_of("old"))
    assert run.preview(environment_of("new")) == {"same": 2, "replace": 4}


def test_a_failed_cluster_stays_and_the_next_update_mends_it(run: Run, served: Served) -> None:
    served.runtime.failure = "kube-apiserver: no port left"
    program = environment_of("mend")
    try:
        text = run.fails(lambda: run.up(program))
    finally:
        served.runtime.failure = None
    assert "creating urn:pulumi:dev::proj::gcp:container/cluster:Cluster::cluster" in text
    states = run.stack.export_stack().deployment
    assert states is not None
    failed = [item for item in states["resources"] if item["type"].endswith(":Cluster")]
    assert failed[0]["initErrors"]


def test_what_exists_can_be_imported(run: Run, served: Served) -> None:
    body = {"name": "found-net", "autoCreateSubnetworks": False, "mtu": 8244}
    services = f"{served.url}/serviceusage/v1/projects/{PROJECT}/services"
    httpx.post(f"{services}/compute.googleapis.com:enable", json={}).raise_for_status()
    httpx.post(served.url + compute("global/networks"), json=body).raise_for_status()

    def program(**options: Any) -> None:
        gcp.compute.Network(
            "net",
            name="found-net",
            auto_create_subnetworks=False,
            mtu=8244,
            opts=pulumi.ResourceOptions(**options),
        )

    run.up(lambda: program(import_=f"projects/{PROJECT}/global/networks/found-net"))
    assert run.preview(program) == {"same": 2}


def test_lookups_answer_in_the_program(run: Run) -> None:
    def program() -> None:
        api = gcp.projects.Service("gke", service="container.googleapis.com")
        after = pulumi.InvokeOutputOptions(depends_on=[api])
        versions = gcp.container.get_engine_versions_output(
            location=REGION, version_prefix="1.33.", opts=after
        )
        zones = gcp.compute.get_zones_output(region=REGION, opts=after)
        pulumi.export("version", versions.latest_master_version)
        pulumi.export("zones", zones.names)
        pulumi.export("number", gcp.organizations.get_project().number)

    outputs = run.up(program).outputs
    assert outputs["version"].value.startswith("1.33.")
    assert outputs["zones"].value[0] == "us-central1-a"
    assert outputs["number"].value.isdecimal()
