#!/usr/bin/env python3
"""Reads the data directory of a stopped store and prints all of it as one JSON document.

Written from docs/format.md and not from the engine's code, so that a second reading of that text
exists and disagrees aloud when the bytes move; where the text left a question, the text was
mended. It must not change a file. Every checksum is checked and both chains are followed from
their start; what does not hold is listed under `problems`, a torn tail under `notes`. Exit code 1
with problems. Compressed blocks need the `zstd` command; without it their checksums and the chains
around them are checked, their events are left out and `frames_skipped` counts them. What is lost of
a session is listed under its `gaps`: as a problem, unless a record says that a person gave it up.

An encrypted store is read with its master key, 64 hex digits, in SESSIONLOG_KEY. A directory with a
file BACKUP is a backup: every file of it must be what that says, and what it holds is printed.

    decode.py DATA
"""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections import namedtuple
from pathlib import Path

from blake3 import blake3, derive_key
from xchacha import derived, opened

FRAME_HEADER = 192
BLOCK = 4096
PAYLOAD_MAX = 24 << 20
RECORDS_MAX = 64 << 20
COUNT_MAX = (1 << 63) - 1
EVENT, CREATE, CHANGE, BATCH_KEY, LOSS, LINEAGE, LIFE = 1, 16, 17, 18, 19, 20, 21
ERASE, NOTE, LEASE, REDACT = 22, 23, 24, 26
REDACTED = '{"redacted":true}'
REQUEST, WATERMARK, SEALED_BLOCK = 1, 2, 3
ORIGINS = {0: None, 1: "user", 2: "model", 3: "tool", 4: "web", 5: "harness", 6: "import"}
NO_SALT = bytes(8)
# Kind, codec, compression and cipher of any frame of this version.
LIKELY = re.compile(rb"(?=[\x01-\x03][\x01\x02][\x00\x01][\x00\x01])")


class Bad(Exception):
    """Bytes that are not what the format says."""


def need(holds, sentence):
    if not holds:
        raise Bad(sentence)


def checksum(salt, *parts):
    value = zlib.crc32(salt)
    for part in parts:
        value = zlib.crc32(part, value)
    return value


def u32(data, at):
    return struct.unpack_from("<I", data, at)[0]


def u64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def i64(data, at):
    return struct.unpack_from("<q", data, at)[0]


def up_to(multiple, number):
    return (number + multiple - 1) // multiple * multiple


def sized(data):
    return struct.pack("<Q", len(data)) + data


# ---- the variable-length encoding of records and entries


