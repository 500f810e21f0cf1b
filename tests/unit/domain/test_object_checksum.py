"""What an object's checksum says of its bytes."""

import pytest

from perago.domain.paths import md5_of_checksum

MD5 = "d41d8cd98f00b204e9800998ecf8427e"


@pytest.mark.parametrize(
    ("checksum", "md5"),
    [
        (MD5, MD5),
        (f'"{MD5}"', MD5),
        (MD5.upper(), MD5),
        (f"{MD5}-3", None),
        (MD5[:-1], None),
        (MD5[:-1] + "g", None),
        ("", None),
    ],
)
def test_the_table(checksum: str, md5: str | None) -> None:
    assert md5_of_checksum(checksum) == md5
