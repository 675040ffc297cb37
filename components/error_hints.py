"""What to do about failures whose own words do not say it.

Owns the hooks that add a sentence to a failed creation. A hook never asks for another attempt: the
providers have made theirs by then.
"""

from collections.abc import Callable

import pulumi


def orphan_hint(name: str) -> pulumi.ErrorHook:
    """Return a hook for a name that is taken in the cloud, as after an update that was killed.

    Args:
        name: Tells the hooks of one program apart.
    """
    return pulumi.ErrorHook(
        f"{name}-orphans",
        _say_once(
            "already exists",
            "something in the cloud has a name of this stack and is not in its state, as after an "
            f"update that was killed: `python -m gpudirect orphans --stack {pulumi.get_stack()}` "
            "lists it, with the lines that take it over and the lines that delete it",
        ),
    )


def missing_kind_hint(name: str) -> pulumi.ErrorHook:
    """Return a hook for a cluster that does not know the kinds of multi-networking [R30].

    Args:
        name: Tells the hooks of one program apart.
    """
    return pulumi.ErrorHook(
        f"{name}-kinds",
        _say_once(
            "no matches for kind",
            "the cluster does not know the kinds of networking.gke.io: multi-networking is not "
            "enabled on this cluster? It can be enabled at creation alone",
        ),
    )


def _say_once(sign: str, sentence: str) -> Callable[[pulumi.ErrorHookArgs], bool]:
    """Return a hook that logs a sentence when a creation fails with words that hold a sign."""
    said = False

    def hint(failed: pulumi.ErrorHookArgs) -> bool:
        nonlocal said
        found = any(sign in error.lower() for error in failed.errors)
        if failed.failed_operation == "create" and found and not said:
            said = True
            pulumi.log.error(sentence)
        return False

    return hint
