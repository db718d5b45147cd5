#!/usr/bin/env python3
"""Opens an encrypted object of an archive without refloat.

    open-by-hand.py IDENTITY-FILE KEYS-FOLDER OBJECT > body

IDENTITY-FILE is what age-keygen wrote, KEYS-FOLDER the folder `keys` of the cluster's archive, OBJECT a full or a
delta. What comes out is the body as docs/format/objects.md has it. Needs Python and its package `cryptography`; it follows
docs/format/encryption.md and the description of age v1, and shares nothing with refloat.
"""
import base64, hashlib, json, pathlib, struct, sys
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


def hkdf(secret, salt, info):
    return HKDF(hashes.SHA256(), 32, salt, info).derive(secret)


def unpadded(text):
    return base64.b64decode(text + "=" * (-len(text) % 4))


def identities(path):
    """The X25519 keys of an identity file: Bech32 without a look at the checksum."""
    for line in pathlib.Path(path).read_text().split("\n"):
        if line.startswith("AGE-SECRET-KEY-1"):
            number = 0
            symbols = line.strip()[len("AGE-SECRET-KEY-1"):-6].lower()
            for symbol in symbols:
                number = number << 5 | "qpzry9x8gf2tvdw0s3jn54khce6mua7l".index(symbol)
            number >>= len(symbols) * 5 - 256
            yield X25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))


def open_age(file, identity):
    """What is in an age file, if it is for this identity and smaller than 64 KiB."""
    header, _, rest = file.partition(b"\n---")
    payload = rest.partition(b"\n")[2]
    public = identity.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    for stanza in header.decode().split("\n-> ")[1:]:
        head, _, body = stanza.partition("\n")
        if head.startswith("X25519 "):
            share = unpadded(head.split(" ")[1])
            secret = identity.exchange(X25519PublicKey.from_public_bytes(share))
            wrapping = hkdf(secret, share + public, b"age-encryption.org/v1/X25519")
            file_key = ChaCha20Poly1305(wrapping).decrypt(bytes(12), unpadded(body.replace("\n", "")), None)
            key = hkdf(file_key, payload[:16], b"payload")
            return ChaCha20Poly1305(key).decrypt(bytes(11) + b"\1", payload[16:], None)


def archive_key(lockbox, identity_file):
    for identity in identities(identity_file):
        for lock in lockbox["locks"]:
            if lock["method"] == "age":
                try:
                    return open_age(base64.b64decode(lock["locked"]), identity)
                except Exception:
                    continue
    sys.exit("it is locked for " + ", ".join(lock["recipient"] for lock in lockbox["locks"]))


def main(identity_file, keys, path):
    file = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<I", file, 12)
    head, body = file[: 20 + length], file[20 + length : -40]
    encryption = json.loads(head[16:-4])["encryption"]

    lockbox = json.loads((pathlib.Path(keys) / (encryption["archive_key"] + ".json")).read_text())
    key = archive_key(lockbox, identity_file)
    cluster = bytes.fromhex(lockbox["cluster"]["id"])
    key_id = hashlib.sha256(b"refloat archive key" + cluster + key).digest()[:16]
    assert key_id.hex() == encryption["archive_key"], "the lockbox has another key than its name says"

    wrapped = base64.b64decode(encryption["data_key"])
    data_key = AESGCM(AESGCM(key).decrypt(wrapped[:12], wrapped[12:], b"refloat data key" + key_id))

    size, context = encryption["segment_bytes"] + 16, hashlib.sha256(head).digest()
    count = max(1, -(-len(body) // size))
    for index in range(count):
        nonce = bytes(3) + struct.pack(">QB", index, index + 1 == count)
        sys.stdout.buffer.write(data_key.decrypt(nonce, body[index * size : (index + 1) * size], context))


main(*sys.argv[1:])
