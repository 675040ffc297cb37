"""The certificates and keys of one cluster's control plane.

Owns: the cluster's CA, the API server's certificate, one client certificate per component, and
the key that signs service account tokens. Does not own the users' credentials: they are a bearer
token, as with Google's exec plugin.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=3650)
_CLOCK_SKEW = datetime.timedelta(hours=1)

ADMIN_USER = "system:gke-sandbox"
"""The sandbox's own controllers; stands for the parts of GKE that run at Google."""


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Whom the API server sees behind a client certificate."""

    file_name: str
    user: str
    groups: tuple[str, ...]


ADMIN = ClientIdentity("admin", ADMIN_USER, ("system:masters",))
# One identity with all rights, in place of an account per controller: it needs none of the roles
# that a new API server is still writing when the controller manager starts.
CONTROLLER_MANAGER = ClientIdentity(
    "controller-manager", "system:kube-controller-manager", ("system:masters",)
)
SCHEDULER = ClientIdentity("scheduler", "system:kube-scheduler", ())
CLIENTS = (ADMIN, CONTROLLER_MANAGER, SCHEDULER)


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Paths of everything in a cluster's certificate folder."""

    folder: Path

    @property
    def ca(self) -> Path:
        """The CA's certificate, PEM."""
        return self.folder / "ca.crt"

    @property
    def server(self) -> Path:
        """The API server's certificate, PEM."""
        return self.folder / "server.crt"

    @property
    def server_key(self) -> Path:
        """The API server's private key, PEM."""
        return self.folder / "server.key"

    @property
    def service_account_key(self) -> Path:
        """The key that signs service account tokens, PEM; holds both halves."""
        return self.folder / "service-accounts.key"

    def client(self, identity: ClientIdentity) -> tuple[Path, Path]:
        """Certificate and key of a component."""
        stem = self.folder / identity.file_name
        return stem.with_suffix(".crt"), stem.with_suffix(".key")


def ensure_certificates(folder: Path, *, service_address: str) -> CertificateFiles:
    """Write the whole set into a folder, or find it there.

    The CA's private key is not kept: nothing is signed after this.

    Args:
        folder: Is made if missing; a folder with a complete set is left as it is, so that a
            restarted cluster has the CA that its users know.
        service_address: The address of the `kubernetes` Service in the cluster.
    """
    files = CertificateFiles(folder)
    # The CA is written last: a folder that holds it holds everything.
    if files.ca.exists():
        return files
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name("gke-sandbox-ca", ())
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False)
        .sign(ca_key, hashes.SHA256())
    )

    server_key = ec.generate_private_key(ec.SECP256R1())
    server = (
        _leaf(_name("kube-apiserver", ()), ca, server_key, ExtendedKeyUsageOID.SERVER_AUTH)
        .add_extension(_server_names(service_address), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    _write_pair(files.server, files.server_key, server, server_key)
    for identity in CLIENTS:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(identity.user, identity.groups)
        certificate = _leaf(subject, ca, key, ExtendedKeyUsageOID.CLIENT_AUTH).sign(
            ca_key, hashes.SHA256()
        )
        _write_pair(*files.client(identity), certificate, key)
    write_private(files.service_account_key, _pem(ec.generate_private_key(ec.SECP256R1())))
    files.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    return files


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read; it never exists with wider rights."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _name(common_name: str, organizations: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
    )


def _leaf(
    subject: x509.Name,
    ca: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    usage: x509.ObjectIdentifier,
) -> x509.CertificateBuilder:
    ca_key_id = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(ca_key_id)
    return (
        _builder(subject, ca.subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(authority, critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _server_names(service_address: str) -> x509.SubjectAlternativeName:
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    addresses = ["127.0.0.1", service_address]
    return x509.SubjectAlternativeName(
        [
            *(x509.DNSName(name) for name in [*names, f"{names[-1]}.cluster.local"]),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
        ]
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        # kube-apiserver finds the public half of a service account key in this format only.
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write_pair(
    certificate_path: Path,
    key_path: Path,
    certificate: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
) -> None:
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    write_private(key_path, _pem(key))
