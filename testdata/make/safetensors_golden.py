"""Makes ../golden/safetensors with the reference writer: safetensors 0.8.0.

The k-th byte of the i-th tensor of a file is (7 * i + k) % 256. Metadata has at most one key, because the reference writer
leaves the order of several to chance.
"""

import ctypes
import math
import pathlib

from safetensors import TensorSpec, serialize

OUT = pathlib.Path(__file__).parent.parent / "golden" / "safetensors"
BITS = {
    "bool": 8, "float4_e2m1fn_x2": 8, "uint8": 8, "int8": 8, "float8_e5m2": 8, "float8_e4m3fn": 8, "float8_e8m0fnu": 8,
    "float8_e4m3fnuz": 8, "float8_e5m2fnuz": 8, "int16": 16, "uint16": 16, "float16": 16, "bfloat16": 16, "int32": 32,
    "uint32": 32, "float32": 32, "complex64": 64, "float64": 64, "int64": 64, "uint64": 64,
}


def write(name, tensors, metadata=None):
    specs, keep = {}, []
    for i, (key, dtype, shape) in enumerate(tensors):
        n = math.prod(shape) * BITS[dtype] // 8
        data = ctypes.create_string_buffer(bytes((7 * i + k) % 256 for k in range(n)), max(n, 1))
        keep.append(data)
        specs[key] = TensorSpec(dtype=dtype, shape=list(shape), data_ptr=ctypes.addressof(data), data_len=n)
    (OUT / f"{name}.safetensors").write_bytes(serialize(specs, metadata))


OUT.mkdir(parents=True, exist_ok=True)
write("empty", [])
write("metadata_only", [], {"format": "pt"})
write("scalar", [("s", "float32", ())])
write("every_dtype", [(f"{d}.{n}", d, s) for d in BITS for n, s in (("b", (3, 2)), ("a", (1,)))], {"format": "pt"})
write("zero_size", [("a", "float32", (0,)), ("b", "int64", (2, 0, 3)), ("c", "float32", (2,))])
write(
    "names",
    [
        (n, "uint8", (2,))
        for n in (
            "", "a", "a.b", "A", "with space", 'quote"back\\slash', "slash/", "line\nfeed\ttab\x01\x1f\x7f\b\f\r",
            "\u00e9", "\u4e2d\u6587", "\uff5e", "\U0001f600", "\u2028", "a" * 300,
        )
    ],
    {"k\u00e9y\x1f": 'v"\U0001f600'},
)
for padding in range(8):
    write(f"padding_{padding}", [("p" * (padding + 1), "uint8", (1,))])
