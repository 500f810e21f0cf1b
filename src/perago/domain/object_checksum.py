"""What an object's checksum says of its bytes.

lakeFS hands on what the block store said: the MD5 for an object written in one part, an opaque
text for one written in several.
"""

_MD5_LENGTH = 32
_HEX_DIGITS = "0123456789abcdef"


def md5_of_checksum(checksum: str) -> str | None:
    """The MD5 that a checksum states, or None when it states something else."""
    text = checksum.strip('"').lower()
    return text if len(text) == _MD5_LENGTH and not text.strip(_HEX_DIGITS) else None
