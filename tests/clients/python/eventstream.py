"""The event stream encoding of AWS, as Bedrock streams its answers."""

import json
import struct
import zlib

CONTENT_TYPE = "application/vnd.amazon.eventstream"


def frame(headers, payload):
    """One message with its checksums."""
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", 16 + len(head) + len(payload), len(head))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + payload
    return message + struct.pack("!I", zlib.crc32(message))


def event(kind, **payload):
    """An event of this kind with a JSON body."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, json.dumps(payload, ensure_ascii=False).encode())
