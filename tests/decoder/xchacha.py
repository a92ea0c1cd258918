"""XChaCha20-Poly1305 and HKDF-SHA-256 in plain Python, for the decoder beside it.

Slow and short on purpose, and not in constant time. It must not be used for anything but reading
small data directories.
"""

import hashlib
import hmac
import struct

MASK = 0xFFFFFFFF
PRIME = (1 << 130) - 5
CLAMP = 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
CONSTANTS = struct.unpack("<4I", b"expand 32-byte k")
ROUNDS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
          (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def permuted(state):
    x = list(state)
    for _ in range(10):
        for a, b, c, d in ROUNDS:
            for first, second, other, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8),
                                               (c, d, b, 7)):
                x[first] = (x[first] + x[second]) & MASK
                word = x[other] ^ x[first]
                x[other] = (word << bits | word >> (32 - bits)) & MASK
    return x


def block(key, counter, nonce):
    state = (*CONSTANTS, *struct.unpack("<8I", key), counter, *struct.unpack("<3I", nonce))
    return struct.pack("<16I", *((a + b) & MASK for a, b in zip(permuted(state), state)))


def subkey(key, nonce):
    mixed = permuted((*CONSTANTS, *struct.unpack("<8I", key), *struct.unpack("<4I", nonce)))
    return struct.pack("<8I", *mixed[:4], *mixed[12:])


def padded(data):
    return data + bytes(-len(data) % 16)


def tag_of(one_time, place, text):
    r = int.from_bytes(one_time[:16], "little") & CLAMP
    message = padded(place) + padded(text) + struct.pack("<QQ", len(place), len(text))
    sum_ = 0
    for at in range(0, len(message), 16):
        sum_ = (sum_ + int.from_bytes(message[at:at + 16] + b"\x01", "little")) * r % PRIME
    return ((sum_ + int.from_bytes(one_time[16:32], "little")) % (1 << 128)).to_bytes(16, "little")


def opened(key, nonce, place, sealed):
    """The text, or None when it was not sealed under that key for that place."""
    key, nonce = subkey(key, nonce[:16]), bytes(4) + nonce[16:]
    text, tag = sealed[:-16], sealed[-16:]
    if len(sealed) < 16 or tag_of(block(key, 0, nonce)[:32], place, text) != tag:
        return None
    stream = b"".join(block(key, 1 + at, nonce) for at in range(-(-len(text) // 64)))
    return bytes(a ^ b for a, b in zip(text, stream))


def derived(key, salt, info, length):
    """HKDF-SHA-256."""
    pseudo = hmac.new(salt or bytes(32), key, hashlib.sha256).digest()
    out, last, count = b"", b"", 1
    while len(out) < length:
        last = hmac.new(pseudo, last + info + bytes([count]), hashlib.sha256).digest()
        out, count = out + last, count + 1
    return out[:length]
