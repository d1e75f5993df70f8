"""The rounds of bench/run-gguf; see there. Linux.

Every step is a process of its own and timed as a whole, from start to exit. A warm-up round comes first and is not counted. Outputs are deleted outside the
timed steps, but for the file that cp copies: the one that came out (`cp`), and the model that was read (`source`). Octet syncs what it writes before it gives it its name, so the copy is synced, too. What a start takes is measured as `octet --version` and taken off for the second ratio.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys

from measured import HERE, HOME, OCTET, machine, measured, write


def warm(folder):
    """Into the page cache."""
    for entry in os.scandir(folder):
        with open(entry.path, "rb", buffering=0) as file:
            while file.read(1 << 24):
                pass


def timed(command):
    return measured(command)[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("result")
    parser.add_argument("--gigabytes", type=float, default=1.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--types", default="f16,bf16,q8_0")
    parser.add_argument("--work", default=os.path.join(HOME, "bench", "target", "gguf"))
    parser.add_argument("--octet", default=OCTET, help="command that starts Octet")
    options = parser.parse_args()
    os.makedirs(options.work, exist_ok=True)
    octet, facts = options.octet.split(), machine()
    source = os.path.join(options.work, f"llama-{options.gigabytes}")
    if not os.path.exists(os.path.join(source, "config.json")):
        shutil.rmtree(source, ignore_errors=True)
        subprocess.run([sys.executable, os.path.join(HERE, "make_checkpoint.py"), "llama", source, str(options.gigabytes)], check=True,
                       stdout=sys.stderr)
    warm(source)
    written, copied = os.path.join(options.work, "model.gguf"), os.path.join(options.work, "copied.gguf")
    start = statistics.median(timed(octet + ["--version"])["seconds"] for _ in range(max(3, options.rounds)))
    lines = [f"{options.rounds} rounds, medians; seconds of whole processes, [fastest .. slowest]; a start alone {start:.3f} s"]
    results, summary = {}, {}
    for kind in options.types.split(","):
        convert = octet + ["convert", source, "-o", written, "--target", "gguf", "--type", kind, "--no-tokenizer", "--quiet"]
        rounds = {"octet": [], "cp": [], "source": []}
        for turn in range(options.rounds + 1):
            if os.path.exists(written):
                os.remove(written)
            pair = {"octet": timed(convert)}
            pair["cp"] = timed(["sh", "-c", 'cp "$1" "$2" && sync "$2"', "sh", written, copied])
            os.remove(copied)
            pair["source"] = timed(["sh", "-c", 'cp -r "$1" "$2" && sync "$2"/*', "sh", source, copied])
            shutil.rmtree(copied)
            print(f"{kind} {'warm-up' if turn == 0 else f'round {turn}'}: " + ", ".join(
                f"{label} {result['seconds']:.2f} s" for label, result in pair.items()),
                  file=sys.stderr)
            if turn:
                for label, result in pair.items():
                    rounds[label].append(result)
        gigabytes, read = os.path.getsize(written) / 1e9, sum(entry.stat().st_size for entry in os.scandir(source)) / 1e9
        os.remove(written)
        for label, found in rounds.items():
            seconds = [r["seconds"] for r in found]
            middle, bytes_out = statistics.median(seconds), read if label == "source" else gigabytes
            lines.append(f"{kind:5} {label:6} {middle:8.3f} s [{min(seconds):.3f} .. {max(seconds):.3f}] {bytes_out / middle:6.2f} GB/s out"
                         f"; {statistics.median(r['cpu_seconds'] for r in found):.2f} s of processor; peak {max(r['peak_mb'] for r in found):.0f} MB")
        pairs = list(zip(rounds["cp"], rounds["octet"]))
        sources = list(zip(rounds["source"], rounds["octet"]))
        ratios = {"of cp's speed": statistics.median(c["seconds"] / o["seconds"] for c, o in pairs),
                  "of cp's speed without a start": statistics.median(c["seconds"] / max(1e-3, o["seconds"] - start) for c, o in pairs)}
        ratios["of the speed of cp of the model that is read"] = statistics.median(c["seconds"] / o["seconds"] for c, o in sources)
        lines += [f"{kind:5} octet: {value:.2f} {label}" for label, value in ratios.items()]
        results[kind], summary[kind] = rounds, {"gigabytes": gigabytes, "ratios": ratios}
    facts["page cache"] = "warm: inputs were read before; outputs are synced, by both"
    facts["load_average_after"] = os.getloadavg()
    write(options.result, facts, lines, {"machine": facts, "start_seconds": start, "summary": summary, "rounds": results})


main()
