"""Which addresses are public, and what a host is."""

import pytest

from holdfast.core.addresses import checked_hosts, not_public
from holdfast.errors import BadOption

NOT_PUBLIC = [
    ("3fff::1", "reserved"),
    ("192.88.99.1", "reserved"),
    ("127.0.0.1", "loopback"),
    ("127.255.255.254", "loopback"),
    ("::1", "loopback"),
    ("0.0.0.0", "unspecified"),
    ("::", "unspecified"),
    ("0.1.2.3", "private"),
    ("10.0.0.1", "private"),
    ("172.16.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.168.1.1", "private"),
    ("198.18.0.1", "private"),
    ("fc00::1", "private"),
    ("fd12:3456::1", "private"),
    ("fec0::1", "private"),
    ("2001:db8::1", "private"),
    ("169.254.169.254", "link-local"),
    ("fe80::1", "link-local"),
    ("fe80::1%eth0", "link-local"),
    ("100.64.0.1", "reserved"),
    ("100.127.255.255", "reserved"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.255", "multicast"),
    ("ff02::1", "multicast"),
    ("ff0e::1", "multicast"),
    ("240.0.0.1", "private"),
    ("255.255.255.255", "private"),
    ("192.0.2.1", "private"),
    ("::ffff:127.0.0.1", "loopback"),
    ("::ffff:10.0.0.1", "private"),
    ("::ffff:169.254.169.254", "link-local"),
    ("::127.0.0.1", "loopback"),
    ("64:ff9b::7f00:1", "loopback"),
    ("64:ff9b::a9fe:a9fe", "link-local"),
    ("64:ff9b:1::1", "private"),
    ("2002:7f00:1::", "loopback"),
    ("2002:c0a8:101::1", "private"),
    ("2001:0:53aa:64c:0:fbff:80ff:fffe", "private"),
    ("4000::1", "reserved"),
]


@pytest.mark.parametrize(("address", "kind"), NOT_PUBLIC)
def test_an_address_of_this_machine_or_its_networks_is_not_public(address, kind):
    assert not_public(address) == kind


@pytest.mark.parametrize(
    "address",
    [
        "93.184.216.34",
        "8.8.8.8",
        "172.32.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::808:808",
        "2002:808:808::1",
    ],
)
def test_an_address_that_everyone_can_reach_is_public(address):
    assert not_public(address) is None


def test_hosts_are_compared_without_case_dots_and_brackets():
    assert checked_hosts("hosts", ["Hooks.Internal.", "hooks.internal", "[::1]", "127.0.0.1"]) == (
        "hooks.internal",
        "::1",
        "127.0.0.1",
    )
    assert checked_hosts("hosts", "one") == ("one",)


@pytest.mark.parametrize(
    "host",
    [
        "",
        " ",
        "http://a",
        "a/b",
        "a:80",
        "*.internal",
        "a b",
        "a\n",
        "u@a",
        "x" * 254,
        7,
        None,
        b"a",
        ["a"],
    ],
)
def test_what_is_no_host_is_refused(host):
    with pytest.raises(BadOption, match="hosts"):
        checked_hosts("hosts", [host])


@pytest.mark.parametrize("hosts", [7, 1.5, True, object()])
def test_what_holds_no_hosts_is_refused(hosts):
    with pytest.raises(BadOption, match="hosts"):
        checked_hosts("hosts", hosts)
