"""`doctor`: why GPU Pods of an environment do not work, with the line that proves it.

Owns the options and the two lists that are shown. Does not own the causes (`diagnosis`), the
reading of the cluster (`cluster_evidence`) nor the way into it (`cluster_access`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from gpudirect.diagnosis import Diagnosis

_EXAMPLES = """\b
Examples:
  python -m gpudirect doctor --stack dev
  python -m gpudirect doctor --namespace training
"""


class _Trouble(click.ClickException):
    """No look at the cluster was possible: exit code 1 is for what was found there."""

    exit_code = 2


@click.command("doctor", epilog=_EXAMPLES)
@click.option(
    "--stack",
    envvar="GPUDIRECT_STACK",
    metavar="NAME",
    help="Pulumi stack whose cluster is looked at.",
)
@click.option(
    "--program",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of the Pulumi program.  [default: this checkout]",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Way into the cluster without a stack.  [default: $KUBECONFIG, ~/.kube/config]",
)
@click.option("--context", "kube_context", metavar="NAME", help="Context of the kubeconfig.")
@click.option("-n", "--namespace", metavar="NAME", help="Namespace to look at.  [default: all]")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@click.pass_context
def command(context: click.Context, /, **said: Any) -> None:
    """Find out why GPU Pods do not work.

    Looks at Pods that use the GPU network, at the networks, the addons and the nodes; changes
    nothing. Exit code 1 says that there is evidence of a failure.
    """
    from gpudirect.cluster_access import ClusterAccessError, LoginHelperMissingError
    from gpudirect.deployed_stack import StackOutputError
    from gpudirect.diagnosis.evidence import failure

    last_run: Mapping[str, Any] = {}
    try:
        outputs = _outputs(said)
        last_run = _last_run(outputs)
        diagnoses = _look(said, outputs)
    except LoginHelperMissingError as error:
        diagnoses = [failure("login-helper-missing", "this machine", str(error))]
    except (ClusterAccessError, StackOutputError) as error:
        raise _Trouble(str(error)) from error
    failures = [diagnosis for diagnosis in diagnoses if diagnosis.is_failure]
    others = [diagnosis for diagnosis in diagnoses if not diagnosis.is_failure]
    if said["as_json"]:
        document = {
            "failures": [diagnosis.to_json() for diagnosis in failures],
            "noEvidence": [diagnosis.to_json() for diagnosis in others],
            "lastRun": dict(last_run) or None,
        }
        click.echo(json.dumps(document, indent=2))
    else:
        _print(failures, others, last_run)
    context.exit(1 if failures else 0)


def _outputs(said: Mapping[str, Any]) -> Mapping[str, Any]:
    if not said["stack"]:
        return {}
    from gpudirect.deployed_stack import read_stack_outputs

    return read_stack_outputs(said["stack"], program=said["program"])


def _last_run(outputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the smoke test left behind: its Pods are gone."""
    result = outputs.get("smokeTest")
    if not isinstance(result, dict) or result.get("verdict") in (None, "off"):
        return {}
    keys = ("verdict", "reasons", "startedAt", "simulated", "diagnosis")
    return {key: result[key] for key in keys if key in result}


def _look(said: Mapping[str, Any], outputs: Mapping[str, Any]) -> list[Diagnosis]:
    from gpudirect.cluster_access import connect, read_kubeconfig_file, read_stack_kubeconfig

    if said["stack"] and not said["kubeconfig"]:
        kubeconfig = read_stack_kubeconfig(said["stack"], program=said["program"])
    else:
        kubeconfig = read_kubeconfig_file(said["kubeconfig"] or _default_kubeconfig())
    client = connect(kubeconfig, context=said["kube_context"])
    from gpudirect.cluster_evidence import collect_evidence
    from gpudirect.diagnosis import diagnose

    networks = outputs.get("networks")
    expected = [str(entry["network"]) for entry in networks] if isinstance(networks, list) else []
    with client:
        evidence = collect_evidence(
            client,
            said["namespace"],
            expected_networks=expected,
            expected_environment=_profile(said["stack"], outputs),
        )
    return diagnose(evidence)


def _profile(stack: str | None, outputs: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the NCCL variables of the stack's profile; none where its outputs do not say."""
    from gpudirect.deployed_stack import StackOutputError, environment_of

    if stack is None:
        return {}
    try:
        environment = environment_of(stack, outputs)
    except StackOutputError:
        return {}
    return environment.release.profiles.get(environment.profile, {})


def _default_kubeconfig() -> Path:
    named = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
    return Path(named) if named else Path.home() / ".kube" / "config"


def _print(
    failures: Sequence[Diagnosis], others: Sequence[Diagnosis], last_run: Mapping[str, Any]
) -> None:
    if failures:
        click.secho(f"Evidence of failure ({len(failures)}), weightiest first", bold=True)
        for number, diagnosis in enumerate(failures, start=1):
            click.secho(f"{number}. {diagnosis.summary}", fg="red")
            click.echo(f"   cause: {diagnosis.cause}")
            click.echo(f"   where: {diagnosis.where}")
            click.echo(f"   seen:  {diagnosis.evidence}")
            click.echo(f"   to do: {diagnosis.remedy}")
    else:
        click.secho("No evidence of failure was found.", bold=True)
    if others:
        click.secho(f"\nLooked at, no evidence of failure ({len(others)})", bold=True)
        for diagnosis in others:
            click.echo(f"- {diagnosis.where}: {diagnosis.evidence}")
    if last_run:
        simulated = ", simulated" if last_run.get("simulated") else ""
        started = last_run.get("startedAt") or "at an unknown time"
        click.secho(f"\nLast smoke test ({started}{simulated}): {last_run['verdict']}", bold=True)
        for reason in last_run.get("reasons") or ():
            click.echo(f"- {reason}")
        for found in last_run.get("diagnosis") or ():
            if found.get("confidence", "evidence of failure") == "evidence of failure":
                click.echo(f"- cause: {found['cause']} ({found['where']}): {found['evidence']}")
