"""What refuses a destroy first, while nothing is lost yet.

Owns one entry of the state that is protected as long as the config says `deletionProtection`. The
engine deletes it before anything else, so its refusal comes before the in-cluster objects have left
the state, and it names the entry: therefore it is called like the config key. Does not own the
protection of the cluster itself (`AutopilotCluster`), which stands behind it.
"""

from collections.abc import Sequence

import pulumi

from gpudirect.findings import full_key

_REMEDY = "pulumi config set deletionProtection false, pulumi up, pulumi destroy"


def guard_deletion(protected: bool, *, after: Sequence[pulumi.Resource]) -> None:
    """Register the entry.

    Args:
        protected: Whether a destroy is refused.
        after: What the entry must be deleted before.
    """
    pulumi.Stash(
        full_key("deletionProtection"),
        input=_REMEDY,
        opts=pulumi.ResourceOptions(protect=protected, depends_on=list(after)),
    )
