"""Puts JMH's and PyTorch's numbers side by side. Usage: compare_cast.py JMH.json TORCH.json RESULT.json

Prints a table and writes RESULT.json: the numbers of both, with processor and versions. For both it is the best round that counts, because
other work on the machine can only slow a round down.
"""

import json
import os
import platform
import sys


def cpu_model():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    get = lambda key: next((v.strip() for k, v in fields.items() if k.strip() == key), "?")
    return f"{get('model name')}, family {get('cpu family')} model {get('model')}, {os.cpu_count()} cores"


def main(jmh_path, torch_path, result_path):
    with open(jmh_path, encoding="utf-8") as file:
        jmh = json.load(file)
    with open(torch_path, encoding="utf-8") as file:
        peer = json.load(file)
    octet = {}
    for run in jmh:
        name = run["benchmark"].rsplit(".", 1)[1]
        params = run["params"]
        octet[f"{name} {params['type']} {params['format']}"] = {
            "gelem_per_s": max(max(fork) for fork in run["primaryMetric"]["rawData"]),
            "mean_gelem_per_s": run["primaryMetric"]["score"],
        }
    pairs = {"encode": "cast", "decode": "decode", "quantizePerChannel": "pipeline per row"}
    rows = []
    for key, value in octet.items():
        name, rest = key.split(" ", 1)
        other = peer["gelem_per_s"].get(f"{pairs.get(name)} {rest}")
        rows.append((key, value["gelem_per_s"], other))
        ratio = f"{other:8.2f} {value['gelem_per_s'] / other:7.1f}x" if other else ""
        print(f"{key:34} {value['gelem_per_s']:8.2f} {ratio}")
    print("columns: Octet Gelem/s, torch Gelem/s, ratio; one thread, 2^26 elements")
    result = {
        "cpu": cpu_model(),
        "os": platform.platform(),
        "jvm": f"{jmh[0]['vmName']} {jmh[0]['vmVersion']}",
        "load_average": os.getloadavg(),
        "octet": octet,
        "torch": peer,
    }
    with open(result_path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=2)
        file.write("\n")


main(*sys.argv[1:])