class Bytes:
    """Takes values off the front of an encoding."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def raw(self, length):
        need(self.at + length <= len(self.data), "an encoding ends within a value")
        self.at += length
        return self.data[self.at - length:self.at]

    def byte(self):
        return self.raw(1)[0]

    def flag(self):
        value = self.byte()
        need(value in (0, 1), "a flag is neither 0 nor 1")
        return value == 1

    def number(self):
        first = self.byte()
        if first < 251:
            return first
        need(first <= 253, "an integer has an unknown length")
        return int.from_bytes(self.raw({251: 2, 252: 4, 253: 8}[first]), "little")

    def signed(self):
        number = self.number()
        return number >> 1 if number & 1 == 0 else -(number >> 1) - 1

    def bytestring(self):
        return self.raw(self.number())

    def string(self):
        return self.bytestring().decode()

    def option(self, value):
        return value() if self.flag() else None

    def list(self, value):
        return [value() for _ in range(self.number())]

    def map(self, value):
        return {self.string(): value() for _ in range(self.number())}

    def end(self):
        need(self.at == len(self.data), "bytes are left behind an encoding")


Record = namedtuple(
    "Record", "kind origin created_at processed_at name id redacted salt body")


def take_record(data):
    return Record(data.byte(), data.byte(), data.option(data.signed), data.signed(), data.string(),
                  data.string(), data.option(lambda: data.raw(32)), data.raw(16), data.bytestring())


WRAP = 1 << 64


def as_signed(number):
    number %= WRAP
    return number - WRAP if number >= WRAP // 2 else number


def running(values):
    total = 0
    for value in values:
        total += value
        yield total


def take_columns(data, count):
    """The (lsn, record) of each record of a block in columns."""
    def column(value):
        return [value() for _ in range(count)]
    lsns = [lsn % WRAP for lsn in running(column(data.number))]
    kinds, origins = column(data.byte), column(data.byte)
    ago = column(lambda: data.option(data.signed))
    processed = [as_signed(time) for time in running(column(data.signed))]
    created = [None if before is None else as_signed(time - before)
               for before, time in zip(ago, processed)]
    names, redacted = column(data.string), column(lambda: data.option(lambda: data.raw(32)))
    lengths, ids = column(data.number), column(data.string)
    salts = column(lambda: data.raw(16))
    bodies = [data.raw(length) for length in lengths]
    fields = zip(kinds, origins, created, processed, names, ids, redacted, salts, bodies)
    return lsns, [Record(*record) for record in fields]


def link(chain, place, record):
    """The chain behind `record`."""
    content = record.redacted or blake3(record.salt + record.body)
    return blake3(
        chain + struct.pack(
            "<QBBBqq", place, record.kind, record.origin, record.created_at is not None,
            record.created_at or 0, record.processed_at)
        + sized(record.name.encode()) + sized(record.id.encode()) + content)


# ---- frames


# ---- what is encrypted


class Keys:
    """The keys of an encrypted store: its own, and those of its sessions by their numbers."""

    def __init__(self, root, store, master):
        self.store, self.root, self.master, self.known = store[16:32], root, master, {}
        stored = [at for at in (48, 144) if store[at:at + 8] == self.expand(b"key id", b"", 8)]
        need(stored, "the store is encrypted under another key")
        at = stored[0]
        need(store[at + 8:at + 24] == self.expand(b"key check", self.store, 16), "a check is wrong")
        place = (b"sessionlog v1 own key" + self.store + bytes(8) + store[at:at + 8] + store[32:40])
        wrap = self.expand(b"store key", self.store, 32)
        self.own = opened(wrap, store[at + 24:at + 48], place, store[at + 48:at + 96])
        need(self.own, "the store's own key does not open")
        need(not any(store[41:48]) and not any(store[240:]), "STORE has something behind its keys")

    def expand(self, info, salt, length):
        return derived(self.master, salt, b"sessionlog v1 " + info, length)

    def key(self, number):
        if number == 0:
            return self.own
        if number not in self.known:
            found = [self.slot((self.root / "keys" / name).read_bytes(), number)
                     for name in ("0", "1") if (self.root / "keys" / name).exists()]
            found = [key for key in found if key]
            need(found, f"the key {number} is gone")
            self.known[number] = found[0]
        return self.known[number]

    def slot(self, data, number):
        need(data[:8] == b"SLKEYS01" and u32(data, 8) == 1 and data[16:32] == self.store
             and u32(data, 12) == checksum(NO_SALT, data[16:128]), "a header of keys is wrong")
        slot = data[128 * number:128 * number + 128]
        if len(slot) < 128 or u32(slot, 0) != checksum(NO_SALT, slot[4:]) or slot[4] != 1:
            return None
        need(u64(slot, 8) == number and slot[32:40] == self.expand(b"key id", b"", 8),
             "a key is another's, or wrapped under another master key")
        tenant = self.expand(b"tenant key" + slot[16:32], self.store, 32)
        place = (b"sessionlog v1 session key" + self.store + slot[8:16] + slot[32:40] + slot[16:32])
        return opened(tenant, slot[40:64], place, slot[64:112])

    def tag(self, tenant):
        return derived(self.own, self.store, b"sessionlog v1 tenant" + tenant.encode(), 16)


KEYS = None


def open_sealed(number, nonce, what, fields, sealed):
    place = what + KEYS.store + struct.pack("<Q", number) + fields
    text = opened(KEYS.key(number), nonce, place, sealed)
    need(text is not None, "something was not encrypted for its place")
    return text


class Frame:
    """A frame whose header and payload checksums hold."""

    def __init__(self, data, at, salt):
        need(at % 8 == 0 and at + FRAME_HEADER <= len(data), "no room for a frame")
        head = data[at:at + FRAME_HEADER]
        self.length = u32(head, 0)
        need(u32(head, 4) == checksum(salt, head[0:4], head[8:192]), "a frame header is wrong")
        need(may_be_true(head), "the numbers of a frame cannot be true")
        need(self.length <= PAYLOAD_MAX, "a frame is longer than any")
        self.at, self.end = at, at + up_to(8, FRAME_HEADER + self.length)
        need(self.end <= len(data), "a frame is cut")
        self.payload = data[at + FRAME_HEADER:at + FRAME_HEADER + self.length]
        need(u32(head, 8) == checksum(salt, self.payload), "a payload is wrong")
        need(not any(data[at + FRAME_HEADER + self.length:self.end]), "padding is not zero")
        self.kind, self.codec, self.compression, self.cipher = head[12:16]
        self.count, self.events = u32(head, 16), u32(head, 20)
        self.first_lsn, self.synced_lsn, self.first_position = struct.unpack_from("<QQQ", head, 56)
        self.session, self.chain, self.control = head[80:112], head[112:144], head[144:176]
        copy_lsn = u64(head, 176)
        # The numbers it takes of the journal's count.
        self.numbers = (copy_lsn, copy_lsn + 1) if copy_lsn else (
            self.first_lsn, self.first_lsn + self.count)
        need(self.cipher in (0, 1), "a cipher is unknown")
        self.key, self.nonce, self.bound = u64(head, 24), head[32:56], (
            head[12:24] + head[72:176])
        need(self.cipher or not any(head[24:56]), "a frame without a cipher has a key")
        need((self.cipher == 1) == (KEYS is not None) or self.kind == WATERMARK,
             "a frame is not encrypted as its store is")
        codecs = (1, 2) if self.kind == SEALED_BLOCK else (1,)
        need(self.codec in codecs, "a frame has an unknown record codec")
        need(self.kind in (REQUEST, WATERMARK, SEALED_BLOCK), "a frame is of an unknown kind")

    def records(self):
        """(lsn, record) of each, or None where zstd is needed and not at hand."""
        payload = self.payload
        if self.cipher:
            payload = open_sealed(self.key, self.nonce, b"sessionlog v1 frame", self.bound, payload)
        if self.compression == 1:
            payload = decompressed(payload)
            if payload is None:
                return None
        else:
            need(self.compression == 0, "a compression is unknown")
        lsns = [self.first_lsn + place for place in range(self.count)]
        data = Bytes(payload)
        if self.codec == 2:
            lsns, records = take_columns(data, self.count)
        else:
            if self.kind == SEALED_BLOCK:
                lsns = [u64(data.raw(8), 0) for _ in range(self.count)]
            records = [take_record(data) for _ in range(self.count)]
        if self.kind == SEALED_BLOCK:
            need(lsns == sorted(set(lsns)) and lsns[:1] == [self.first_lsn],
                 "the numbers of a block do not ascend from its first")
        data.end()
        need(sum(record.kind == EVENT for record in records) == self.events,
             "a frame counts its events wrongly")
        return list(zip(lsns, records))


def decompressed(payload):
    if not shutil.which("zstd"):
        return None
    run = subprocess.run(["zstd", "-dcq"], input=payload, capture_output=True, check=False)
    need(run.returncode == 0, "a payload does not decompress")
    return run.stdout


def frame_or_none(data, at, salt):
    try:
        return Frame(data, at, salt)
    except Bad:
        return None


def whole_header(data, at, salt):
    head = data[at:at + FRAME_HEADER]
    whole = len(head) == FRAME_HEADER and u32(head, 4) == checksum(salt, head[0:4], head[8:192])
    return head if whole and may_be_true(head) else None


def may_be_true(head):
    """Whether the numbers of a header can be true together."""
    count, events = u32(head, 16), u32(head, 20)
    ends = (u64(head, 56) + count, u64(head, 72) + events, u64(head, 176) + 1)
    return events <= count <= RECORDS_MAX and all(end + 1 < WRAP for end in ends)


def header_end(data, at, salt):
    """Where the frame at `at` ends, when its header is whole."""
    head = whole_header(data, at, salt)
    return head and at + up_to(8, FRAME_HEADER + u32(head, 0))


Hurt = namedtuple("Hurt", "session records numbers")


def hurt_frame(data, at, salt):
    """What the header of a frame says whose payload is wrong; None when the header is too."""
    head = whole_header(data, at, salt)
    if head is None:
        return None
    first, copy_lsn = u64(head, 56), u64(head, 176)
    records = range(first, first + u32(head, 16))
    numbers = range(copy_lsn, copy_lsn + 1) if copy_lsn else records
    return Hurt(head[80:112], records, numbers)


def scan(data, at, end, salt):
    """(byte offset, frame) of each place from `at` on, and None for a frame that is not whole."""
    while at < end:
        frame = frame_or_none(data[:end], at, salt) or watermark_behind(data, at, end, salt)
        if frame:
            yield frame.at, frame
            at = frame.end
            continue
        behind = next_header(data, at, end, salt) or header_end(data, at, salt)
        if behind is None:
            return
        yield at, None
        at = behind


def watermark_behind(data, at, end, salt):
    """The watermark that belongs to the end `at`, where no frame begins."""
    frame = frame_or_none(data[:end], up_to(BLOCK, at), salt)
    found = frame and frame.kind == WATERMARK and frame.first_position == at
    return frame if found else None


def next_header(data, at, end, salt):
    places = (match.start() - 12 for match in LIKELY.finditer(data, at + 8 + 12, end))
    return next((place for place in places
                 if place % 8 == 0 and header_end(data, place, salt)), None)


# ---- sessions


def session_hash(tenant, user, session, incarnation):
    parts = (tenant.encode(), user.encode(), session.encode(), incarnation)
    return derive_key("sessionlog v1 session hash", b"".join(sized(part) for part in parts))


class Session:
    """What the records of one session fold to."""

    def __init__(self, digest):
        self.hash = digest
        self.chain = derive_key("sessionlog v1 event chain", digest)
        self.control = derive_key("sessionlog v1 control chain", digest)
        self.tail, self.end_lsn, self.frames_skipped = 0, 0, 0
        self.names = self.title = self.workspace = self.entry = self.lineage = None
        self.archived_at = self.deleted_at = self.held_at = self.expired_at = self.last = None
        self.erased_at = None
        self.metadata, self.events, self.control_records = {}, [], {}
        self.redacted = set()
        # The event chain at each position that was folded.
        self.chains = {0: self.chain}
        # Positions that are lost, and those of them a person gave up: (from, to, reason, time).
        self.gaps, self.accepted = [], []
        # Token, end and key of the last lease; notes; number, place and openness of a checkpoint.
        self.work = (0, None, None, 0, None)

    def begin(self, lineage):
        """A fork goes on from its parent's position and chain."""
        self.tail, self.chain = lineage.position, lineage.chain
        self.chains = {self.tail: self.chain}

    def lose(self, to):
        """Goes on behind a place that is lost: the chains go on from the next frame's header."""
        if to > self.tail:
            self.gaps.append((self.tail, to))
        self.tail, self.chain, self.control = max(to, self.tail), None, None

    def take(self, frame, known_below=0):
        """Folds the records of `frame` whose number is `known_below` or more."""
        need(frame.session == self.hash, "a frame is of another session")
        records = frame.records()
        if records is None:
            return self.skip(frame)
        new = [(lsn, record) for lsn, record in records if lsn >= max(known_below, self.end_lsn)]
        if self.names is None and new and new[0][1].kind == LINEAGE:
            fork = fork_of(new[0][1])
            need(fork, "a session begins with a lineage that is none")
            self.begin(fork[1])
        if self.chain is None and new:
            self.chain, self.control = frame.chain, frame.control
        if len(new) == len(records):
            need(frame.chain == self.chain, "the event chain is broken")
            need(frame.control == self.control, "the control chain is broken")
            need(frame.first_position == self.tail, "a position is not the tail")
        for lsn, record in new:
            self.fold(lsn, record)
        return None

    def skip(self, frame):
        """Passes a frame that cannot be decompressed: the chains go on from the next frame's header."""
        self.frames_skipped += 1
        self.tail = frame.first_position + frame.events
        self.chain = self.control = None

    def fold(self, lsn, record):
        self.end_lsn = lsn + 1
        if record.kind not in (NOTE, LEASE):
            need(self.last is None or record.processed_at >= self.last, "the store's clock went back")
            self.last = record.processed_at
        if record.kind == EVENT:
            self.chain = link(self.chain, self.tail, record)
            self.chains[self.tail + 1] = self.chain
            self.events.append({
                "position": self.tail, "id": record.id, "type": record.name,
                "origin": ORIGINS[record.origin], "created_at": record.created_at,
                "processed_at": record.processed_at,
                "body": REDACTED if record.redacted else record.body.decode()})
            if record.redacted:
                self.redacted.add(self.tail)
            self.tail += 1
            return
        self.control = link(self.control, lsn, record)
        self.control_records[record.kind] = self.control_records.get(record.kind, 0) + 1
        if record.redacted:
            need(record.kind == BATCH_KEY, "a control record has no body")
            return
        body = Bytes(record.body)
        if record.kind == CREATE:
            self.create(body)
        elif record.kind == LINEAGE and self.names is None:
            self.create(body)
            self.lineage = take_lineage(body)
        elif record.kind in (CHANGE, LIFE):
            self.change(body, record.processed_at)
            if record.kind == LIFE:
                self.life(body, record.processed_at)
        elif record.kind == BATCH_KEY:
            key, first, count, digest = take_batch_key(body)
            need(first + count == self.tail, f"the batch {key!r} names other positions")
            events = [event for event in self.events if event["position"] >= first]
            if len(events) == count and not self.redacted.intersection(range(first, first + count)):
                need(digest == blake3(b"".join(
                    sized(event["type"].encode()) + sized(event["body"].encode())
                    for event in events)), f"the digest of the batch {key!r} is wrong")
        elif record.kind == LOSS:
            lost = body.list(lambda: (body.number(), body.number(), body.string()))
            self.accepted += [(*place, record.processed_at) for place in lost]
        elif record.kind == REDACT:
            self.redact(body.number())
        elif record.kind == NOTE:
            self.note(lsn, body)
        elif record.kind == LEASE:
            fence, until = body.number(), body.option(body.signed)
            key = body.option(lambda: body.raw(16))
            self.work = (max(fence, self.work[0]), until, key, *self.work[3:])
        else:
            return
        body.end()

    def erase(self, frame, lsn, record):
        """All that is left of a session whose frame of its last record this is."""
        body = Bytes(record.body)
        self.names = (body.string(), body.string(), body.string())
        need(session_hash(*self.names, body.raw(16)) == self.hash, "a tombstone is another's")
        key = body.number()
        body.end()
        entry, self.tail, self.chain = self.entry, frame.first_position, frame.chain
        self.control, self.end_lsn = link(frame.control, lsn, record), lsn + 1
        self.deleted_at = self.erased_at = record.processed_at
        if entry:
            need(key == entry["key"], "a tombstone names another key")
            for name in ("archived_at", "expired_at", "lineage"):
                setattr(self, name, entry[name])
            self.deleted_at = self.deleted_at if entry["deleted_at"] is None else entry["deleted_at"]
            need(entry["erased_at"] is None or
                 (self.erased_at, self.tail, self.chain, self.control, self.end_lsn) == tuple(
                     entry[name] for name in ("erased_at", "tail", "chain", "control", "end_lsn")),
                 "an erased session is settled as another")

    def redact(self, position):
        """Whatever a file has of that body, nobody is told."""
        self.redacted.add(position)
        for event in self.events:
            if event["position"] == position:
                event["body"] = REDACTED

    def create(self, body):
        need(self.names is None, "a session is created twice")
        self.names = (body.string(), body.string(), body.string())
        incarnation = body.raw(16)
        need(session_hash(*self.names, incarnation) == self.hash, "a session hash is wrong")
        self.title, self.metadata = body.option(body.string), body.map(body.string)
        self.workspace = body.option(body.string)
        body.option(body.number)
        body.option(body.string)

    def change(self, body, now):
        if body.flag():
            self.title = body.option(body.string)
        for key, value in body.map(lambda: body.option(body.string)).items():
            if value is None:
                self.metadata.pop(key, None)
            else:
                self.metadata[key] = value
        if body.flag():
            self.archived_at = now
        if body.flag():
            self.deleted_at = now

    def note(self, lsn, body):
        kind, position = body.byte(), body.number()
        body.string(), body.bytestring()
        idle, (fence, until, key, notes, mark) = body.flag(), self.work
        if kind in (2, 3):
            still = mark is not None and mark[2]
            mark = (lsn, position, still if idle else kind == 2)
        self.work = (fence, until, key, notes + 1, mark)

    def life(self, body, now):
        hold, expire, restore = body.option(body.flag), body.flag(), body.flag()
        if hold is not None:
            self.held_at = (self.held_at or now) if hold else None
        if expire:
            self.expired_at = self.expired_at or now
        if restore:
            self.expired_at = None

    def accepted_at(self, gap):
        """When a person gave up a place, if one did."""
        return next((at for start, end, _, at in self.accepted
                     if start <= gap[0] and gap[1] <= end), None)

    def used_at(self):
        """When it was used last, as its settled entry has it; records behind that use it again."""
        if not self.entry or "used_after" not in self.entry:
            return None
        return self.entry["updated_at"] + 1_000_000 * self.entry["used_after"]

    def shown(self):
        tenant, user, session = self.names
        return {
            "tenant": tenant, "user": user, "id": session, "tail": self.tail,
            "chain": self.chain and self.chain.hex(),
            "title": self.title, "metadata": dict(sorted(self.metadata.items())),
            "workspace": self.workspace, "archived_at": self.archived_at,
            "deleted_at": self.deleted_at, "held_at": self.held_at, "erased_at": self.erased_at,
            "expired_at": self.expired_at, "used_at": self.used_at(),
            "forked_from": self.lineage and {
                "session": self.lineage.parent, "position": self.lineage.position},
            "frames_skipped": self.frames_skipped,
            "control_records": self.control_records,
            "gaps": [{"from": start, "to": end, "accepted_at": self.accepted_at((start, end))}
                     for start, end in self.gaps],
            "events": self.events}


