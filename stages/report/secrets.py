"""Masks what looks like a credential, wherever it is about to be shown."""

from __future__ import annotations

import re

MASK = "[secret removed]"

KNOWN = re.compile(
    r"""
      sk-ant-[A-Za-z0-9_-]{16,} | \bsk-[A-Za-z0-9_-]{20,}  # model providers
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                        # AWS
    | \bgh[pousr]_[A-Za-z0-9]{20,}\b | \bgithub_pat_\w{20,} # GitHub
    | \bglpat-[\w-]{16,}                                   # GitLab
    | \bxox[abeprs]-[A-Za-z0-9-]{10,}                      # Slack
    | \bAIza[\w-]{30,}                                     # Google
    | \bhf_[A-Za-z0-9]{20,}\b                              # Hugging Face
    | \beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}              # JSON web tokens
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY-----(?:[\s\S]*?-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|[\s\S]*)
    """,
    re.VERBOSE,
)
"""Formats that are credentials and hardly ever anything else."""

NAMED = re.compile(
    r"(?i)(\b(?:authorization:\s*)?bearer\s+|\bx-api-key[\"']?\s*[:=]\s*[\"']?)[\w.~+/-]{12,}=*"
)
"""A credential by what stands before it, which is kept."""


def mask(text: str) -> str:
    """The text with every known kind of credential replaced."""
    return NAMED.sub(rf"\1{MASK}", KNOWN.sub(MASK, text))
