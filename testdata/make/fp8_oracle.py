"""Makes testdata/golden/fp8: what ml_dtypes says about every code and every 16-bit float.

Made with Python 3.11, numpy 2.4.6, ml_dtypes 0.6.0. Usage: python fp8_oracle.py TARGET_FOLDER

<type>.decode.f32                  every code decoded, little-endian F32, in the order of the codes
<type>.from_<in>.rne_nosat.u8.gz   the code of each of the 65,536 bit patterns of <in> (bf16 or f16), in order
<type>.from_<in>.rne_sat.u8.gz     the same, clipped to +-max first; NaN kept, as a positive NaN
"""

import gzip
import pathlib
import sys

import ml_dtypes
import numpy as np

TYPES = {
    "e4m3fn": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "e8m0": ml_dtypes.float8_e8m0fnu,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
INPUTS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


def write(path, codes):
    # mtime 0: the same bytes each time.
    path.write_bytes(gzip.compress(codes.view(np.uint8).tobytes(), 9, mtime=0))


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, dtype in TYPES.items():
        codes = np.arange(16 if name == "e2m1" else 256, dtype=np.uint8)
        codes.view(dtype).astype(np.float32).astype("<f4").tofile(folder / f"{name}.decode.f32")
        for source, source_type in INPUTS.items():
            x = np.arange(65536, dtype=np.uint16).view(source_type)
            with np.errstate(all="ignore"):
                write(folder / f"{name}.from_{source}.rne_nosat.u8.gz", x.astype(dtype))
                if name == "e8m0":
                    continue  # clipping means nothing to a type without zero and sign
                wide = x.astype(np.float32)
                largest = float(ml_dtypes.finfo(dtype).max)
                clipped = np.where(np.isnan(wide), np.float32(np.nan), np.clip(wide, -largest, largest))
                write(folder / f"{name}.from_{source}.rne_sat.u8.gz", clipped.astype(dtype))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
