"""Makes ../golden/tile: small weights, and their codes and scales under every recipe for checkpoints.

Versions: numpy 2.4.6, ml_dtypes 0.6.0, safetensors 0.8.0. Run: python tile_golden.py

Everything is computed here from the definitions, in FP32 with each operation rounded once (numpy), and rounded to the small formats by
ml_dtypes after clipping to their largest number. Nothing of Octet is involved. tile_against_others.py compares the results with
compressed-tensors and PyTorch.

Two choices are Octet's and not forced by a format: a slice of zeros has the scale 1, and a positive amax never has a scale of zero (a
scale below the smallest of its type becomes the smallest: 2^-126 for F32 and E8M0, 2^-9 for the E4M3 scales of NVFP4).

index.json lists the cases. Files:
  <matrix>.safetensors            source       the weight, BF16, F16 or F32
  <matrix>.<scheme>.safetensors   codes        U8, one code to a byte, row-major; E2M1: two to a byte, the earlier in the low nibble.
                                               Two's complement for INT8
                                  scale        as stored: F32, BF16, or the byte of E8M0 (U8) or of E4M3 (U8, NVFP4)
                                  multiplier   F32, one for each scale: what a code is multiplied with, all levels together
                                  global       F32 [1], NVFP4 only: a multiplier, or a divisor in nvfp4-divisor
                                  zero_point   I8, int8-asymmetric only
"dequantised" in index.json: SHA-256 of f32(code * multiplier), and of that rounded to BF16 and to F16, little-endian, row-major.
"""

import ctypes
import hashlib
import json
import pathlib

import ml_dtypes
import numpy as np
from safetensors import TensorSpec, serialize

OUT = pathlib.Path(__file__).parent.parent / "golden" / "tile"
BF16, F16, F32 = ml_dtypes.bfloat16, np.float16, np.float32
SMALLEST_NORMAL = np.float32(2.0**-126)


def save(path, tensors):
    keep, specs = [], {}
    for name, array in tensors.items():
        data = np.ascontiguousarray(array).tobytes()
        buffer = ctypes.create_string_buffer(data, max(1, len(data)))
        keep.append(buffer)
        specs[name] = TensorSpec(
            dtype=array.dtype.name, shape=list(array.shape), data_ptr=ctypes.addressof(buffer), data_len=len(data))
    path.write_bytes(serialize(specs, None))


# --- weights -------------------------------------------------------------------------------------------------------------------------

def weights():
    random = np.random.default_rng(20261121)

    outliers = random.normal(0, 0.02, (128, 256))
    outliers[::17, 5] = 3.5
    outliers[3, ::41] = -1.75
    outliers[7] = 0
    outliers[7, ::2] = -0.0
    outliers[11] *= 1e-6
    outliers[12] *= 1e-30
    outliers[13, :32] = 1.75 * 2.0**-3  # where two rules for MX exponents differ
    outliers[13, 32:64] *= 2.0**-20
    outliers[14, 16:32] = 0  # a group of zeros in a row that is not
    outliers[15, :] = np.linspace(-448, 448, 256)  # ties between codes
    yield "outliers", outliers.astype(BF16)

    yield "ragged", random.standard_t(3, (130, 224)).astype(F32).astype(BF16)

    yield "experts", (random.normal(0, 0.05, (2, 136, 160)) * np.array([1, 30]).reshape(2, 1, 1)).astype(BF16)

    half = random.normal(0, 1, (24, 64))
    half[1] *= 2.0**-18
    half[2, 3] = 65504
    yield "half", half.astype(F16)

    single = random.normal(0, 1, (24, 64)).astype(F32)
    single[1] *= np.float32(1e-38)
    single[2] *= np.float32(1e-42)
    single[3] *= np.float32(1e37)
    single[4, 9] = np.float32(448) * np.float32(1 + 2**-23)
    single[5] = 0
    yield "single", single


# --- scales --------------------------------------------------------------------------------------------------------------------------

