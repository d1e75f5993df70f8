"""Makes what bench/native/older_processor.c needs: python older_processor.py FOLDER LIBRARY...

Compiles it to FOLDER/older_processor.so and copies each LIBRARY to FOLDER with every CPUID made a UD2. objdump says where instructions
begin, so that data which looks like one stays as it is. The originals are not touched.
"""

import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CPUID, UD2 = b"\x0f\xa2", b"\x0f\x0b"


def text_section(library):
    """Address and offset in the file of .text."""
    for line in subprocess.run(["objdump", "-h", library], check=True, capture_output=True, text=True).stdout.splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[1] == ".text":
            return int(fields[3], 16), int(fields[5], 16)
    sys.exit(f"{library}: no .text")


def hide(library, target):
    """Copies a library with UD2 for CPUID; how many."""
    address, offset = text_section(library)
    listing = subprocess.Popen(["sh", "-c", 'objdump -d --no-show-raw-insn -j .text "$1" | grep -w cpuid', "sh", library],
                               stdout=subprocess.PIPE, text=True)
    places = [int(line.split(":", 1)[0], 16) - address + offset for line in listing.stdout]
    with open(library, "rb") as file:
        data = bytearray(file.read())
    for place in places:
        if data[place:place + 2] != CPUID:
            sys.exit(f"{library}: no CPUID at {place:#x}")
        data[place:place + 2] = UD2
    with open(target, "wb") as file:
        file.write(data)
    shutil.copymode(library, target)
    return len(places)


def preload(folder):
    target = os.path.join(folder, "older_processor.so")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-Wall", "-shared", "-fPIC", "-o", target,
                    os.path.join(os.path.dirname(HERE), "native", "older_processor.c")], check=True)
    return target


if __name__ == "__main__":
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    preload(folder)
    for library in sys.argv[2:]:
        print(f"{library}: {hide(library, os.path.join(folder, os.path.basename(library)))} CPUID hidden")
