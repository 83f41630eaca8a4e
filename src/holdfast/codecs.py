"""Codecs that compress or encrypt stored values."""

from holdfast.payloads.codecs import Compressed as Compressed
from holdfast.payloads.codecs import Encrypted as Encrypted
from holdfast.payloads.codecs import generate_key as generate_key
