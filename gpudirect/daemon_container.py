"""The receive daemon's container in a Pod: making it, bringing an old one up to date, placing it.

Owns what stands in that container except its mounts. Does not own images and arguments
(`releases`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpudirect.pod_reading import (
    ContainerView,
    Report,
    containers_of,
    fields,
    gpu_limit,
    items,
)
from gpudirect.releases import with_registry
from gpudirect.tree_edit import TreeEditor
from gpudirect.workload_environment import Environment
from gpudirect.workload_rules import runs_daemon

_SIDECAR = "Always"
# The daemon is ready after about 30 s (facts gpudirect.md 7), and the six tries that are published
# for this probe end just then; a slow start must not become an endless row of restarts.
_PROBE_FIGURES = {
    "initialDelaySeconds": 1,
    "periodSeconds": 5,
    "timeoutSeconds": 1,
    "successThreshold": 1,
    "failureThreshold": 24,
}


class DaemonPlacement:
    """The daemon of one Pod under edit.

    Args:
        editor: Edits the template.
        spec: The Pod spec, for change.
        environment: What the stack offers.
        can_end: Whether the Pod must be able to end by itself.
        previous: Image and words of the daemon that an older render had put in, if there was one.
        report: Takes the findings.

    Attributes:
        container: The daemon's container, for change; not in the Pod before `place`.
        view: The container as it is found in the user's Pod.
    """

    def __init__(
        self,
        editor: TreeEditor,
        spec: dict[str, Any],
        environment: Environment,
        *,
        can_end: bool,
        previous: tuple[str, list[str]] | None,
        report: Report,
    ) -> None:
        self._editor = editor
        self._spec = spec
        self._environment = environment
        self._report = report
        # An init container with GPUs needs the daemon before the other containers start.
        starts_early = any(gpu_limit(item) is not None for item in items(spec, "initContainers"))
        self._is_sidecar = can_end or starts_early
        self._keeps_from = "ending" if can_end else "starting: an init container needs it"
        self._found = next(
            (
                view
                for view in containers_of(spec)
                if view.name == environment.stack.daemon_container
            ),
            None,
        )
        if self._found is None:
            section = "initContainers" if self._is_sidecar else "containers"
            self.container = self._wanted(sidecar=self._is_sidecar)
            self.view = ContainerView(section, len(items(spec, section)), self.container)
        else:
            self.view = self._found
            section_items = editor.sequence(spec, self._found.section)
            self.container = editor.mapping(section_items, self._found.index)
            # What only has the daemon's name is refused (`workload_rules`).
            if runs_daemon(self.container):
                self._bring_up_to_date(previous or ("", []))
        if self._found is None or runs_daemon(self.container):
            self._keep_root()

    def place(self) -> None:
        """Put the container where it belongs.

        A Pod that must end has it as a native sidecar, which kubelet stops when the work is done
        [R11], and so has one with GPUs in an init container. It stands in front of the first init
        container with GPUs, else behind all of them, so that the user's downloads need not wait
        for the daemon. Elsewhere it is the last container: some operators take the first one for
        the workload's.
        """
        if self._found is not None:
            if self._found.section == "initContainers" or not self._is_sidecar:
                return
            self._report.warning(
                self._found.path,
                None,
                f"the daemon {self._found.name!r} would keep the Pod from {self._keeps_from}",
                "It was made a native sidecar.",
            )
            del self._editor.sequence(self._spec, "containers")[self._found.index]
        if not self._is_sidecar:
            self._editor.sequence(self._spec, "containers").append(self.container)
            return
        init_containers = self._editor.sequence(self._spec, "initContainers")
        place = next(
            (i for i, item in enumerate(init_containers) if gpu_limit(item) is not None),
            len(init_containers),
        )
        init_containers.insert(place, self.container)

    def _wanted(self, *, sidecar: bool) -> dict[str, Any]:
        stack, release = self._environment.stack, self._environment.release
        container: dict[str, Any] = {
            "name": stack.daemon_container,
            "image": with_registry(release.daemon_image, self._environment.image_registry),
            "imagePullPolicy": "Always",
            "command": list(release.daemon_command),
        }
        if release.daemon_args:
            container["args"] = list(release.daemon_args)
        if sidecar:
            container["restartPolicy"] = _SIDECAR
            if stack.health_check is not None:
                variable, file = stack.health_check
                container["env"] = [{"name": variable, "value": file}]
                container["startupProbe"] = {"exec": {"command": ["cat", file]}, **_PROBE_FIGURES}
        if stack.daemon_requests:
            container["resources"] = {"requests": dict(stack.daemon_requests)}
        container["securityContext"] = {"capabilities": {"add": list(stack.daemon_capabilities)}}
        return container

    def _bring_up_to_date(self, previous: tuple[str, list[str]]) -> None:
        """Change only what is wrong or missing; a user's own daemon may be written another way."""
        sidecar = self._is_sidecar or self.view.section == "initContainers"
        wanted = self._wanted(sidecar=sidecar)
        previous_image, previous_words = previous
        self._update_image(wanted["image"], previous_image)
        self._update_command(wanted, previous_words)
        if sidecar and self.container.get("restartPolicy") != _SIDECAR:
            if self.view.section == "initContainers":
                self._report.warning(
                    self.view.path,
                    None,
                    f"the daemon {self.view.name!r} is an init container that never ends, so the "
                    "others would never start",
                    "It was made a native sidecar (restartPolicy: Always).",
                )
            self.container["restartPolicy"] = _SIDECAR
        capabilities = self._editor.sequence(
            self._editor.mapping(
                self._editor.mapping(self.container, "securityContext"), "capabilities"
            ),
            "add",
        )
        for capability in wanted["securityContext"]["capabilities"]["add"]:
            if capability not in capabilities:
                capabilities.append(capability)
        for key in ("imagePullPolicy", "resources"):
            if key in wanted and self.container.get(key) is None:
                self.container[key] = wanted[key]
        if "startupProbe" in wanted and self.container.get("startupProbe") is None:
            entries = self._editor.sequence(self.container, "env")
            names = {entry["name"] for entry in entries}
            entries.extend(entry for entry in wanted["env"] if entry["name"] not in names)
            self.container["startupProbe"] = wanted["startupProbe"]

    def _keep_root(self) -> None:
        """Let the daemon stay root in a Pod whose other containers are not.

        It sets up the node's NICs, and its image runs as root: with the Pod's settings the kubelet
        would not start it.
        """
        of_pod = fields(self._spec, "securityContext")
        wanted: dict[str, Any] = {}
        if of_pod.get("runAsNonRoot"):
            wanted["runAsNonRoot"] = False
        if of_pod.get("runAsUser"):
            wanted["runAsUser"] = 0
        missing = wanted.keys() - fields(self.container, "securityContext").keys()
        for key in sorted(missing):
            self._editor.mapping(self.container, "securityContext")[key] = wanted[key]

    def _update_image(self, image: str, previous: str) -> None:
        found = str(self.container.get("image") or "")
        if found == image:
            return
        if found != previous:
            if _name_and_tag(found) == _name_and_tag(image):
                # The right version from a registry of the user's own.
                return
            self._report.warning(
                f"{self.view.path}.image",
                found,
                "the daemon is of another version than the plug-in that the release installs "
                f"({self._environment.release.plugin_version})",
                f"It was set to {image}.",
            )
        self.container["image"] = image

    def _update_command(self, wanted: Mapping[str, Any], previous: list[str]) -> None:
        found = [*items(self.container, "command"), *items(self.container, "args")]
        expected = [*wanted["command"], *wanted.get("args", ())]
        if found == expected or _flags(found) == _flags(expected):
            return
        if found != previous:
            self._report.warning(
                f"{self.view.path}.args",
                " ".join(sorted(_flags(found))),
                "the daemon's flags are not those of the release",
                "They were set to the release's.",
            )
        for key in ("command", "args"):
            if key in wanted:
                self.container[key] = wanted[key]
            else:
                self.container.pop(key, None)


def _name_and_tag(image: str) -> str:
    return image.rpartition("/")[2]


def _flags(words: list[Any]) -> frozenset[str]:
    """Return the flags of a daemon's command, however they are split into words."""
    text = " ".join(str(word) for word in words)
    return frozenset(re.findall(r"(?<!\S)--?[\w-]+(?:=\S*)?", text))