Lineage = namedtuple("Lineage", "parent incarnation position chain")


def take_lineage(body):
    return Lineage(body.string(), body.raw(16), body.number(), body.raw(32))


def fork_of(record):
    """What a record of kind 20 says; None of one that another version may have left."""
    body = Bytes(record.body)
    try:
        names = body.string(), body.string(), body.string()
        fixed = body.raw(16), body.option(body.string), body.map(body.string)
        rest = body.option(body.string), body.option(body.number), body.option(body.string)
        lineage = take_lineage(body)
        body.end()
        return (names, fixed, rest), lineage
    except (Bad, UnicodeDecodeError):
        return None


def take_batch_key(body):
    return body.string(), body.number(), body.number(), body.raw(32)


# ---- segments


class Segment:
    """The file of one segment, its header checked."""

    def __init__(self, path, store_id, digest):
        self.data, self.name = path.read_bytes(), path.name
        head = self.data[:FRAME_HEADER]
        need(len(head) == FRAME_HEADER and head[:8] == b"SLSEGMT1", "no segment")
        need(u32(head, 8) == 1, "a segment of another version")
        need(u32(head, 12) == checksum(NO_SALT, head[16:192]), "a segment header is wrong")
        need(head[16:32] == store_id, "a segment of another store")
        need(head[40:72] == digest, "a segment of another session")
        self.salt = head[32:40]
        self.base, self.start, self.first_lsn = struct.unpack_from("<QQQ", head, 72)
        self.chain, self.control, self.sealed = head[96:128], head[128:160], head[160] == 1
        need(head[161] == (1 if KEYS else 0), "a segment is not encrypted as its store is")
        self.key = u64(head, 168)

    def frames(self, session, end, kind):
        """Folds the frames up to `end`, and yields each; what is not whole is lost."""
        behind, lost = FRAME_HEADER, False
        for at, frame in scan(self.data, FRAME_HEADER, end, self.salt):
            if frame is None:
                lost = True
                continue
            need(frame.kind == kind, "a frame of this kind does not belong here")
            if lost:
                session.lose(frame.first_position)
            session.take(frame)
            behind, lost = frame.end, False
            yield frame
        self.whole_to = end if behind == end and not lost else behind

    def begins(self, session):
        need(self.base == session.tail, "a segment has another base")
        for mine, theirs in ((self.chain, session.chain), (self.control, session.control)):
            need(theirs is None or mine == theirs, "a chain at a segment's base is wrong")
        session.chain, session.control = self.chain, self.control

    def read_open(self, session, believed, end):
        need(not self.sealed, "an open segment says that it is sealed")
        need(believed <= len(self.data), "an open segment is shorter than settled")
        self.begins(session)
        for _ in self.frames(session, believed, REQUEST):
            pass
        if self.whole_to != believed:
            session.lose(end)

    def read_sealed(self, session, end):
        need(self.sealed, "a sealed segment says that it is open")
        foot = self.data[-FRAME_HEADER:]
        version = u32(foot, 12)
        need(foot[:8] == b"SLSEALF1" and version in (1, 2), "no footer")
        need(u32(foot, 8) == checksum(self.salt, foot[16 if version == 1 else 12:192]),
             "a footer is wrong")
        (blocks, ids, index_at, ids_at, batches_at, end_position, last_lsn,
         record_count) = struct.unpack_from("<8Q", foot, 16)
        tables_end = len(self.data) - FRAME_HEADER
        need(u32(foot, 144) == checksum(self.salt, self.data[index_at:tables_end]),
             "the tables of a segment are wrong")
        if KEYS:
            # From here on as it was before it was encrypted.
            tables = self.data[index_at:tables_end]
            fields = self.data[16:FRAME_HEADER] + foot[16:144]
            tables = open_sealed(self.key, tables[:24], b"sessionlog v1 tables", fields, tables[24:])
            self.data, tables_end = self.data[:index_at] + tables, index_at + len(tables)
        need(index_at + 48 * blocks == ids_at and ids_at + 24 * ids == batches_at,
             "the tables do not follow each other")
        need(end_position == end, "a footer has another end")
        nameless = version == 2 or u32(foot, 148) == 1
        need(blocks == 1 and not ids if nameless else u32(foot, 148) == 0,
             "a segment without ids has another number of blocks than one")
        self.begins(session)
        seen, rows, first_event = 0, [], len(session.events)
        skipped_before, gaps_before = session.frames_skipped, len(session.gaps)
        for frame in self.frames(session, index_at, SEALED_BLOCK):
            rows.append(self.index_row(index_at, blocks, frame))
            seen += frame.count
        if self.whole_to != index_at:
            session.lose(end)
        whole = len(session.gaps) == gaps_before and session.chain is not None
        if whole:
            need(rows == list(range(blocks)), "the index has another number of blocks")
            need(seen == record_count, "a footer counts records wrongly")
            need((session.chain, session.control) == (foot[80:112], foot[112:144]),
                 "a chain in a footer is wrong")
            need(session.end_lsn == last_lsn + 1, "a footer has another last number")
        session.chain, session.control, session.end_lsn = foot[80:112], foot[112:144], last_lsn + 1
        need(session.tail == end, "a segment ends elsewhere")
        if whole and session.frames_skipped == skipped_before and not nameless:
            self.ids(ids_at, batches_at, session.events[first_event:])
        self.batches(batches_at, tables_end)

    def index_row(self, index_at, blocks, frame):
        """Which row of the index names that block."""
        rows = [struct.unpack_from("<QQQqIIII", self.data, index_at + 48 * n) for n in range(blocks)]
        named = [n for n, row in enumerate(rows) if row[0] == frame.at]
        need(len(named) == 1, "a block has no row in the index, or two")
        row = rows[named[0]]
        need(row[1:3] == (frame.first_position, frame.first_lsn)
             and row[4:] == (frame.end - frame.at, frame.events, frame.count, 0),
             "a row of the index is wrong")
        records = frame.records()
        need(records is None or row[3] == records[0][1].processed_at,
             "a time in the index is wrong")
        return named[0]

    def ids(self, at, end, events):
        rows = [(self.data[row:row + 16], u64(self.data, row + 16)) for row in range(at, end, 24)]
        need(rows == sorted((blake3(event["id"].encode())[:16], event["position"])
                            for event in events), "the id table is wrong")

    def batches(self, at, end):
        data = Bytes(self.data[:end], at)
        data.list(lambda: (data.signed(), take_batch_key(data)))
        need(not any(self.data[data.at:end]) and end - data.at < 8, "bytes behind the batches")


