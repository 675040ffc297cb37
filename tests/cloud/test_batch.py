"""Several calls in one request, as gcloud sends them (recorded from gcloud 528)."""

from __future__ import annotations

from email import message_from_string

from tests.cloud.stand_in import PROJECT, Client, compute

PART = (
    "--{boundary}\r\nContent-Type: application/http\r\nMIME-Version: 1.0\r\n"
    "Content-Transfer-Encoding: binary\r\nContent-ID: <f5c890f2+{number}>\r\n\r\n"
    "{request} HTTP/1.1\r\nContent-Type: application/json\r\ncontent-length: {length}\r\n"
    "accept: application/json\r\nHost: 127.0.0.1\r\n\r\n{body}\r\n"
)


def send(
    client: Client, *calls: tuple[str, str], content_type: str | None = None
) -> list[tuple[str, int, str]]:
    boundary = "===============1=="
    parts = [
        PART.format(boundary=boundary, number=number, request=request, body=body, length=len(body))
        for number, (request, body) in enumerate(calls)
    ]
    content = "".join([*parts, f"--{boundary}--\r\n"])
    header = content_type or f'multipart/mixed; boundary="{boundary}"'
    answer = client.send_raw("POST", "/batch/compute/v1", content.encode(), header)
    if answer.status_code != 200:
        return [("", answer.status_code, answer.text)]
    whole = message_from_string(f"Content-Type: {answer.headers['content-type']}\n\n{answer.text}")
    found = []
    for part in whole.walk():
        if part.get_content_type() == "application/http":
            head, _, body = str(part.get_payload()).replace("\r\n", "\n").partition("\n\n")
            found.append((str(part["Content-ID"]), int(head.split()[1]), body))
    return found


def test_each_part_is_answered_under_its_own_id(client: Client) -> None:
    client.network("a")
    path = f"/compute/v1/projects/{PROJECT}/global/networks"
    answers = send(
        client,
        (f"DELETE {path}/a?alt=json", ""),
        (f"DELETE {path}/b?alt=json", ""),
        (f"POST {path}?alt=json", '{"name": "c", "autoCreateSubnetworks": false}'),
    )
    assert [(content_id, status) for content_id, status, _ in answers] == [
        ("<response-f5c890f2+0>", 200),
        ("<response-f5c890f2+1>", 404),
        ("<response-f5c890f2+2>", 200),
    ]
    assert f"The resource 'projects/{PROJECT}/global/networks/b' was not found" in answers[1][2]
    assert client.request("GET", compute("global/networks/a"))[0] == 404
    assert client.compute("GET", "global/networks/c")["name"] == "c"


def test_fault_plans_hold_inside_a_batch(client: Client) -> None:
    rule = {"path": "/networks/a$", "method": "DELETE", "status": 503, "times": 1}
    client.admin("PUT", "faults/busy", rule)
    client.network("a")
    path = f"/compute/v1/projects/{PROJECT}/global/networks/a"
    assert [status for _, status, _ in send(client, (f"DELETE {path}", ""))] == [503]
    assert client.admin("GET", "faults")["faults"]["busy"]["fired"] == 1


def test_a_malformed_batch_is_refused(client: Client) -> None:
    assert send(client, ("x", ""), content_type="text/plain")[0][1] == 400
    assert send(client, ("", ""))[0][1] == 400
    assert send(client, ("GET /nowhere", ""))[0][1] == 404
    assert send(client, ("NONSENSE", ""))[0][1] == 400
