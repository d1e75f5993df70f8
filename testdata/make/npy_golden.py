"""Makes ../golden/npy and ../hostile/npy with numpy 2.4.6.

Arrays hold 0, 1, 2, ... in C order (truth values: false, true, false, ...), so a test knows every element.
"""

import io
import pathlib
import zipfile

import numpy as np

ROOT = pathlib.Path(__file__).parent.parent
GOLDEN, HOSTILE = ROOT / "golden" / "npy", ROOT / "hostile" / "npy"


def counting(dtype, shape):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


def npy(array, version=(1, 0)):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


def raw(header, data=b"", major=1, length=None):
    width = 2 if major == 1 else 4
    text = header.encode()
    n = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([major, 0]) + n.to_bytes(width, "little") + text + data


GOLDEN.mkdir(parents=True, exist_ok=True)
HOSTILE.mkdir(parents=True, exist_ok=True)
for t in ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"):
    (GOLDEN / f"le_{np.dtype(t).name}.npy").write_bytes(npy(counting(np.dtype(t).newbyteorder("<"), (3, 2))))
    if np.dtype(t).itemsize > 1:
        (GOLDEN / f"be_{np.dtype(t).name}.npy").write_bytes(npy(counting(np.dtype(t).newbyteorder(">"), (3, 2))))
(GOLDEN / "scalar.npy").write_bytes(npy(np.array(7, np.float32)))
(GOLDEN / "empty.npy").write_bytes(npy(counting("<i8", (2, 0, 3))))
(GOLDEN / "vector.npy").write_bytes(npy(counting("<i8", (1234,))))
(GOLDEN / "fortran.npy").write_bytes(npy(np.asfortranarray(counting("<i4", (2, 3, 4)))))
(GOLDEN / "fortran_vector.npy").write_bytes(raw("{'descr': '<i2', 'fortran_order': True, 'shape': (3,), }\n", b"\0\0\1\0\2\0"))
(GOLDEN / "version2.npy").write_bytes(npy(counting("<f4", (3, 2)), (2, 0)))
(GOLDEN / "version3.npy").write_bytes(npy(counting("<f4", (3, 2)), (3, 0)))
(GOLDEN / "python2.npy").write_bytes(raw('{"shape": (2L, 1L), "fortran_order": False, "descr": "<i2"}\n', b"\0\0\1\0"))
arrays = {"input_ids": counting("<i8", (5, 4)), "mask": counting("?", (5, 4)), "x/y": counting(">f4", (2,))}
np.savez(GOLDEN / "stored.npz", **arrays)
np.savez_compressed(GOLDEN / "deflated.npz", **arrays)

good = npy(counting("<i4", (2, 2)))
h = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }\n"
bad = {
    "empty": b"", "magic": b"NUMPY" + good, "version4": good[:6] + b"\4" + good[7:], "no_length": good[:9],
    "header_cut": good[:40], "header_too_long": raw("{}", major=2, length=1 << 31), "cut": good[:-1], "trailing": good + b"\0",
    "object": npy(np.array([None, 1], dtype=object)), "unicode": npy(np.array(["a"])), "bytes": npy(np.array([b"abc"])),
    "date": npy(np.array(["2020-01-01"], dtype="M8[D]")), "record": npy(np.zeros(1, dtype=[("a", "<i4")])),
    "float128": npy(np.zeros(1, np.longdouble)), "overflow": raw(h % ("<f4", "4294967296, 4294967296")),
    "overflow_bits": raw(h % ("<f4", "1152921504606846976,")), "huge": raw(h % ("<f4", "1000000000000,")),
    "negative": raw(h % ("<f4", "-1,")), "float_dim": raw(h % ("<f4", "1.0,")), "dim_beyond_63_bits": raw(h % ("<f4", "99999999999999999999,")),
    "rank65": raw(h % ("<f4", "1," * 65), b"\0" * 4), "native_order": raw(h % ("=f4", "1,"), b"\0" * 4),
    "missing_key": raw("{'descr': '<f4', 'shape': (1,)}\n", b"\0" * 4), "unknown_key": raw("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': (1,)}\n", b"\0" * 4),
    "double_key": raw("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}\n", b"\0" * 4),
    "fortran_1": raw("{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}\n", b"\0" * 4), "code": raw("__import__('os')\n"),
    "after": raw("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x\n", b"\0" * 4), "unclosed": raw("{'descr': '<f4\n"),
}
for name, content in bad.items():
    (HOSTILE / f"{name}.npy").write_bytes(content)


def npz(name, members, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(HOSTILE / f"{name}.npz", "w", method) as z:
        for member, content in members:
            z.writestr(zipfile.ZipInfo(member), content, method)
    return HOSTILE / f"{name}.npz"


npz("twice", [("a.npy", good), ("a.npy", good)])
npz("bomb", [("a.npy", raw(h % ("|u1", "4,"), b"\0" * 100_000))])
npz("cut_member", [("a.npy", good[:-1])])
damaged = npz("checksum", [("a.npy", good)], zipfile.ZIP_STORED)
content = bytearray(damaged.read_bytes())
content[content.index(good) + len(good) - 1] ^= 1
damaged.write_bytes(content)
claims = npz("impossible_size", [("a.npy", good)])
content = bytearray(claims.read_bytes())
at = content.index(b"PK\1\2") + 24
content[at : at + 4] = (1 << 30).to_bytes(4, "little")
claims.write_bytes(content)
(HOSTILE / "cut.npz").write_bytes((GOLDEN / "stored.npz").read_bytes()[:-30])
(HOSTILE / "no_zip.npz").write_bytes(b"not a zip archive")
