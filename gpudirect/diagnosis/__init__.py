"""From symptoms in a cluster to causes: what is wrong, the line that proves it, what to do.

Owns the causes and the rules that find them, over plain data, so that every rule is tested without
a cluster. Does not own collecting that data (`gpudirect.cluster_evidence`) nor showing the result
(`gpudirect.cli.doctor`, the smoke test).
"""

from gpudirect.diagnosis.cluster_status import (
    NetworkReadiness,
    installer_status,
    network_readiness,
    nodes_without_installer,
)
from gpudirect.diagnosis.denials import Denial, explain_denial
from gpudirect.diagnosis.engine import diagnose
from gpudirect.diagnosis.evidence import EVIDENCE_OF_FAILURE, NO_EVIDENCE, Diagnosis, Evidence

__all__ = [
    "EVIDENCE_OF_FAILURE",
    "NO_EVIDENCE",
    "Denial",
    "Diagnosis",
    "Evidence",
    "NetworkReadiness",
    "diagnose",
    "explain_denial",
    "installer_status",
    "network_readiness",
    "nodes_without_installer",
]
