"""The real credential: found, added to a call, and kept out of everything else."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import SecretStr

from stages.common.errors import UserError
from stages.common.files import project_root
from stages.relay.config import Credential, CredentialKind, RelayConfig

OAUTH_BETA = "oauth-2025-04-20"
REMOVED = "[removed]"


def find_secret(config: RelayConfig) -> SecretStr | None:
    """The credential's value from the environment, else from `.env`; None where none is needed.

    Raises:
        UserError: the variable that the configuration names is set in neither.
    """
    if config.credential is None:
        return None
    name = config.credential.variable
    file = config.env_file or project_root() / ".env"
    value = os.environ.get(name, "").strip() or _from_file(file, name)
    if not value:
        raise UserError(
            f"no credential for the model: {name} is not set",
            where=f"environment, {file}",
            remedy=f"export {name}, or write `{name}=...` into {file.name}; "
            "`model=replay` needs none",
        )
    return SecretStr(value)


def _from_file(path: Path, name: str) -> str:
    """The value of a `NAME=value` line; quotes and a leading `export` are taken off."""
    if not path.is_file():
        return ""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and key.strip() == name:
            return value.strip().strip("\"'").strip()
    return ""


def credential_headers(credential: Credential, secret: SecretStr) -> dict[str, str]:
    """The headers that carry a credential; `anthropic-beta` is to be joined, not replaced."""
    value = secret.get_secret_value()
    if credential.kind is CredentialKind.OAUTH:
        return {"authorization": f"Bearer {value}", "anthropic-beta": OAUTH_BETA}
    return {"x-api-key": value}


def redact(data: bytes, secret: SecretStr | None) -> bytes:
    """The bytes without the credential, which an endpoint may quote in an error."""
    if secret is None:
        return data
    return data.replace(secret.get_secret_value().encode(), REMOVED.encode())