# ---- the settled files


Place = namedtuple("Place", "clean start order byte_offset lsn at")


def take_entry(data):
    text, number, time = data.string, data.number, data.signed
    return {
        "names": (text(), text(), text()), "incarnation": data.raw(16), "title": data.option(text),
        "metadata": data.map(text), "workspace": data.option(text),
        "ttl_seconds": data.option(number), "create_key": data.option(text),
        "created_at": time(), "updated_at": time(), "archived_at": data.option(time),
        "deleted_at": data.option(time), "held_at": data.option(time),
        "expired_at": data.option(time), "used_after": time(), "reclaimed": data.flag(),
        "tail": number(), "end_lsn": number(),
        "chain": data.raw(32), "control": data.raw(32), "bytes": number(),
        "segments": data.list(lambda: (number(), number(), data.flag(), number(), number())),
        "damage": data.list(lambda: (number(), number(), text())),
        "key": number(), "erased_at": data.option(time),
        "redacted": data.list(lambda: (number(), data.flag())),
        "work": (number(), data.option(time), data.option(lambda: data.raw(16)), number(),
                 data.option(lambda: (number(), number(), data.flag()))),
        "lineage": data.option(lambda: take_lineage(data))}


def is_sound(entry):
    counts = [entry["tail"], entry["end_lsn"], entry["bytes"], entry["work"][0], entry["work"][3]]
    for base, _, _, size, end in entry["segments"]:
        counts += [size, end]
        if base > end:
            return False
    return max(counts) <= COUNT_MAX


