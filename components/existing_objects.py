"""What is in the cluster already although the stack's state does not know it.

Owns the hook that looks before an object is made there. Does not own whose an object is
(`gpudirect.existing_objects`) nor what exists in the cloud (`gpudirect.orphans`).
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pulumi

from components.deployed_state import STACK_LABEL
from gpudirect.existing_objects import ForeignObjectError, check_owner


def foreign_object_guard(
    name: str, *, kubeconfig: pulumi.Output[str], stack_label: str
) -> pulumi.ResourceHook:
    """Return a hook that refuses to take over an object which this stack did not make [R33].

    The Kubernetes provider would otherwise do that in silence, or refuse what this stack itself has
    made before it was killed, depending on its version.

    Args:
        name: Tells the hooks of one program apart.
        kubeconfig: The way into the cluster.
        stack_label: The value that `STACK_LABEL` has on what this stack made.
    """

    async def check(planned: pulumi.ResourceHookArgs) -> None:
        document: Mapping[str, Any] = planned.new_inputs or {}
        access = await kubeconfig.future()
        try:
            await asyncio.to_thread(
                check_owner, access or "", document, label=STACK_LABEL, owner=stack_label
            )
        except ForeignObjectError as error:
            raise pulumi.RunError(str(error)) from None

    return pulumi.ResourceHook(f"{name}-foreign", check)
