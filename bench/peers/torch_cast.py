"""What bench/run-cast compares with: casts by PyTorch on the CPU, one thread, 2^26 elements. Usage: torch_cast.py OUT.json

Made for torch 2.13. "cast" is the raw cast into memory that is there already, without scale or clamp; "pipeline" what one writes in
PyTorch to quantise a tensor (amax, divide, clamp, cast), per tensor or per row of 4096; "tile" the same over and over on 128 x 2048
elements of BF16, which stay in a core's cache, as TileBenchmark does it. Gelem/s, the best of several rounds.
"""

import json
import sys
import time

import torch

N = 1 << 26
ROW = 4096


TILE = (128, 2048)


def best(work, rounds=7, elements=N):
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - start)
    return elements / min(times)


def pipeline(x, fp8, dims):
    limit = torch.finfo(fp8).max
    amax = x.abs().amax() if dims is None else x.abs().amax(dim=dims, keepdim=True)
    scale = amax.float() / limit
    return (x / scale).clamp(-limit, limit).to(fp8)


def tiles():
    """quantize and dequantize with a scale per row (FP8, INT8) or per block of 128 x 128."""
    x = (torch.randn(TILE) * 0.02).to(torch.bfloat16)
    blocks = x.view(1, 128, 16, 128)
    found = {}
    for name, values, dims, target, limit in (("FP8_ROW", x, (1,), torch.float8_e4m3fn, 448), ("FP8_BLOCK", blocks, (1, 3), torch.float8_e4m3fn, 448),
                                              ("INT8", x, (1,), torch.int8, 127)):
        def quantized():
            scale = values.abs().amax(dim=dims, keepdim=True).float() / limit
            scaled = values / scale
            return (scaled.round() if target == torch.int8 else scaled).clamp(-limit, limit).to(target), scale

        codes, scale = quantized()
        found[f"tile quantize {name}"] = best(quantized, 300, x.numel())
        found[f"tile dequantize {name}"] = best(lambda: (codes.float() * scale).to(torch.bfloat16), 300, x.numel())
    return found


def main(out):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    results = tiles()
    floats = (torch.randn(N // 1024) * 0.02).repeat(1024)
    for name, dtype in (("BF16", torch.bfloat16), ("F32", torch.float32), ("F16", torch.float16)):
        x = floats.to(dtype)
        rows = x.view(-1, ROW)
        for format_name, fp8 in (("E4M3FN", torch.float8_e4m3fn), ("E5M2", torch.float8_e5m2)):
            codes = torch.empty(N, dtype=fp8)
            back = torch.empty(N, dtype=dtype)
            key = f"{name} {format_name}"
            results[f"cast {key}"] = best(lambda: codes.copy_(x))
            results[f"decode {key}"] = best(lambda: back.copy_(codes), 3)
            if format_name == "E4M3FN":
                results[f"pipeline per tensor {key}"] = best(lambda: pipeline(x, fp8, None), 2)
                results[f"pipeline per row {key}"] = best(lambda: pipeline(rows, fp8, 1), 2)
    with open(out, "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__, "gelem_per_s": results}, file, indent=2)


main(sys.argv[1])
