"""Secrets of other people's services: sealed at rest, revealed for one host and one purpose, never read back.

`reveal` turns a reference that a row holds into the secret. The verbs are in `verbs.py`, what a seal is in
`sealing.py`, who holds the master key in `sources/`.
"""

from portal.kernel.secret_value import Secret
from portal.kernel.secrets.revealing import require_usable, reveal

__all__ = ["Secret", "require_usable", "reveal"]
