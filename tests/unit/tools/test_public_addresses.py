"""Which addresses are out on the internet, and which lead to this machine or its network."""

import pytest

from interlock.tools.http import is_public
from tests.harness.case_tables import each_row


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "::ffff:1.1.1.1"])
def test_public(address):
    assert is_public(address)


@each_row(
    "address",
    [
        *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
        *("::", "::1", "fe80::1", "fe80::1%lo", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1"),
        *("2002:7f00:1::", "2002:a00:1::1", "2001:0:1::1", "::127.0.0.1"),
        *("", "localhost", "127.1", "2130706433", "1.1.1.1.", " 1.1.1.1", "1.1.1.1/8"),
    ],
)
def test_not_public(address):
    assert not is_public(address)
