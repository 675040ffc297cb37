"""GPUDirect into workloads that a Pulumi program declares.

Owns the translation between what Pulumi hands to a resource transform and the renderer's plain
data. Does not own what is put in (`gpudirect.workloads`).
"""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import pulumi
from pulumi.runtime.rpc import is_rpc_secret, unwrap_rpc_secret

from gpudirect.deployed_stack import StackOutputError, environment_of
from gpudirect.workload_findings import errors_in
from gpudirect.workload_kinds import kind_from_path
from gpudirect.workloads import Environment, NcclDebug, render_document

_KUBERNETES = "kubernetes:"
_GATHER_SECONDS = 0.2
"""Workloads are declared one after another, and each is refused by itself."""


class GpuDirectWorkloads:
    """Gives Kubernetes workloads of a program what `python -m gpudirect inject` gives manifests.

    For every resource of a program::

        workloads = GpuDirectWorkloads.from_stack("dev")
        pulumi.runtime.register_resource_transform(workloads.transform)

    or for one, with `pulumi.ResourceOptions(transforms=[workloads.transform])`. Resources without
    GPUs pass as they are.

    Args:
        environment: What the stack that the Pods will run in offers.
        template_paths: Where further kinds keep their Pod templates: `PATH` or `KIND=PATH`.
        debug: NCCL's log, where it is wanted.

    Raises:
        ValueError: a template path that is none.
    """

    def __init__(
        self,
        environment: pulumi.Input[Environment],
        *,
        template_paths: Sequence[str] = (),
        debug: NcclDebug | None = None,
    ) -> None:
        self._environment = environment
        self._extra_kinds = [kind_from_path(text) for text in template_paths]
        self._debug = debug

    @classmethod
    def from_stack(
        cls,
        stack: str | pulumi.StackReference,
        *,
        template_paths: Sequence[str] = (),
        debug: NcclDebug | None = None,
    ) -> "GpuDirectWorkloads":
        """Take everything from the outputs of a deployed stack of this project.

        Args:
            stack: The stack's name as StackReference takes it, or a reference that is there.
            template_paths: See above.
            debug: See above.
        """
        reference = pulumi.StackReference(stack) if isinstance(stack, str) else stack
        name = stack if isinstance(stack, str) else "the referenced stack"
        environment = reference.outputs.apply(lambda outputs: _environment(name, outputs))
        return cls(environment, template_paths=template_paths, debug=debug)

    async def transform(
        self, args: pulumi.ResourceTransformArgs
    ) -> pulumi.ResourceTransformResult | None:
        """Return a resource with GPUDirect in it, or None to leave it as it is.

        Raises:
            pulumi.RunError: out of the program, not out of this call: a workload cannot be given
                GPUDirect. The text lists every reason, and those of other workloads.
        """
        if not args.type_.startswith(_KUBERNETES) or "kind" not in args.props:
            return None
        try:
            environment = await pulumi.Output.from_input(self._environment).future(
                with_unknowns=True
            )
        except pulumi.RunError as error:
            await _refuse(str(error))
        if not isinstance(environment, Environment):
            pulumi.log.info(f"{args.name}: rendered for the GPU network once its stack is known")
            return None
        values = _Opaque()
        document = {key: values.plain(value) for key, value in args.props.items()}
        rendered, findings = render_document(
            document, environment, extra_kinds=self._extra_kinds, debug=self._debug
        )
        for finding in findings:
            if finding.severity == "warning":
                pulumi.log.warn(f"{args.name}: {values.readable(str(finding))}")
        if errors := errors_in(findings):
            reasons = [values.readable(str(error)).removeprefix("error: ") for error in errors]
            await _refuse(f"{args.name} cannot be given GPUDirect:\n- " + "\n- ".join(reasons))
        if rendered is document:
            return None
        props = {
            key: values.original(value, is_secret=is_rpc_secret(args.props.get(key)))
            for key, value in rendered.items()
        }
        return pulumi.ResourceTransformResult(props=props, opts=args.opts)


def _environment(stack: str, outputs: Mapping[str, Any]) -> Environment:
    try:
        return environment_of(stack, outputs)
    except StackOutputError as error:
        raise pulumi.RunError(str(error)) from None


class _ProgramEnd(pulumi.RunError, SystemExit):
    """What a language host prints as one error without a trace, raised out of its event loop.

    `SystemExit` is what an event loop lets through.
    """


_refusals: WeakKeyDictionary[asyncio.AbstractEventLoop, list[str]] = WeakKeyDictionary()


async def _refuse(message: str) -> NoReturn:
    """Fail a registration, and have the program end with every refusal of the moment.

    What is raised here comes back to the program through the engine as a failed request, with two
    traces behind its text. The SDK ends the program by that as it would by any other; only the
    error that the language host then sees is another.
    """
    loop = asyncio.get_running_loop()
    refusals = _refusals.setdefault(loop, [])
    program = next((t for t in asyncio.all_tasks(loop) if _runs_the_program(t)), None)
    if program is not None and not refusals:
        program.add_done_callback(lambda _: _end_program(refusals))
    refusals.append(message)
    await asyncio.sleep(_GATHER_SECONDS)
    raise pulumi.RunError(message)


def _runs_the_program(task: asyncio.Task[Any]) -> bool:
    return getattr(task.get_coro(), "__name__", "") == pulumi.runtime.run_in_stack.__name__


def _end_program(refusals: Sequence[str]) -> NoReturn:
    raise _ProgramEnd("\n\n".join(refusals))


class _Opaque:
    """Text in place of values that the renderer cannot look into, and the way back.

    A value that is not known yet, or an output, stays what it is wherever it ends up.
    """

    _numbers = itertools.count()

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def plain(self, value: Any) -> Any:
        """Return plain data with a mark in place of every opaque value."""
        if is_rpc_secret(value):
            return self.plain(unwrap_rpc_secret(value))
        if isinstance(value, dict):
            return {key: self.plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        if value is None or isinstance(value, str | int | float | bool):
            return value
        mark = f"not-known-yet-{next(self._numbers)}"
        self._values[mark] = value
        return mark

    def original(self, value: Any, *, is_secret: bool = False) -> Any:
        """Return data with every opaque value in place of its mark."""
        if is_secret:
            # Pulumi marks a whole property secret for one secret within.
            return pulumi.Output.secret(self.original(value))
        if isinstance(value, dict):
            return {key: self.original(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.original(item) for item in value]
        return self._values.get(value, value) if isinstance(value, str) else value

    def readable(self, text: str) -> str:
        """Return a message without the marks' numbers."""
        for mark in self._values:
            text = text.replace(mark, "a value that is not known yet")
        return text
