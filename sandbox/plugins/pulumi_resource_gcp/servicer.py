"""The gRPC service: one method per call of Pulumi's engine [facts google-cloud.md §12].

Owns the translation between messages and the resource kinds, and the forms in which failures
travel. Knows no resource by name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import grpc
from google.protobuf.empty_pb2 import Empty

from .checking import Naming, check_inputs
from .configuration import ProviderConfig, config_problems, configure
from .diffing import Difference, diff, stable_properties
from .errors import PartialFailureError, ProviderError, one_error
from .functions import FUNCTIONS
from .inputs import inputs_from_state
from .mapping import conforming
from .protocol import plugin, provider, provider_grpc
from .resources import KINDS
from .resources.base import Call, ResourceKind
from .transport import Client, Deadline
from .values import Decoded, Path, Properties, decode, encode, output_secrets

VERSION = "10.2.0"
"""The version of the pulumi_gcp wheel whose inputs the tables follow."""

_MODES = {0: "propose", 1: "enforce", 2: "disable"}

Log = Callable[[str, str], None]
"""Prints a warning for a URN."""


class Servicer(provider_grpc.ResourceProviderServicer):  # type: ignore[misc]
    """Pulumi's ResourceProvider for the resource kinds of this package."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._cancelled = threading.Event()
        self._client: Client | None = None

    # --- the plug-in itself ---

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802, ARG002
        """Say what the plug-in can do; the engine takes these flags and no others [§12.2]."""
        return provider.ProviderHandshakeResponse(
            accept_secrets=True,
            accept_resources=False,
            accept_outputs=False,
            supports_autonaming_configuration=True,
        )

    def Attach(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802, ARG002
        """Accept an engine that found this process by PULUMI_DEBUG_PROVIDERS."""
        return Empty()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802, ARG002
        """Return the version."""
        return plugin.PluginInfo(version=VERSION)

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802, ARG002
        """End all waits; an interrupted cluster creation keeps its operation in the state."""
        self._cancelled.set()
        return Empty()

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802, ARG002
        """Judge the provider's own inputs."""
        failures = [
            provider.CheckFailure(reason=text)
            for text in config_problems(decode(request.news).values)
        ]
        return provider.CheckResponse(inputs=request.news, failures=failures)

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802, ARG002
        """Changed provider settings are an update: no setting forces a replacement."""
        return provider.DiffResponse(changes=provider.DiffResponse.DIFF_UNKNOWN)

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Take over the configuration."""
        args = decode(request.args).values
        for key, value in request.variables.items():
            args.setdefault(key.rsplit(":", 1)[-1], value)
        try:
            config = configure(args)
        except ProviderError as error:
            _abort(context, str(error))
        self._client = Client(config)
        return provider.ConfigureResponse(
            acceptSecrets=True,
            supportsPreview=True,
            acceptResources=False,
            acceptOutputs=False,
            supports_autonaming_configuration=True,
        )

    # --- resources ---

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Complete and judge inputs."""
        kind = self._kind(request.urn, context)
        news = decode(request.news)
        naming = Naming(
            urn_name=_urn_name(request.urn),
            seed=request.randomSeed,
            mode=_MODES[request.autonaming.mode] if request.HasField("autonaming") else "",
            proposed=request.autonaming.proposed_name,
        )
        try:
            checked = check_inputs(
                kind.fields,
                news.values,
                decode(request.olds).values,
                naming=naming,
                autoname=kind.autoname,
                exactly_one=kind.exactly_one,
            )
        except ProviderError as error:
            _abort(context, str(error))
        for warning in checked.warnings:
            self._log(request.urn, warning)
        return provider.CheckResponse(
            inputs=encode(checked.inputs, news.secrets),
            failures=[provider.CheckFailure(reason=text) for text in checked.failures],
        )

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Compare the saved state with checked inputs."""
        kind = self._kind(request.urn, context)
        config = self._config(context)
        state = conforming(kind.fields, decode(request.olds).values)
        news = decode(request.news).values
        self._plan_errors(context, kind, request.urn, news, state)
        difference = self._difference(kind, config, state, news)
        return _diff_response(kind, difference, news)

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Make a resource, or promise its outputs in a preview."""
        kind = self._kind(request.urn, context)
        config = self._config(context)
        properties = decode(request.properties)
        secrets = self._secrets(kind, properties)
        self._plan_errors(context, kind, request.urn, properties.values, None)
        if request.preview:
            outputs = kind.preview_outputs(config, properties.values)
            return provider.CreateResponse(id="", properties=encode(outputs, secrets))
        inputs = {**kind.provider_defaults(config, properties.values), **properties.values}
        call = self._call(context, request.timeout or kind.timeouts.create)
        with _failures(context, secrets, prefix=f"creating {request.urn}: ", bare=True):
            resource_id, outputs = kind.create(call, inputs)
        return provider.CreateResponse(id=resource_id, properties=encode(outputs, secrets))

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Refresh a resource or import one."""
        kind = self._kind(request.urn, context)
        previous, old_inputs = decode(request.properties), decode(request.inputs)
        secrets = self._secrets(kind, old_inputs) | output_secrets(previous.secrets)
        call = self._call(context, request.timeout or kind.timeouts.read)
        with _failures(context, secrets, prefix=f"refreshing {request.urn}: "):
            found = kind.read(call, request.id, previous.values or old_inputs.values)
        if found is None:
            return provider.ReadResponse(id="")
        resource_id, outputs = found
        inputs = inputs_from_state(kind.fields, outputs, old_inputs.values)
        return provider.ReadResponse(
            id=resource_id,
            properties=encode(outputs, secrets),
            inputs=encode(inputs, old_inputs.secrets),
        )

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Change a resource in place."""
        kind = self._kind(request.urn, context)
        config = self._config(context)
        state = conforming(kind.fields, decode(request.olds).values)
        news = decode(request.news)
        secrets = self._secrets(kind, news)
        if request.preview:
            outputs = kind.preview_update(config, state, news.values)
            return provider.UpdateResponse(properties=encode(outputs, secrets))
        changed = frozenset(self._difference(kind, config, state, news.values).properties)
        inputs = {**kind.provider_defaults(config, news.values), **news.values}
        call = self._call(context, request.timeout or kind.timeouts.update)
        with _failures(
            context, secrets, prefix=f"updating {request.urn}: ", partial=(request.id, state)
        ):
            outputs = kind.update(call, request.id, state, inputs, changed)
        return provider.UpdateResponse(properties=encode(outputs, secrets))

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Remove a resource."""
        kind = self._kind(request.urn, context)
        call = self._call(context, request.timeout or kind.timeouts.delete)
        state = decode(request.properties).values
        with _failures(context, set(), prefix=f"deleting {request.urn}: "):
            kind.delete(call, request.id, state)
        return Empty()

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """Answer a function call."""
        function = FUNCTIONS.get(request.tok)
        if function is None:
            _abort(context, f"unknown function '{request.tok}'", grpc.StatusCode.INVALID_ARGUMENT)
        call = self._call(context, 20 * 60.0)
        try:
            values, secrets = function(call, decode(request.args).values)
        except ProviderError as error:
            _abort(context, f"invoking {request.tok}: {one_error(str(error))}")
        answer = provider.InvokeResponse()
        getattr(answer, "return").CopyFrom(encode(values, secrets))
        return answer

    # --- parts ---

    def _kind(self, urn: str, context: grpc.ServicerContext) -> ResourceKind:
        token = _urn_type(urn)
        kind = KINDS.get(token)
        if kind is None:
            _abort(
                context,
                f"unrecognized resource type (Check): {token}; this stand-in for the gcp provider "
                f"knows {', '.join(sorted(KINDS))}",
                grpc.StatusCode.UNIMPLEMENTED,
            )
        return kind

    def _configured(self, context: grpc.ServicerContext) -> Client:
        if self._client is None:
            _abort(context, "the provider was not configured", grpc.StatusCode.FAILED_PRECONDITION)
        return self._client

    def _config(self, context: grpc.ServicerContext) -> ProviderConfig:
        return self._configured(context).config

    def _call(self, context: grpc.ServicerContext, seconds: float) -> Call:
        return Call(client=self._configured(context), deadline=Deadline(seconds, self._cancelled))

    @staticmethod
    def _secrets(kind: ResourceKind, inputs: Decoded) -> set[Path]:
        return output_secrets(inputs.secrets) | kind.secret_outputs

    @staticmethod
    def _difference(
        kind: ResourceKind, config: ProviderConfig, state: Properties, news: Properties
    ) -> Difference:
        wanted = {**kind.provider_defaults(config, news), **news}
        return kind.adjust(config, diff(kind.fields, state, wanted), state, wanted)

    def _plan_errors(
        self,
        context: grpc.ServicerContext,
        kind: ResourceKind,
        urn: str,
        inputs: Properties,
        state: Properties | None,
    ) -> None:
        errors = kind.plan_errors(self._config(context), inputs, state)
        if errors:
            lines = "".join(f"\t* {text}\n" for text in errors)
            count = "1 error" if len(errors) == 1 else f"{len(errors)} errors"
            _abort(context, f"diffing {urn}: {count} occurred:\n{lines}\n")


def _diff_response(kind: ResourceKind, difference: Difference, news: Properties) -> Any:
    kinds = provider.PropertyDiff.Kind
    detailed = {
        change.path: provider.PropertyDiff(
            kind=kinds.Value(f"{change.kind}_REPLACE" if change.replaces else change.kind)
        )
        for change in difference.changes
    }
    changes = provider.DiffResponse.DIFF_SOME if detailed else provider.DiffResponse.DIFF_NONE
    # Two resources of one explicit name cannot live side by side [§1.4].
    named = kind.autoname is not None and "name" not in (news.get("__defaults") or ())
    return provider.DiffResponse(
        changes=changes,
        replaces=difference.replaces,
        diffs=difference.properties,
        stables=stable_properties(kind.fields, difference),
        deleteBeforeReplace=bool(difference.replaces) and named,
        detailedDiff=detailed,
        hasDetailedDiff=True,
    )


@contextmanager
def _failures(
    context: grpc.ServicerContext,
    secrets: set[Path],
    *,
    prefix: str,
    bare: bool = False,
    partial: tuple[str, Properties] | None = None,
) -> Iterator[None]:
    """Turn exceptions into the answers that the engine expects [§1.7].

    Args:
        context: The call.
        secrets: Places in the outputs that are secret.
        prefix: What stands before the text.
        bare: Whether a failure that made nothing goes without the prefix, as at creation.
        partial: Id and state to keep if the resource exists whatever happened.
    """
    try:
        yield
    except PartialFailureError as error:
        text = prefix + one_error(error.reason)
        _abort_partial(context, error.resource_id, error.outputs, secrets, text)
    except ProviderError as error:
        text = one_error(str(error))
        if partial is not None:
            _abort_partial(context, *partial, secrets, prefix + text)
        _abort(context, text if bare else prefix + text)


def _abort_partial(
    context: grpc.ServicerContext,
    resource_id: str,
    outputs: Properties,
    secrets: set[Path],
    text: str,
) -> NoReturn:
    from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

    detail = provider.ErrorResourceInitFailed(
        id=resource_id, properties=encode(outputs, secrets), reasons=[text]
    )
    status = Status(code=grpc.StatusCode.UNKNOWN.value[0], message=text)
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    _abort(context, text)


def _abort(
    context: grpc.ServicerContext, text: str, code: grpc.StatusCode = grpc.StatusCode.UNKNOWN
) -> NoReturn:
    context.abort(code, text)
    raise AssertionError(text)  # `abort` never returns; the type checker does not know it


def _urn_type(urn: str) -> str:
    parts = urn.split("::")
    return parts[2].rsplit("$", 1)[-1] if len(parts) >= 4 else urn


def _urn_name(urn: str) -> str:
    return urn.split("::", 3)[-1]
