"""Makes ../golden/gguf: blocks of each of ggml's types as floats, and floats as blocks.

Versions: gguf 0.19.0, numpy 2.4.6, safetensors 0.8.0. Run: python gguf_blocks.py

decode.gguf           for each type a tensor TYPE [2, 512] of blocks whose codes are random and whose scales are finite
decode.safetensors    TYPE F32 [2, 512]: what gguf.quants.dequantize makes of it
encode.safetensors    input F32 [4, 512], rows of different spread, one with zeros; TYPE U8 [4, bytes]: what gguf.quants.quantize makes of it
                      (for NVFP4, which it cannot quantise, the formulas of ggml_fp32_to_ue4m3 and the nearest code, written out below)
keys.json             the metadata of decode.gguf as the gguf package reads it: kind and value
"""

import json
import pathlib

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFReader, GGUFValueType, GGUFWriter, quants
from gguf.constants import GGML_QUANT_SIZES
from safetensors.numpy import save_file

OUT = pathlib.Path(__file__).parent.parent / "golden" / "gguf"
ROWS, COLUMNS = 2, 512
DECODED = [T.F32, T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K, T.IQ4_NL, T.IQ4_XS,
           T.MXFP4, T.NVFP4]
ENCODED = [T.F32, T.F16, T.BF16, T.Q4_0, T.Q8_0, T.MXFP4, T.NVFP4]
# where the F16 scales of a block lie
HALVES = {T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0], T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2],
          T.Q5_K: [0, 2], T.Q6_K: [208], T.IQ4_NL: [0], T.IQ4_XS: [0]}


def blocks(kind, rng):
    size, width = GGML_QUANT_SIZES[kind]
    if kind in (T.F32, T.F16, T.BF16):
        x = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32)
        return quants.quantize(x, kind)
    raw = rng.integers(0, 256, (ROWS * COLUMNS // size, width), dtype=np.uint8)
    for at in HALVES.get(kind, []):
        scales = (rng.standard_normal(len(raw)) * 0.01).astype(np.float16)
        raw[:, at:at + 2] = scales.view(np.uint8).reshape(-1, 2)
    if kind == T.NVFP4:
        raw[:, :4] &= 0x7F
    return raw.reshape(ROWS, -1)


def nvfp4(x):
    groups = x.reshape(-1, 4, 16)
    codes = quants.NVFP4.fp32_to_ue4m3(np.abs(groups).max(axis=-1) / np.float32(6))
    scale = quants.NVFP4.ue4m3_to_fp32(codes).astype(np.float32)[..., None, None]
    table = np.array(quants.NVFP4.kvalues, dtype=np.float32)
    best = np.argmin(np.abs(scale * table - groups[..., None]), axis=-1).astype(np.uint8)
    packed = best[..., :8] | best[..., 8:] << 4
    return np.concatenate([codes, packed.reshape(-1, 32)], axis=-1).reshape(x.shape[0], -1)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(23)
    writer = GGUFWriter(OUT / "decode.gguf", "test")
    for kind, value in [(GGUFValueType.UINT8, 200), (GGUFValueType.INT8, -3), (GGUFValueType.UINT16, 65535),
                        (GGUFValueType.INT16, -300), (GGUFValueType.UINT32, 4294967295), (GGUFValueType.INT32, -70000),
                        (GGUFValueType.UINT64, 2 ** 63 + 5), (GGUFValueType.INT64, -2 ** 40), (GGUFValueType.FLOAT32, 0.25),
                        (GGUFValueType.FLOAT64, 1e-300), (GGUFValueType.BOOL, True), (GGUFValueType.STRING, "Grüße, 世界")]:
        writer.add_key_value("test." + kind.name.lower(), value, kind)
    writer.add_array("test.texts", ["a", "", "ß"])
    writer.add_array("test.numbers", [1, -2, 3])
    writer.add_array("test.reals", [0.5, -1.5])
    decoded = {}
    for kind in DECODED:
        raw = blocks(kind, rng)
        decoded[kind.name] = quants.dequantize(raw, kind).astype(np.float32).reshape(ROWS, COLUMNS)
        writer.add_tensor(kind.name, raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(decoded, OUT / "decode.safetensors")
    x = rng.standard_normal((4, COLUMNS)).astype(np.float32) * np.array([[1], [1e-3], [300], [0.02]], dtype=np.float32)
    x[1, 64:160] = 0
    x[2, ::37] *= 50
    encoded = {"input": x}
    for kind in ENCODED:
        raw = nvfp4(x) if kind == T.NVFP4 else quants.quantize(x, kind)
        encoded[kind.name] = np.ascontiguousarray(raw).view(np.uint8).reshape(4, -1)
    save_file(encoded, OUT / "encode.safetensors")
    keys = {}
    for name, field in GGUFReader(OUT / "decode.gguf").fields.items():
        if not name.startswith("GGUF."):
            keys[name] = {"kinds": [k.name for k in field.types], "value": field.contents()}
    (OUT / "keys.json").write_text(json.dumps(keys, ensure_ascii=False, indent=1) + "\n")


main()
