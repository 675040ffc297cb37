"""What is in the cluster already although the stack's state does not know it.

Owns the hook that looks before an object is made there. Does not own whose an object is
(`gpudirect.existing_objects`) nor what exists in the cloud (`gpudirect.orphans`).
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pulumi

from components.deployed_state import STACK_LABEL
from gpudirect.cluster_access import connect
from gpudirect.existing_objects import check_owner


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
    client: asyncio.Future[Any] | None = None

    async def connected() -> Any:
        access = json.loads(await kubeconfig.future() or "")
        return await asyncio.to_thread(connect, access)

    async def check(planned: pulumi.ResourceHookArgs) -> None:
        nonlocal client
        # One login serves all objects.
        client = client or asyncio.ensure_future(connected())
        document: Mapping[str, Any] = planned.new_inputs or {}
        await asyncio.to_thread(
            check_owner, await client, document, label=STACK_LABEL, owner=stack_label
        )

    return pulumi.ResourceHook(f"{name}-foreign", check)
