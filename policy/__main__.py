"""The policy pack `gpudirect`: hands a stack's resources to the rules and reports what they find.

Run with `pulumi preview --policy-pack policy`. Config of the policies: `allowedRegistries` of
`allowed-images` (a list of image prefixes), `environment` of `production-protected`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    PolicyConfigSchema,
    PolicyPack,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError
from rules import NETWORK, RULES, Resource, Rule

_CONFIG_SCHEMAS = {
    "allowed-images": PolicyConfigSchema(
        {"allowedRegistries": {"type": "array", "items": {"type": "string"}}}
    ),
    "production-protected": PolicyConfigSchema({"environment": {"type": "string"}}),
}


def _known(value: Any) -> Any:
    """Return a copy of a value without what a preview does not know yet."""
    if isinstance(value, Mapping):
        known = {}
        for key in value:
            try:
                known[key] = _known(value[key])
            except UnknownValueError:
                continue
        return known
    if isinstance(value, Sequence) and not isinstance(value, str):
        items = []
        for index in range(len(value)):
            try:
                items.append(_known(value[index]))
            except UnknownValueError:
                continue
        return items
    return value


_inputs: dict[str, Mapping[str, Any]] = {}
"""What the program asks for, by URN. A preview knows it also where it knows no outputs: those of
objects in a cluster that does not exist yet are unknown as a whole."""


def _keep_inputs(args: ResourceValidationArgs, _: ReportViolation) -> None:
    _inputs[args.urn] = _known(args.props)


def _plain(resource: PolicyResource) -> Resource:
    return Resource(
        type=resource.resource_type,
        name=resource.name,
        urn=resource.urn,
        props={**_inputs.get(resource.urn, {}), **_known(resource.props)},
        networks=frozenset(d.name for d in resource.dependencies if d.resource_type == NETWORK),
    )


def _policy(name: str, rule: Rule) -> StackValidationPolicy:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        config = dict(args.get_config())
        if "environment" in args.stack_tags:
            config.setdefault("environment", args.stack_tags["environment"])
        for violation in rule([_plain(resource) for resource in args.resources], config):
            report(violation.message, violation.urn)

    return StackValidationPolicy(
        name=name,
        description=(rule.__doc__ or name).splitlines()[0],
        validate=validate,
        enforcement_level=EnforcementLevel.MANDATORY,
        config_schema=_CONFIG_SCHEMAS.get(name),
    )


PolicyPack(
    name="gpudirect",
    policies=[
        ResourceValidationPolicy(
            name="inputs",
            description="Reads what the program asks for; finds nothing by itself.",
            validate=_keep_inputs,
            enforcement_level=EnforcementLevel.ADVISORY,
        ),
        *(_policy(name, rule) for name, rule in RULES.items()),
    ],
)
