"""The versions of every operator of ONNX's default domain, from onnx's own schema registry: onnx_operators.py OUT.csv. Made with onnx 1.23.1.

A row: name, then the opsets that introduced or changed the operator.
"""

import sys

import onnx

versions = {}
for schema in onnx.defs.get_all_schemas_with_history():
    if schema.domain == "":
        versions.setdefault(schema.name, set()).add(schema.since_version)
with open(sys.argv[1], "w", newline="\n") as out:
    for name in sorted(versions):
        print(name, " ".join(map(str, sorted(versions[name]))), sep=",", file=out)
