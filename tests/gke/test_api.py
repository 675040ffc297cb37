"""The Kubernetes client against scripted answers: what a watch survives, what it reports."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from sandbox.gke import kinds
from sandbox.gke.api import ApiError, KubernetesApi
from sandbox.gke.resource_types import NETWORKS, PODS, ResourceType

Answer = httpx.Response | Exception


class ScriptedServer:
    """Gives one answer after the other, and remembers what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def queries(self) -> list[dict[str, str]]:
        return [dict(request.url.params) for request in self.asked]


def client(server: Callable[[httpx.Request], httpx.Response]) -> KubernetesApi:

    api = KubernetesApi("https://cluster", ssl.create_default_context())
    api._client = httpx.AsyncClient(
        base_url="https://cluster", transport=httpx.MockTransport(server)
    )
    return api


def item(name: str, version: int, uid: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid or name, "resourceVersion": str(version)}}


def listed(version: int, *items: dict[str, Any]) -> httpx.Response:
    return httpx.Response(
        200, json={"metadata": {"resourceVersion": str(version)}, "items": list(items)}
    )


def watched(*events: tuple[str, dict[str, Any]]) -> httpx.Response:
    lines = [json.dumps({"type": kind, "object": body}) for kind, body in events]
    return httpx.Response(200, text="\n".join(lines) + "\n")


def status(code: int, reason: str, message: str = "") -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message}


def changes(server: ScriptedServer, count: int) -> list[tuple[str, str]]:
    """Follow Pods until so many changes have come."""

    async def follow() -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        async with client(server) as api:
            stream = api.follow(PODS, "birds")
            async for change in stream:
                name = change.object.get("metadata", {}).get("name", "")
                found.append((change.type.value, name))
                if len(found) == count:
                    await stream.aclose()  # type: ignore[attr-defined]
                    break
        return found

    return asyncio.run(asyncio.wait_for(follow(), 10))


def test_follow_reports_what_exists_then_that_it_is_all_then_changes() -> None:
    server = ScriptedServer(
        listed(7, item("heron", 3), item("wren", 5)),
        watched(
            ("ADDED", item("owl", 8)), ("MODIFIED", item("wren", 9)), ("DELETED", item("owl", 10))
        ),
    )
    assert changes(server, 6) == [
        ("ADDED", "heron"),
        ("ADDED", "wren"),
        ("SYNCED", ""),
        ("ADDED", "owl"),
        ("MODIFIED", "wren"),
        ("DELETED", "owl"),
    ]
    assert server.queries[1]["resourceVersion"] == "7"


def test_a_watch_that_ends_goes_on_from_the_last_version_it_saw() -> None:
    server = ScriptedServer(
        listed(7),
        watched(("ADDED", item("owl", 8)), ("BOOKMARK", item("", 12))),
        watched(("ADDED", item("wren", 13))),
    )
    assert changes(server, 3)[1:] == [("ADDED", "owl"), ("ADDED", "wren")]
    assert [query.get("resourceVersion") for query in server.queries] == [None, "7", "12"]


@pytest.mark.parametrize(
    "trouble",
    [
        watched(("ERROR", status(410, "Expired", "too old resource version"))),
        httpx.Response(410, json=status(410, "Gone")),
        httpx.Response(503, text="upstream is away"),
        httpx.ReadError("connection reset"),
    ],
    ids=["410-in-the-stream", "410", "503", "reset"],
)
def test_after_a_lost_watch_the_difference_is_reported_and_nothing_twice(trouble: Answer) -> None:
    server = ScriptedServer(
        listed(7, item("heron", 3), item("wren", 5), item("owl", 6)),
        trouble,
        listed(20, item("heron", 3), item("wren", 15), item("crow", 16)),
        watched(("ADDED", item("finch", 21))),
    )
    assert changes(server, 9)[4:] == [
        ("DELETED", "owl"),
        ("MODIFIED", "wren"),
        ("ADDED", "crow"),
        ("SYNCED", ""),
        ("ADDED", "finch"),
    ]


def test_an_object_made_anew_meanwhile_is_another_object() -> None:
    server = ScriptedServer(
        listed(7, item("owl", 3, "first")),
        httpx.ReadError("connection reset"),
        listed(9, item("owl", 8, "second")),
    )
    assert changes(server, 5)[2:] == [("DELETED", "owl"), ("ADDED", "owl"), ("SYNCED", "")]


def test_a_kind_that_comes_later_is_waited_for() -> None:
    """[R30]."""
    server = ScriptedServer(httpx.Response(404, json=status(404, "NotFound")), listed(1))
    assert changes(server, 1) == [("SYNCED", "")]


@pytest.mark.parametrize("code", [404, 429, 503])
def test_a_kind_is_installed_once_a_young_api_server_serves_it(code: int) -> None:
    not_yet = "the request has been made before all known HTTP paths have been installed"
    server = ScriptedServer(
        httpx.Response(201, json=item("computeclasses.cloud.google.com", 1)),
        httpx.Response(code, json=status(code, "NotYet", not_yet)),
        listed(2),
    )

    async def install() -> None:
        async with client(server) as api:
            await kinds.install(api, multi_networking=False)

    asyncio.run(install())
    assert server.answers == []


def test_a_refused_watch_is_an_error() -> None:
    server = ScriptedServer(httpx.Response(403, json=status(403, "Forbidden", "not yours")))
    with pytest.raises(ApiError, match="not yours") as error:
        changes(server, 1)
    assert (error.value.code, error.value.reason) == (403, "Forbidden")


@pytest.mark.parametrize(
    ("kind", "arguments", "path"),
    [
        (PODS, ("birds", "owl", "status"), "/api/v1/namespaces/birds/pods/owl/status"),
        (PODS, (), "/api/v1/pods"),
        (NETWORKS, (None, "vpc1"), "/apis/networking.gke.io/v1/networks/vpc1"),
        (NETWORKS, ("birds", "vpc1"), "/apis/networking.gke.io/v1/networks/vpc1"),
    ],
)
def test_paths_follow_the_scope_of_the_kind(
    kind: ResourceType, arguments: tuple[str | None, ...], path: str
) -> None:
    assert kind.path(*arguments) == path  # type: ignore[arg-type]


def test_writes_name_their_manager_and_are_checked_strictly() -> None:
    server = ScriptedServer(*(httpx.Response(200, json=item("owl", 1)) for _ in range(3)))

    async def write() -> None:
        async with client(server) as api:
            pod = {"metadata": {"name": "owl", "namespace": "birds"}}
            await api.create(PODS, pod, dry_run=True)
            await api.create(PODS, pod, subresource="binding")
            await api.apply(PODS, pod)

    asyncio.run(write())
    assert [request.url.path for request in server.asked] == [
        "/api/v1/namespaces/birds/pods",
        "/api/v1/namespaces/birds/pods/owl/binding",
        "/api/v1/namespaces/birds/pods/owl",
    ]
    assert server.queries[0] == {
        "fieldManager": "gke-sandbox",
        "fieldValidation": "Strict",
        "dryRun": "All",
    }
    assert server.queries[2]["force"] == "true"
    assert server.asked[2].headers["content-type"] == "application/apply-patch+yaml"


def test_what_is_not_there_is_none_and_deleting_it_is_false() -> None:
    gone = httpx.Response(404, json=status(404, "NotFound"))
    server = ScriptedServer(gone, httpx.Response(404, json=status(404, "NotFound")))

    async def ask() -> tuple[object, bool]:
        async with client(server) as api:
            return await api.get(PODS, "owl", "birds"), await api.delete(PODS, "owl", "birds")

    assert asyncio.run(ask()) == (None, False)
