"""BLAKE3 in plain Python, for the decoder beside it: hash and derive_key, 32 bytes out.

Slow and short on purpose. It must not be used for anything but reading small data directories.
"""

import struct

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
      0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
COLUMNS_THEN_DIAGONALS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
                          (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
DERIVE_KEY_CONTEXT, DERIVE_KEY_MATERIAL = 32, 64
CHUNK_BYTES, BLOCK_BYTES = 1024, 64
MASK = 0xFFFFFFFF


def rotate(word, bits):
    return (word >> bits | word << (32 - bits)) & MASK


def compress(chaining, block, counter, length, flags):
    """The first eight words of one compression, which is all that 32 bytes need."""
    state = [*chaining, *IV[:4], counter & MASK, counter >> 32, length, flags]
    words = struct.unpack("<16I", block.ljust(BLOCK_BYTES, b"\0"))
    for _ in range(7):
        for pair, (a, b, c, d) in enumerate(COLUMNS_THEN_DIAGONALS):
            for word, d_bits, b_bits in ((words[2 * pair], 16, 12), (words[2 * pair + 1], 8, 7)):
                state[a] = (state[a] + state[b] + word) & MASK
                state[d] = rotate(state[d] ^ state[a], d_bits)
                state[c] = (state[c] + state[d]) & MASK
                state[b] = rotate(state[b] ^ state[c], b_bits)
        words = [words[place] for place in PERMUTATION]
    return [low ^ high for low, high in zip(state[:8], state[8:])]


def chunk(data, key, counter, flags):
    blocks = [data[at:at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES)] or [b""]
    chaining = key
    for place, block in enumerate(blocks):
        first = CHUNK_START if place == 0 else 0
        last = CHUNK_END if place == len(blocks) - 1 else 0
        # Only the very last compression of the whole input is the root.
        on = flags | first | last if last else (flags & ~ROOT) | first
        chaining = compress(chaining, block, counter, len(block), on)
    return chaining


def subtree(data, key, counter, flags):
    if len(data) <= CHUNK_BYTES:
        return chunk(data, key, counter, flags)
    chunks = (len(data) + CHUNK_BYTES - 1) // CHUNK_BYTES
    left = 1 << ((chunks - 1).bit_length() - 1)
    below = flags & ~ROOT
    children = (subtree(data[:left * CHUNK_BYTES], key, counter, below)
                + subtree(data[left * CHUNK_BYTES:], key, counter + left, below))
    return compress(key, struct.pack("<16I", *children), 0, BLOCK_BYTES, flags | PARENT)


def blake3(data):
    """The hash of `data`."""
    return struct.pack("<8I", *subtree(data, IV, 0, ROOT))


def derive_key(context, material):
    """Key derivation over `material` under `context`."""
    key = subtree(context.encode(), IV, 0, ROOT | DERIVE_KEY_CONTEXT)
    return struct.pack("<8I", *subtree(material, key, 0, ROOT | DERIVE_KEY_MATERIAL))