def settled_file(data, store_id):
    """The youngest whole generation of one file: (generation, place, entries by session hash)."""
    need(data[:8] == b"SLSETTL1" and u32(data, 8) == 4, "no settled file of this version")
    need(u32(data, 40) == 4, "a settled header has two versions")
    need(u32(data, 12) == checksum(NO_SALT, data[16:64]), "a settled header is wrong")
    need(data[16:32] == store_id, "a settled file of another store")
    need(data[44] == (1 if KEYS else 0), "a settled file is not encrypted as its store is")
    salt, at, entries, pending, last = data[32:40], 64, {}, [], None
    while at + 16 <= len(data):
        length, end = u32(data, at), at + 16 + u32(data, at)
        if end > len(data) or u32(data, at + 4) != checksum(
                salt, data[at:at + 4], data[at + 8:end]):
            break
        generation, body = u64(data, at + 8), data[at + 16:at + 16 + length]
        if KEYS:
            fields = salt + struct.pack("<QQ", generation, at)
            body = open_sealed(0, body[:24], b"sessionlog v1 settled", fields, body[24:])
        body = Bytes(body)
        more = body.flag()
        place = Place(body.flag(), *(body.number() for _ in range(4)), body.signed())
        body.signed(), body.signed()
        pending += body.list(lambda: take_entry(body))
        body.end()
        need(all(is_sound(entry) for entry in pending), "an entry cannot be true")
        if not more:
            for entry in pending:
                entries[session_hash(*entry["names"], entry["incarnation"])] = entry
            pending, last = [], (generation, place)
        at = up_to(8, end)
    need(last is not None, "a settled file without a whole generation")
    return (*last, entries)


