"""What DeepSpeed makes of batch sizes and of overflows: testdata/golden/dialect/deepspeed/{batches,scales}.csv.

    git clone https://github.com/deepspeedai/DeepSpeed; git -C DeepSpeed checkout edaa722
    python3 deepspeed_numbers.py DeepSpeed ../golden/dialect/deepspeed

batches.csv: train_batch_size,train_micro_batch_size_per_gpu,gradient_accumulation_steps as written (empty: left out), then the three as
DeepSpeed uses them in one process, or "refused". scales.csv: stage,initial_scale_power,loss_scale_window,hysteresis,consecutive_hysteresis,
min_loss_scale,overflows (1 for a step that overflows), the loss scales of these steps. The functions are taken out of the sources and run as they are;
a run that DeepSpeed ends at the least scale ends its list.
"""

import ast
import itertools
import pathlib
import sys
import types

root, out = pathlib.Path(sys.argv[1]) / "deepspeed", pathlib.Path(sys.argv[2])


def functions(file, cls, names):
    """Methods of a class, compiled alone."""
    tree = ast.parse((root / file).read_text())
    (body,) = [c.body for c in ast.walk(tree) if isinstance(c, ast.ClassDef) and c.name == cls]
    chosen = [f for f in body if isinstance(f, ast.FunctionDef) and f.name in names]
    quiet = types.SimpleNamespace(info=lambda *_: None, warning=lambda *_: None)
    space = {"logger": quiet, "dist": types.SimpleNamespace(get_rank=lambda: 1), "torch": types.SimpleNamespace(half=None)}
    exec(compile(ast.Module(chosen, []), file, "exec"), space)
    return [space[n] for n in names]


solve, check = functions("runtime/config.py", "DeepSpeedConfig", ["_set_batch_related_parameters", "_batch_assertion"])
choices = [None, -4, 0, 1, 2, 3, 4, 6, 8, 12, 32]
rows = []
for train, micro, steps in itertools.product(choices, repeat=3):
    config = types.SimpleNamespace(
        train_batch_size=train, train_micro_batch_size_per_gpu=micro, gradient_accumulation_steps=steps, world_size=1
    )
    try:
        solve(config)
        check(config)
        result = [config.train_batch_size, config.train_micro_batch_size_per_gpu, config.gradient_accumulation_steps]
    except (AssertionError, ZeroDivisionError):
        result = ["refused"]
    rows.append(",".join("" if x is None else str(x) for x in [train, micro, steps] + result))
out.mkdir(parents=True, exist_ok=True)
(out / "batches.csv").write_text("".join(r + "\n" for r in rows))

(zero_update,) = functions("runtime/fp16/loss_scaler.py", "DynamicLossScaler", ["update_scale"])
(fused_update,) = functions("runtime/fp16/fused_optimizer.py", "FP16_Optimizer", ["_update_scale"])
rows = []
patterns = ["0" * 24, "1" * 12, "100000010000000000100000", "110000000000000000000000", "011011011000000000000000", "000000000010010010000000"]
for stage, power, window, hysteresis, consecutive, least, overflows in itertools.product(
    [0, 2], [4, 16], [3, 1000], [1, 2, 3], [False, True], [1, 8], patterns
):
    scale = 2.0**power
    if stage:
        state = types.SimpleNamespace(
            cur_scale=scale, cur_iter=0, last_overflow_iter=-1, scale_factor=2.0, scale_window=window, min_scale=least,
            delayed_shift=hysteresis, cur_hysteresis=hysteresis, consecutive_hysteresis=consecutive, raise_error_at_min_scale=True,
            dtype=None,
        )
        update, seen = zero_update, state
    else:
        seen = types.SimpleNamespace(
            dynamic_loss_scale=True, cur_scale=scale, cur_iter=0, last_overflow_iter=-1, scale_factor=2.0, scale_window=window,
            min_loss_scale=least,
        )
        state = types.SimpleNamespace(loss_scale_config=seen, verbose=False)
        update = fused_update
    scales = []
    for step in overflows:
        scales.append(seen.cur_scale)
        if not stage and step == "1" and seen.cur_scale == least:
            break  # Octet ends the run here; DeepSpeed goes on at the least scale
        try:
            update(state, step == "1")
        except Exception:
            break
    rows.append(
        f"{stage},{power},{window},{hysteresis},{str(consecutive).lower()},{least},{overflows},{' '.join(f'{s:.0f}' for s in scales)}"
    )
(out / "scales.csv").write_text("".join(r + "\n" for r in rows))
