"""Classify IP addresses as public or not, to protect the server and webhook delivery.

A webhook URL may come from a customer. A delivery must not reach targets that only this machine can
reach (SSRF): loopback services, the metadata service of a cloud at 169.254.169.254, hosts of the
internal network. A server without API keys binds to loopback only. Pure: the caller resolves host
names.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

from holdfast.core.validation import checked_one_or_many
from holdfast.errors import BadOption

LONGEST_HOST = 253
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_IPV4_COMPATIBLE = IPv6Network("::/96")
_RESERVED = (IPv4Network("192.88.99.0/24"), IPv6Network("3fff::/20"))
"""Reserved blocks that some Python versions do not report as reserved: the deprecated 6to4 relays,
and an IPv6 block for documentation."""


def not_public(address: str) -> str | None:
    """Return why the address is not public, such as ``loopback``; None if it is public.

    An IPv6 address that embeds an IPv4 address (mapped, compatible, 6to4, NAT64) is classified by
    that IPv4 address."""
    without_zone = address.partition("%")[0]  # fe80::1%eth0: the zone does not affect the kind
    parsed = ip_address(without_zone)
    embedded = _embedded(parsed) if isinstance(parsed, IPv6Address) else None
    if embedded is not None:
        return _kind(embedded)
    if isinstance(parsed, IPv6Address) and parsed in _LOCAL_NAT64:
        return "private"
    return _kind(parsed)


def is_loopback(host: str) -> bool:
    """Return whether a host, a name or an address, is reached from its own machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address to which packets for this IPv6 address may be routed, if any."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    # :: and ::1 are in the same block, but they are the unspecified and the loopback address
    is_compatible = address in _IPV4_COMPATIBLE and int(address) > 1
    if address in _NAT64 or is_compatible:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


def _kind(address: IPv4Address | IPv6Address) -> str | None:
    kinds = {
        "unspecified": address.is_unspecified,
        "loopback": address.is_loopback,
        "link-local": address.is_link_local,
        "multicast": address.is_multicast,
        "private": (
            address.is_private or (isinstance(address, IPv6Address) and address.is_site_local)
        ),
        "reserved": (
            address.is_reserved
            or not address.is_global
            or any(address in block for block in _RESERVED)
        ),  # not is_global: among others 100.64.0.0/10, the shared addresses of carriers
    }
    return next((kind for kind, applies in kinds.items() if applies), None)


def checked_hosts(option: str, hosts: Any) -> tuple[str, ...]:
    """Return host names or addresses, normalized for comparison with the host of a URL.

    *hosts* is one host or an iterable of hosts. Raises BadOption."""
    listed = checked_one_or_many(option, hosts)
    return tuple(dict.fromkeys(_checked_host(option, host) for host in listed))


def _checked_host(option: str, host: object) -> str:
    why = "a host is written as in a URL, such as hooks.internal, without scheme, port and path"
    if not isinstance(host, str):
        raise BadOption(option=option, value=host, why=why)
    name = normal_host(host.removeprefix("[").removesuffix("]"))
    is_name = (
        0 < len(name) <= LONGEST_HOST
        and name.isprintable()
        and not any(mark in name for mark in " /@:?#*[]\\")
    )
    if not is_name and not _is_address(name):
        raise BadOption(option=option, value=host, why=why)
    return name


def normal_host(host: str) -> str:
    """Return the host in lower case and without a final dot, for comparison."""
    return host.lower().removesuffix(".")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