# ---- the journal


class Use:
    """One use of one journal file."""

    def __init__(self, path, store_id):
        self.data, self.name = path.read_bytes(), path.name
        need(len(self.data) % BLOCK == 0, "a journal file is no multiple of 4096")
        copies = [self.data[at:at + 192] for at in (0, BLOCK)]
        self.order = 0
        whole = [copy for copy in copies if copy[:8] == b"SLJOURN1" and u32(copy, 8) == 1
                 and u32(copy, 12) == checksum(NO_SALT, copy[16:192])]
        if not whole and not all(any(copy) for copy in copies):
            # The first write to it was torn: it was never used.
            return
        need(whole, "a journal header is wrong in both copies")
        head = whole[0]
        need(head[16:32] == store_id, "a journal file of another store")
        self.salt = head[32:40]
        (self.order, self.start, self.first_lsn, self.previous_end, self.previous_end_lsn,
         self.previous_order) = struct.unpack_from("<6Q", head, 40)


def read_backup(root):
    """What the file BACKUP says; every file of the backup is as it says."""
    text = (root / "BACKUP").read_bytes()
    end = text.rfind(b"\n", 0, -1) + 1
    need(text.startswith(b"sessionlog backup 1\n"), "no backup of this version")
    need(text[end:] == b"end " + blake3(text[:end]).hex().encode() + b"\n", "BACKUP is not whole")
    lines = [line.split(" ", 1) for line in text[:end].decode().split("\n")[1:-1]]
    need([name for name, _ in lines[:4]] == ["store", "at", "sessions", "key"], "BACKUP lacks a line")
    store, at, sessions, key = (value for _, value in lines[:4])
    named = {}
    for name, value in lines[4:]:
        need(name == "file", "BACKUP has a line of no kind")
        digest, size, path = value.split(" ", 2)
        named[path] = (digest, int(size))
    files = [path for path in (root / "data").rglob("*") if path.is_file()]
    files = {path.relative_to(root / "data").as_posix(): path.read_bytes() for path in files}
    need(files.keys() == named.keys(), "a backup has other files than BACKUP names")
    for path, data in files.items():
        need(named[path] == (blake3(data).hex(), len(data)), f"{path} is not what was copied")
    head = files["STORE"]
    need(head[16:32].hex() == store, "a backup is of another store")
    need(key == (head[48:56].hex() if head[40] else "none"), "a backup is under another master key")
    return {"at": int(at), "sessions": int(sessions)}


