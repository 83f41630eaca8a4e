"""Decide whether an IP address is public: reachable by everyone, and not a service of this machine
or its networks.

A webhook URL may come from a customer. Delivering to it must not reach what only this machine can
reach: loopback services, the metadata service of a cloud at 169.254.169.254, hosts of the internal
network. Pure: the caller resolves names.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

from holdfast.core.validation import checked_many
from holdfast.errors import BadOption

LONGEST_HOST = 253
_NAT64 = IPv6Network("64:ff9b::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_IPV4_COMPATIBLE = IPv6Network("::/96")
_RESERVED = (IPv4Network("192.88.99.0/24"), IPv6Network("3fff::/20"))
"""Blocks that not every Python counts as reserved: relays of 6to4, which are deprecated, and
addresses for documentation."""


def not_public(address: str) -> str | None:
    """Return what kind of address this is when it is not public, such as ``loopback``; None when it
    is public.

    An IPv6 address that stands for an IPv4 address (mapped, 6to4, NAT64) is judged by that IPv4
    address."""
    parsed = ip_address(
        address.partition("%")[0]
    )  # fe80::1%eth0: the zone says nothing about the kind
    embedded = _embedded(parsed) if isinstance(parsed, IPv6Address) else None
    if embedded is not None:
        return _kind(embedded)
    if isinstance(parsed, IPv6Address) and parsed in _LOCAL_NAT64:
        return "private"
    return _kind(parsed)


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that packets to an IPv6 address may be sent to."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    is_low = (
        address in _IPV4_COMPATIBLE and int(address) > 1
    )  # :: and ::1 are unspecified and loopback
    if address in _NAT64 or is_low:
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
        ),  # shared by carriers (100.64.0.0/10) among others
    }
    return next((kind for kind, applies in kinds.items() if applies), None)


def checked_hosts(option: str, hosts: Any) -> tuple[str, ...]:
    """Return names of hosts, or addresses, as they are compared with that of a URL; one alone may
    be given as it is. Raises BadOption."""
    given = [hosts] if isinstance(hosts, str) else checked_many(option, hosts)
    return tuple(dict.fromkeys(_checked_host(option, host) for host in given))


def _checked_host(option: str, host: object) -> str:
    why = (
        "it is the name of a host as in a URL, such as hooks.internal, without scheme, port and"
        " path"
    )
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
    """Return a host in the spelling in which hosts are compared."""
    return host.lower().removesuffix(".")


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
