"""The rounds of bench/run-hf; see there. Linux.

Every step is a process of its own and timed as a whole, from start to exit. octet syncs what it wrote to the disk before it gives it its name;
so "cp, synced" is what it is compared with, and "cp" is for those who do not sync. Outputs are deleted outside the timed steps. A warm-up
round comes first and is not counted.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys

from measured import HERE, OCTET, machine, measured, write

parser = argparse.ArgumentParser()
parser.add_argument("result")
parser.add_argument("--gigabytes", type=float, default=2.1)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--work", default="target/bench-hf")
parser.add_argument("--octet", default=OCTET, help="another command than the launcher")
options = parser.parse_args()

work = os.path.abspath(options.work)
source, copy, onnx = (os.path.join(work, name) for name in ("llama", "copy", "llama.onnx"))
if not os.path.exists(os.path.join(source, "config.json")):
    subprocess.run([sys.executable, os.path.join(HERE, "make_checkpoint.py"), "llama", source, str(options.gigabytes)], check=True,
                   stdout=sys.stderr)
shards = sorted(os.path.join(source, e) for e in os.listdir(source) if e.endswith(".safetensors"))
gigabytes = sum(os.path.getsize(s) for s in shards) / 1e9


def clear():
    shutil.rmtree(copy, ignore_errors=True)
    for name in (onnx, onnx + ".data"):
        if os.path.exists(name):
            os.remove(name)
    os.makedirs(copy)
    os.sync()


convert = options.octet.split() + ["convert", source, "-o", onnx, "--target", "onnx"]
steps = {
    "cp": ["cp", *shards, copy],
    "cp, synced": ["sh", "-c", 'out=$1; shift; cp "$@" "$out" && sync "$out"/*', "sh", copy, *shards],
    "octet, nothing written": convert + ["--dry-run"],
    "octet": convert,
}
found = {label: [] for label in steps}
for shard in shards:  # into the page cache
    with open(shard, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass
for turn in range(options.rounds + 1):
    for label, command in steps.items():
        clear()
        result, _ = measured(command)
        print(f"{'warm-up' if turn == 0 else f'round {turn}'} {label}: {result['seconds']:.2f} s", file=sys.stderr)
        if turn:
            found[label].append(result)
clear()

lines = [f"{options.rounds} rounds, medians; seconds of whole processes, [fastest .. slowest]"]
for label, rounds in found.items():
    seconds = [r["seconds"] for r in rounds]
    lines.append(f"{label:23} {statistics.median(seconds):7.3f} s [{min(seconds):.3f} .. {max(seconds):.3f}]"
                 f" {gigabytes / statistics.median(seconds):6.2f} GB/s; {statistics.median(r['cpu_seconds'] for r in rounds):.2f} s of"
                 f" processor; peak {max(r['peak_mb'] for r in rounds):.0f} MB")
ratios = {
    "of the speed of cp, synced": statistics.median(
        c["seconds"] / o["seconds"] for c, o in zip(found["cp, synced"], found["octet"])),
    "of the speed of cp, synced, without import and start": statistics.median(
        c["seconds"] / (o["seconds"] - d["seconds"])
        for c, o, d in zip(found["cp, synced"], found["octet"], found["octet, nothing written"])),
}
lines += [f"octet: {value:.2f} {label}" for label, value in ratios.items()]
facts = machine() | {"gigabytes": round(gigabytes, 3), "shards": len(shards)}
write(options.result, facts, lines, {"facts": facts, "rounds": found, "ratios": ratios})