class Decoder:
    """One data directory."""

    def __init__(self, root):
        self.root, self.problems, self.notes, self.sessions = Path(root), [], [], {}
        self.backup = None
        # Of the journal: frames by their first number, the numbers in them, numbers not found, and
        # what headers say of frames whose payloads are wrong.
        self.frames, self.numbers, self.gaps, self.hurt = {}, set(), [], []

    def read(self):
        if (self.root / "BACKUP").exists():
            self.backup = read_backup(self.root)
            self.root = self.root / "data"
        store = (self.root / "STORE").read_bytes()
        need(len(store) == 256 and store[:8] == b"SLSTORE1", "no store")
        need(u32(store, 8) == 1, "a store of another version")
        need(u32(store, 12) == checksum(NO_SALT, store[16:256]), "STORE is wrong")
        self.id = store[16:32]
        need(store[40] in (0, 1), "a cipher is unknown")
        if store[40]:
            global KEYS
            KEYS = Keys(self.root, store, bytes.fromhex(os.environ["SESSIONLOG_KEY"]))
        generation, place, entries = self.settled()
        self.journal(place)
        self.tombstones(entries)
        for digest, entry in entries.items():
            if digest not in self.sessions:
                self.guarded(lambda: self.settled_session(digest, entry), digest.hex())
        self.requests()
        for session in self.sessions.values():
            self.guarded(lambda: self.goes_on(session), session.hash.hex())
            self.problems += [f"{session.hash.hex()}: positions {start} to {end} are lost"
                              for start, end in session.gaps
                              if session.accepted_at((start, end)) is None]
        sessions = sorted((session for session in self.sessions.values() if session.names),
                          key=lambda session: (session.names, session.hash))
        return {
            "store_id": self.id.hex(), "created_at": i64(store, 32), "generation": generation,
            "clean": place.clean, "backup": self.backup, "problems": self.problems, "notes": self.notes,
            "sessions": [session.shown() for session in sessions]}

    def goes_on(self, session):
        """A fork begins with the chain that its parent has where it goes on from it."""
        lineage = session.lineage
        parent = lineage and self.sessions.get(session_hash(
            *session.names[:2], lineage.parent, lineage.incarnation))
        if parent and lineage.position in parent.chains:
            need(parent.chains[lineage.position] == lineage.chain,
                 "a fork begins with another chain than its parent has there")

    def guarded(self, work, where):
        try:
            return work()
        except (Bad, OSError, UnicodeDecodeError, struct.error) as error:
            self.problems.append(f"{where}: {error}")
            return None

    def settled(self):
        found = []
        # The second file of a backup is made by whoever brings it back.
        for name in ("0",) if self.backup else ("0", "1"):
            path = self.root / "settled" / name
            whole = self.guarded(lambda: settled_file(path.read_bytes(), self.id), f"settled/{name}")
            if whole:
                found.append(whole)
        need(found, "no settled file is whole")
        return max(found, key=lambda whole: whole[0])

    def settled_session(self, digest, entry):
        if entry["reclaimed"]:
            return
        session = self.sessions[digest] = Session(digest)
        session.entry = entry
        need((entry["key"] > 0) == (KEYS is not None), "an entry has a key where there are none")
        if entry["erased_at"] is not None:
            need(entry["deleted_at"] is not None, "an erased session is not deleted")
            need(not any(entry[name] for name in (
                "title", "metadata", "workspace", "create_key", "damage", "bytes")),
                 "an entry says more than that its session is erased")
            left = [tuple(one) for one in entry["redacted"]]
            need(left in ([], [(2 ** 64 - 1, False)]), "an erased session has redacted events")
        if entry["deleted_at"] is not None:
            # Its segments may be gone.
            for name in ("names", "title", "metadata", "workspace", "archived_at", "deleted_at",
                         "erased_at", "tail", "end_lsn", "chain", "control", "lineage"):
                setattr(session, name, entry[name])
            return
        if entry["lineage"]:
            session.begin(entry["lineage"])
        for base, start, sealed, size, end in entry["segments"]:
            name = f"{digest.hex()}-{base:020}-{start:010}.{'sealed' if sealed else 'seg'}"
            segment = Segment(self.root / "segments" / digest.hex()[:2] / name, self.id, digest)
            need((segment.base, segment.start) == (base, start), f"{name} has another place")
            if sealed:
                need(len(segment.data) == size, f"{name} has another length")
                segment.read_sealed(session, end)
            else:
                segment.read_open(session, size, end)
            need(session.tail == end, f"{name} ends elsewhere")
        if session.chain is None:
            session.chain, session.control = entry["chain"], entry["control"]
        session.end_lsn = max(session.end_lsn, entry["end_lsn"] if session.gaps else 0)
        if session.frames_skipped or session.gaps:
            for name in ("names", "title", "metadata", "workspace", "archived_at", "deleted_at",
                         "held_at", "expired_at", "work", "lineage"):
                setattr(session, name, entry[name])
        for name, mine in (
                ("names", session.names), ("title", session.title), ("tail", session.tail),
                ("metadata", session.metadata), ("workspace", session.workspace),
                ("archived_at", session.archived_at), ("deleted_at", session.deleted_at),
                ("held_at", session.held_at), ("expired_at", session.expired_at),
                ("lineage", session.lineage),
                ("end_lsn", session.end_lsn), ("work", session.work), ("chain", session.chain),
                ("control", session.control)):
            need(entry[name] == mine, f"the settled {name} differs")
        gone = {position for position, _ in entry["redacted"]}
        if not (session.frames_skipped or session.gaps):
            need(gone == session.redacted, "the settled redactions differ")
        for position in gone:
            session.redact(position)
        for start, end, reason in entry["damage"]:
            # A loss that was given up says when, and the record that says so is there.
            given_up = [f"accepted {at}: {why}" for first, last, why, at in session.accepted
                        if (first, last) == (start, end)]
            if reason not in given_up:
                self.problems.append(f"{digest.hex()}: damage was settled: {start}-{end} {reason}")

    def journal(self, place):
        uses = {}
        for path in sorted((self.root / "journal").iterdir()):
            if not re.fullmatch("0|[1-9][0-9]{0,9}", path.name) or int(path.name) >= (1 << 32) - 1:
                continue
            use = self.guarded(lambda: Use(path, self.id), f"journal/{path.name}")
            if use and use.order:
                uses[use.order] = use
        line, order = [], max(uses, default=0)
        while order >= max(place.order, 1):
            if order not in uses:
                self.problems.append(f"journal: the use {order} is missing")
                break
            line.insert(0, uses[order])
            order = uses[order].previous_order
        expected = place.lsn
        for use, successor in zip(line, [*line[1:], None]):
            expected = self.use(use, successor, place, expected)

    def tombstones(self, entries):
        """Finds the sessions that the journal erases: nothing else of them is read."""
        for _, frame in sorted(self.frames.items()):
            if frame.kind != REQUEST or frame.count != 1 or frame.events or frame.key:
                continue
            try:
                [(lsn, record)] = frame.records()
            except Bad:
                # Where it is read again, somebody says so.
                continue
            if record.kind == ERASE:
                session = Session(frame.session)
                session.entry = entries.get(frame.session)
                self.sessions[frame.session] = session
                self.guarded(lambda: session.erase(frame, lsn, record), frame.session.hex())

    def requests(self):
        """Folds what the journal has, and says what it lost."""
        # What a use lost with a failed sync, a later one repeats; what a settled end is beyond, or
        # what was erased, is not lost.
        ends = {digest: session.erased_at and session.end_lsn or session.entry["end_lsn"]
                for digest, session in self.sessions.items() if session.entry or session.erased_at}
        known = set(self.numbers)
        for hurt in self.hurt:
            if hurt.records.stop <= ends.get(hurt.session, 0) or self.numbers.issuperset(
                    hurt.records):
                known.update(hurt.numbers)
        gaps = [number for number in self.gaps if number not in known]
        if gaps:
            self.problems.append(f"journal: the records {gaps} are damaged")
        for _, frame in sorted(self.frames.items()):
            self.guarded(lambda: self.request(frame), f"journal at record {frame.first_lsn}")

    def use(self, use, successor, place, expected):
        """Collects the frames of one use; answers the number that comes next."""
        at, end = 2 * BLOCK, successor.previous_end if successor else len(use.data)
        if use.order == place.order:
            at = max(at, place.byte_offset)
        else:
            self.gaps += range(expected, use.previous_end_lsn)
            expected = max(expected, use.previous_end_lsn)
        # Numbers given to records that failed before this use began are nobody's.
        expected = max(expected, use.first_lsn)
        pieces = list(scan(use.data, at, end, use.salt))
        for place_of, (at, frame) in enumerate(pieces):
            if frame is None or frame.numbers[0] > expected:
                later = [piece for _, piece in pieces[place_of:] if piece]
                if not successor and all(piece.synced_lsn <= expected for piece in later):
                    self.notes.append(f"journal/{use.name}: a torn tail at {at}")
                    break
            if frame is None:
                hurt = hurt_frame(use.data, at, use.salt)
                self.hurt += [hurt] if hurt else []
                continue
            self.gaps += range(expected, frame.numbers[0])
            expected = max(expected, frame.numbers[1])
            if frame.kind != WATERMARK:
                self.frames.setdefault(frame.first_lsn, frame)
                self.numbers |= {*range(*frame.numbers),
                                 *range(frame.first_lsn, frame.first_lsn + frame.count)}
        return expected

    def request(self, frame):
        need(frame.kind == REQUEST, "a block in the journal")
        session = self.sessions.get(frame.session)
        if session is None:
            records = frame.records()
            created = records and (records[0][1].kind == CREATE or records[0][1].kind == LINEAGE)
            need(created, "a session that was never created")
            session = self.sessions[frame.session] = Session(frame.session)
        below = session.entry["end_lsn"] if session.entry else 0
        if session.erased_at is None and frame.first_lsn + frame.count > below:
            session.take(frame, below)


def main():
    decoder = Decoder(sys.argv[1])
    try:
        document = decoder.read()
    except (Bad, OSError) as error:
        document = {"problems": [str(error)], "notes": [], "sessions": []}
        decoder.problems.append(str(error))
    json.dump(document, sys.stdout, ensure_ascii=False, indent=1)
    print()
    return 1 if decoder.problems else 0


if __name__ == "__main__":
    sys.exit(main())
