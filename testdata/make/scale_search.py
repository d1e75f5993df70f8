"""Scales of blocks that lose least, and the codes by them, in NumPy: each block alone, each candidate in turn.

Squared error: of w and of what readers decode, summed in F64 in the order of the weight; weighted: times the second moment of the input channel.
NVFP4: candidates are the E4M3 numbers from half of the usual scale (8 below) to 1.5 times it (5 above); four over six (arXiv:2512.02010): the
largest magnitude becomes 6 or 4, under a global scale by which the largest block of the first kind has 256. E8M0: the usual exponent, one more, one
less. INT4: 25 multiples from 1.1 to 0.5 of amax / 7.5, in BF16; with zero points 21 ranges from all to half. Of equals the first one.

Usage: scale_search.py OUT.safetensors
"""

import sys

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

F32, BF16, E4M3, E2M1 = np.float32, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn
ROWS, COLS = 24, 64


def e4m3(x):
    return F32(np.clip(F32(x), F32(2**-9), F32(448)).astype(E4M3))


def e2m1(x):
    return np.clip(x, F32(-6), F32(6)).astype(E2M1)


def least(block, energies, candidates):
    """candidates: (what is kept, codes, decoded values); the first with the least error."""
    best = None
    for kept, codes, decoded in candidates:
        error = 0.0
        for w, q, e in zip(block, decoded, energies):
            difference = float(w) - float(q)
            error += e * (difference * difference)
        if best is None or error < best[0]:
            best = (error, kept, codes)
    return best


def blocks(w, energies, size):
    for row in range(w.shape[0]):
        for at in range(0, w.shape[1], size):
            yield row, at, w[row, at : at + size], energies[at : at + size]


def nvfp4(w, energies, six):
    """Codes [rows, cols], E4M3 scales [rows, cols / 16], global scale (a divisor)."""
    amax = np.abs(w).max()
    divisor = F32(F32(256 if six else 448) * F32(6)) / amax
    codes, scales = np.zeros(w.shape, np.uint8), np.zeros((ROWS, COLS // 16), np.uint8)
    for row, at, block, e in blocks(w, energies, 16):
        top = np.abs(block).max()
        of = lambda largest: e4m3(F32(top / F32(largest)) * divisor) if top else F32(1)
        if six:
            stored = [of(6), of(4)]
        else:
            code = int(np.array(of(6)).astype(E4M3).view(np.uint8))
            stored = [F32(np.array(min(max(code + k, 1), 126), np.uint8).view(E4M3)) for k in range(5, -9, -1)] if top else [F32(1)]
        tried = []
        for s in stored:
            scale = F32(s / divisor)
            q = e2m1(block / scale)
            tried.append((s, q, q.astype(F32) * scale))
        _, kept, q = least(block, e, tried)
        codes[row, at : at + 16] = q.view(np.uint8) & 15
        scales[row, at // 16] = np.array(kept).astype(E4M3).view(np.uint8)
    return codes, scales, np.array([divisor], F32)


def mxfp4(w, energies):
    """The exponent that compressed-tensors takes, and its neighbours."""
    codes, scales = np.zeros(w.shape, np.uint8), np.zeros((ROWS, COLS // 32), np.uint8)
    for row, at, block, e in blocks(w, energies, 32):
        top = np.abs(block).max()
        mantissa, exponent = np.frexp(top)
        usual = int(exponent) - 1 - 2 + (1 if mantissa * 2 >= 1.75 else 0)
        tried = []
        for power in (usual + 1, usual, usual - 1) if top else (0,):
            scale = F32(2.0**power)
            q = e2m1(block / scale)
            tried.append((power, q, q.astype(F32) * scale))
        _, kept, q = least(block, e, tried)
        codes[row, at : at + 32] = q.view(np.uint8) & 15
        scales[row, at // 32] = kept + 127
    return codes, scales


def int4(w, energies, size):
    codes, scales = np.zeros(w.shape, np.int8), np.zeros((ROWS, COLS // size), F32)
    for row, at, block, e in blocks(w, energies, size):
        usual = F32(np.abs(block).max() / F32(7.5))
        tried = []
        for k in range(24, -1, -1):
            multiple = F32(F32(0.5) + F32(F32(F32(F32(1.1) - F32(0.5)) * F32(k)) / F32(24)))
            scale = F32(F32(usual * multiple).astype(BF16)) if usual else F32(1)
            q = np.clip(np.rint(block / scale), -8, 7).astype(np.int8)
            tried.append((scale, q, q.astype(F32) * scale))
        _, kept, q = least(block, e, tried)
        codes[row, at : at + size], scales[row, at // size] = q, kept
    return codes, scales


def up_to_bf16(x):
    near = F32(x.astype(BF16))
    return near if near >= x else F32((np.array(near, BF16).view(np.uint16) + np.uint16(1)).view(BF16))


def int4_asymmetric(w, energies, size):
    codes, scales, points = np.zeros(w.shape, np.int8), np.zeros((ROWS, COLS // size), F32), np.zeros((ROWS, COLS // size), np.int8)
    for row, at, block, e in blocks(w, energies, size):
        low, high = min(block.min(), F32(0)), max(block.max(), F32(0))
        tried = []
        for k in range(20, -1, -1):
            part = F32(F32(0.5) + F32(F32(F32(0.5) * F32(k)) / F32(20)))
            smallest, largest = F32(low * part), F32(high * part)
            span = float(largest) - float(smallest)
            scale = up_to_bf16(F32(span / 15)) if span else F32(1)
            point = np.rint(np.clip(-8 - float(smallest) / float(scale), -8, 7))
            q = np.clip(np.rint(block / scale) + point, -8, 7).astype(np.int8)
            tried.append(((scale, point), q, (q.astype(F32) - F32(point)) * scale))
        _, kept, q = least(block, e, tried)
        codes[row, at : at + size], scales[row, at // size], points[row, at // size] = q, kept[0], kept[1]
    return codes, scales, points


def main():
    random = np.random.default_rng(2512)
    w = (random.standard_t(4, (ROWS, COLS)) * 0.02).astype(F32)
    w[3, 16:32] = 0
    w[5, 0] = 0.7
    w[7, 32:48] *= F32(1e-4)
    energies = (random.gamma(0.5, 1, COLS) + 0.01).astype(np.float64)
    energies[20] *= 100
    ones = np.ones(COLS)
    out = {"w": w, "energies": energies}
    for name, e in (("mse", ones), ("hessian", energies)):
        for key, value in zip(("codes", "scales", "global"), nvfp4(w, e, False)):
            out[f"nvfp4.{name}.{key}"] = value
        for key, value in zip(("codes", "scales"), mxfp4(w, e)):
            out[f"mxfp4.{name}.{key}"] = value
        for key, value in zip(("codes", "scales"), int4(w, e, 32)):
            out[f"int4.{name}.{key}"] = value
        for key, value in zip(("codes", "scales", "points"), int4_asymmetric(w, e, 32)):
            out[f"int4-asymmetric.{name}.{key}"] = value
    for key, value in zip(("codes", "scales", "global"), nvfp4(w, ones, True)):
        out[f"nvfp4.four-over-six.{key}"] = value
    save_file({k: np.ascontiguousarray(v) for k, v in out.items()}, sys.argv[1])


main()