def blocks_of(x, rows, cols):
    """[..., R, C] -> list of (index of the block, slices)."""
    lead = x.shape[:-2]
    r, c = -(-x.shape[-2] // rows), -(-x.shape[-1] // cols)
    for e in np.ndindex(*lead):
        for i in range(r):
            for j in range(c):
                yield e + (i, j), e + (slice(i * rows, (i + 1) * rows), slice(j * cols, (j + 1) * cols))


def amax_grid(x, rows, cols):
    lead = x.shape[:-2]
    grid = np.zeros(lead + (-(-x.shape[-2] // rows), -(-x.shape[-1] // cols)), F32)
    for index, where in blocks_of(x, rows, cols):
        grid[index] = np.abs(x[where]).max()
    return grid


def expand(grid, x, rows, cols):
    out = np.empty(x.shape, F32)
    for index, where in blocks_of(x, rows, cols):
        out[where] = grid[index]
    return out


def ratio(amax, largest):
    """amax / largest in FP32; 1 for zeros; at least the smallest normal number."""
    scale = np.maximum((amax / F32(largest)).astype(F32), SMALLEST_NORMAL)
    return np.where(amax == 0, F32(1), scale).astype(F32)


def ceil_power(amax, exact):
    """The smallest power of two >= exact(amax), computed with exact integers; 1 for zeros; 2^-126 .. 2^127."""
    out = np.ones_like(amax)
    for i, a in np.ndenumerate(amax):
        if a != 0:
            out[i] = 2.0 ** min(max(exact(float(a)), -126), 127)
    return out.astype(F32)


def exponent(value):
    """value = m * 2^e, 1 <= m < 2."""
    m, e = np.frexp(value)
    return 2 * m, int(e) - 1


def ue8m0_of_ratio(a):
    """ceil(log2(f32(a / 448)))"""
    m, e = exponent(float(F32(a) / F32(448)))
    return e + (1 if m > 1 else 0)


def mx_ceil(a):
    """ceil(log2(a / 448)) of the exact quotient: 448 = 1.75 * 2^8."""
    m, e = exponent(a)
    return e - 8 + (1 if m > 1.75 else 0)


def mx_compressed_tensors(a):
    m, e = exponent(a)
    return e - 8 + (1 if m >= 1.75 else 0)


# --- codes ---------------------------------------------------------------------------------------------------------------------------

def to_e4m3(q):
    return np.clip(q, -448, 448).astype(ml_dtypes.float8_e4m3fn)


def to_e2m1(q):
    return np.clip(q, -6, 6).astype(ml_dtypes.float4_e2m1fn)


def to_int8(steps, lowest):
    return np.clip(steps, lowest, 127).astype(np.int8)


# --- schemes -------------------------------------------------------------------------------------------------------------------------

def case(x, tile, scale, kept, facts, convert=to_e4m3, **more):
    """Codes of x with one multiplier for each tile of rows x cols; kept is what lies in a file for the multipliers."""
    spread = expand(scale, x, *tile)
    codes = convert((x / spread).astype(F32))
    real = (codes.astype(F32) * spread).astype(F32)
    packed = pack(codes) if convert is to_e2m1 else codes.view(np.uint8)
    return facts, {"codes": packed, "scale": kept, "multiplier": scale, **more}, real


def pack(codes):
    nibbles = codes.view(np.uint8) & 15
    return (nibbles[..., 0::2] | nibbles[..., 1::2] << 4).astype(np.uint8)


def e8m0(scale):
    m, e = np.frexp(scale)
    assert (m == 0.5).all()
    return (e - 1 + 127).astype(np.uint8)


def tensor(x):
    scale = ratio(np.abs(x).max(), 448)
    codes = to_e4m3((x / scale).astype(F32))
    tensors = {"codes": codes.view(np.uint8), "scale": scale.reshape(()), "multiplier": scale.reshape(())}
    return {"codes": "E4M3FN", "granularity": "tensor", "scale": "F32"}, tensors, (codes.astype(F32) * scale).astype(F32)


def channel(x, kept_type):
    tile = (1, x.shape[-1])
    scale = ratio(amax_grid(x, *tile), 448)
    if kept_type is BF16:
        # the scale is rounded first and is what values are divided by
        scale = np.maximum(scale.astype(BF16).astype(F32), SMALLEST_NORMAL)
    facts = {"codes": "E4M3FN", "granularity": "channel", "scale": "BF16" if kept_type is BF16 else "F32"}
    return case(x, tile, scale, scale.astype(kept_type), facts)


def block(x, power_of_two):
    tile = (128, 128)
    amax = amax_grid(x, *tile)
    facts = {"codes": "E4M3FN", "granularity": "block", "rows": 128, "cols": 128, "scale": "F32"}
    if power_of_two:
        scale = ceil_power(amax, ue8m0_of_ratio)
        return case(x, tile, scale, e8m0(scale), facts | {"scale": "E8M0", "rule": "up"})
    scale = ratio(amax, 448)
    return case(x, tile, scale, scale, facts)


def mxfp8(x, rule):
    tile = (1, 32)
    scale = ceil_power(amax_grid(x, *tile), {"ceil": mx_ceil, "compressed-tensors": mx_compressed_tensors}[rule])
    facts = {"codes": "E4M3FN", "granularity": "mx", "size": 32, "scale": "E8M0", "rule": rule}
    return case(x, tile, scale, e8m0(scale), facts)


def nvfp4(x, divisor):
    tile = (1, 16)
    amax = amax_grid(x, *tile)
    largest = amax.max()
    sixth = (amax / F32(6)).astype(F32)
    if divisor:
        top = F32(1) if largest == 0 else (F32(2688) / largest).astype(F32)
        blocks = (sixth * top).astype(F32)
    else:
        top = F32(1) if largest == 0 else (largest / F32(2688)).astype(F32)
        blocks = (sixth / top).astype(F32)
    blocks = to_e4m3(np.maximum(blocks, F32(2.0**-9)))
    blocks = np.where(amax == 0, ml_dtypes.float8_e4m3fn(1), blocks)
    scale = (blocks.astype(F32) / top if divisor else blocks.astype(F32) * top).astype(F32)
    facts = {"codes": "E2M1", "granularity": "group", "size": 16, "scale": "E4M3FN", "global": "divisor" if divisor else "multiplier"}
    return case(x, tile, scale, blocks.view(np.uint8), facts, to_e2m1, **{"global": top.reshape(1)})


def int8(x):
    tile = (1, x.shape[-1])
    scale = ratio(amax_grid(x, *tile), 127)
    return case(x, tile, scale, scale, {"codes": "INT8", "granularity": "channel", "scale": "F32"},
                lambda q: to_int8(np.rint(q), -127))


def int8_asymmetric(x):
    low = np.minimum(x.min(-1, keepdims=True), 0).astype(np.float64)
    high = np.maximum(x.max(-1, keepdims=True), 0).astype(np.float64)
    scale = np.where(high == low, 1, np.maximum((high - low) / 255, 2.0**-126)).astype(F32)
    zero = np.clip(np.rint(-128 - low / scale.astype(np.float64)), -128, 127).astype(np.int64)
    steps = np.rint((x / scale).astype(F32)).astype(np.float64) + zero
    codes = to_int8(steps, -128)
    real = ((codes.astype(np.int64) - zero).astype(F32) * scale).astype(F32)
    facts = {"codes": "INT8_ASYMMETRIC", "granularity": "channel", "scale": "F32"}
    tensors = {"codes": codes.view(np.uint8), "scale": scale, "multiplier": scale, "zero_point": zero.astype(np.int8)}
    return facts, tensors, real


SCHEMES = {
    "tensor": tensor,
    "channel": lambda x: channel(x, F32),
    "channel-bf16": lambda x: channel(x, BF16),
    "block": lambda x: block(x, False),
    "block-ue8m0": lambda x: block(x, True),
    "mxfp8": lambda x: mxfp8(x, "ceil"),
    "mxfp8-ct": lambda x: mxfp8(x, "compressed-tensors"),
    "nvfp4": lambda x: nvfp4(x, False),
    "nvfp4-divisor": lambda x: nvfp4(x, True),
    "int8": int8,
    "int8-asymmetric": int8_asymmetric,
}


def sha(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    cases = []
    np.seterr(over="ignore", under="ignore")
    for name, weight in weights():
        save(OUT / f"{name}.safetensors", {"source": weight})
        x = weight.astype(F32)
        for scheme, make in SCHEMES.items():
            facts, tensors, real = make(x)
            assert np.isfinite(real).all() and np.isfinite(tensors["multiplier"]).all() and (tensors["multiplier"] > 0).all()
            save(OUT / f"{name}.{scheme}.safetensors", tensors)
            sums = {"F32": sha(real), "BF16": sha(real.astype(BF16)), "F16": sha(real.astype(F16))}
            cases.append({"matrix": name, "scheme": scheme, "shape": list(x.shape), **facts, "dequantised": sums})
    (OUT / "index.json").write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
