"""The registry that the fidelity table is made from is complete and proven."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import tests.cloud
from sandbox.cloud.app import KINDS
from sandbox.cloud.registry import ENDPOINTS, RULES, Endpoint, Rule, as_table
from tests.cloud.stand_in import Client

JUDGES = {
    "tests.cloud.test_gcloud": "gcloud",
    "tests.cloud.test_gcloud_answers": "gcloud",
    "tests.cloud.test_gcloud_refusals": "gcloud",
    "tests.cloud.test_provider_traffic": "provider",
}


def proven() -> dict[str, set[str]]:
    """Return rule -> test modules that prove it."""
    found: dict[str, set[str]] = {}
    for module in pkgutil.iter_modules(tests.cloud.__path__, "tests.cloud."):
        if module.name.startswith("tests.cloud.test_"):
            for value in vars(importlib.import_module(module.name)).values():
                rules: Any = getattr(value, "proves", ())
                for rule in rules:
                    found.setdefault(rule, set()).add(module.name)
    return found


def test_every_rule_is_proven_by_a_test_and_every_proof_is_of_a_rule() -> None:
    assert proven().keys() == RULES.keys()


def test_a_rule_names_the_judges_whose_tests_prove_it() -> None:
    for rule, modules in proven().items():
        judges = {JUDGES[module] for module in modules if module in JUDGES}
        assert (rule, set(RULES[rule].judges)) == (rule, judges)


def test_every_endpoint_and_rule_has_a_citation_and_known_judges() -> None:
    assert len(KINDS) == len({id(kind) for kind in KINDS})
    entries: list[Endpoint | Rule] = [*ENDPOINTS, *RULES.values()]
    for known in entries:
        assert known.citation
        assert known.judges <= {"gcloud", "provider"}
    ids = [known.id for known in ENDPOINTS]
    assert len(ids) == len(set(ids))


def test_the_table_is_served(client: Client) -> None:
    table = client.admin("GET", "fidelity")
    assert table == as_table()
    assert len(table["endpoints"]) == len(ENDPOINTS)
    create = "container POST projects/{project}/locations/{location}/clusters"
    entry = next(entry for entry in table["endpoints"] if entry["id"] == create)
    assert entry["judges"] == ["gcloud", "provider"]
