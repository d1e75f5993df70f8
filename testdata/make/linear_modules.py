"""Makes converter's resource linear-modules.tsv: Linear modules of transformers' classes that a checkpoint has under another name, or not at all.

transformers 5.18.0, torch 2.13.0 (CPU), Python 3.11. Every class of the auto mappings is made on the meta device from its default configuration
(cut to four layers); modules come from named_modules(), ties from all_tied_weights_keys, names in files from revert_weight_conversion(), which is
what save_pretrained() writes.  python linear_modules.py
"""

import json
import pathlib
import re
import sys
import warnings

warnings.filterwarnings("ignore")

import torch
import transformers
from transformers.core_model_loading import revert_weight_conversion
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

OUT = pathlib.Path(__file__).parents[2] / "converter/src/main/resources/dev/octet/converter/checkpoint/linear-modules.tsv"
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers", "decoder_layers", "num_encoder_layers", "num_decoder_layers", "depth")
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
HEADER = """\
# Linear modules of classes of transformers 5.18 that a checkpoint has under another name, or not at all. Made by testdata/make/linear_modules.py.
# @  where the base model is in these classes ("-" for nowhere), and the classes that the rows below it are for
#    module TAB name of the same in a file; "= module" for a weight that is another's, so that files leave it out; * stands for a number
#    "!" TAB name in a file of a matrix that is no Linear
"""


def classes():
    names = [n for n in dir(modeling_auto) if re.fullmatch(r"MODEL(_FOR_.*)?_MAPPING_NAMES", n)]
    found = {}
    for name in names:
        for model_type, members in getattr(modeling_auto, name).items():
            for member in members if isinstance(members, (list, tuple)) else [members]:
                found.setdefault(member, model_type)
    return sorted(found.items())


def small(config):
    for part in [config] + [getattr(config, k) for k in getattr(config, "sub_configs", {}) if getattr(config, k, None) is not None]:
        part.tie_word_embeddings = True  # so that all heads count that can be tied
        for keys, size in ((LAYERS, 4), (EXPERTS, 8)):
            for key in keys:
                if isinstance(getattr(part, key, None), int) and getattr(part, key) > size:
                    try:
                        setattr(part, key, size)
                    except Exception:  # computed from others
                        pass
    return config


def starred(module, stored):
    """Both paths with * for the numbers that they share in their order; other numbers stay."""
    mine, theirs = (re.findall(r"(?<=\.)\d+(?=\.|$)", path) for path in (module, stored))
    shared = 0
    while shared < min(len(mine), len(theirs)) and mine[shared] == theirs[shared]:
        shared += 1
    return tuple(re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path, count=shared) if shared else path for path in (module, stored))


def every(path):
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path)


def stem(key):
    return key.removesuffix(".weight")


def rows(model):
    state = model.state_dict()
    linears = [name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    tied = {stem(k): stem(v) for k, v in (getattr(model, "all_tied_weights_keys", None) or {}).items() if k.endswith(".weight")}
    found = set()
    for module in linears:
        key = module + ".weight"
        if module in tied:
            found.add((every(module), "= " + every(tied[module])))
        if key in state:
            try:
                stored = list(revert_weight_conversion(model, {key: state[key]}))
            except Exception:  # made of several tensors: no single one has a name
                continue
            for name in map(stem, stored):
                if name != module:
                    found.add(starred(module, name))
    for key, tensor in state.items():
        owner = model.get_submodule(key.rpartition(".")[0])
        if tensor.ndim == 2 and not isinstance(owner, torch.nn.Linear):
            try:
                stored = list(revert_weight_conversion(model, {key: tensor}))
            except Exception:
                continue
            # the name of an Embedding says that it is one, but not always the name that files have
            names = [n for n in stored if n.endswith(".weight") and not (isinstance(owner, torch.nn.Embedding) and n == key)]
            found.update(("!", every(stem(name))) for name in names)
    return frozenset(found)


def main():
    transformers.logging.set_verbosity_error()
    groups = {}
    for name, model_type in classes():
        try:
            with torch.device("meta"):
                model = getattr(transformers, name)(small(CONFIG_MAPPING[model_type]()))
            prefix = model.base_model_prefix
            groups.setdefault((prefix if prefix and hasattr(model, prefix) else "-", rows(model)), []).append(name)
        except Exception as e:
            print("left out:", name, type(e).__name__, str(e).splitlines()[:1], file=sys.stderr)
    lines = [HEADER]
    for (prefix, found), names in sorted(groups.items(), key=lambda g: g[1][0]):
        lines.append("\t".join(["@", prefix, *names]) + "\n")
        lines += ["\t".join(row) + "\n" for row in sorted(found)]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text("".join(lines))
    print(len(groups), "groups,", sum(map(len, groups.values())), "classes,", OUT.stat().st_size, "bytes")


main()
