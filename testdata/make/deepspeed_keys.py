"""Names of all keys of DeepSpeed's JSON, read out of its sources: testdata/golden/dialect/keys/deepspeed.txt.

    git clone https://github.com/deepspeedai/DeepSpeed; git -C DeepSpeed checkout edaa722
    python3 deepspeed_keys.py DeepSpeed ../golden/dialect/keys/deepspeed.txt

Two sources: classes of pydantic, whose fields and aliases are keys; and constants, whose values are. Last it lists the names of the documentation
(docs/_pages/config-json.md) that neither has; the few that are left are written out below, or are names of values.
"""

import ast
import pathlib
import re
import sys

root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])

# class -> sections of the JSON that have its fields
CLASSES = {
    "runtime/zero/config.py:DeepSpeedZeroConfig": ["zero_optimization"],
    "runtime/zero/offload_config.py:DeepSpeedZeroOffloadParamConfig": ["zero_optimization.offload_param"],
    "runtime/zero/offload_config.py:DeepSpeedZeroOffloadOptimizerConfig": ["zero_optimization.offload_optimizer"],
    "runtime/zero/leaf_module_config.py:DeepSpeedZeroLeafModuleConfig": ["zero_optimization.leaf_module"],
    "runtime/zenflow/zenflow_config.py:ZenFlowConfig": ["zero_optimization.zenflow"],
    "runtime/precision_config.py:DeepSpeedBF16Config": ["bf16", "bfloat16"],
    "runtime/precision_config.py:DeepSpeedFP16Config": ["fp16"],
    "runtime/config.py:HybridEngineConfig": ["hybrid_engine"],
    "comm/config.py:CommsLoggerConfig": ["comms_logger"],
    "compile/config.py:CompileConfig": ["compile"],
    "monitor/config.py:TensorBoardConfig": ["tensorboard"],
    "monitor/config.py:WandbConfig": ["wandb"],
    "monitor/config.py:CSVConfig": ["csv_monitor"],
    "monitor/config.py:CometConfig": ["comet"],
    "runtime/tensor_parallel/config.py:TPTrainingConfig": ["tensor_parallel"],
    "runtime/tensor_parallel/config.py:TPConfig": ["tensor_parallel.tensor_parallel", "tensor_parallel.tp"],
    "utils/config.py:DeepSpeedThroughputTimerConfig": ["timers.throughput"],
    "inference/config.py:WeightQuantConfig": ["weight_quantization"],
}
# fields that hold other sections, or objects of Python
SECTIONS = {"offload_param", "offload_optimizer", "zenflow", "leaf_module", "mpu", "tp_group", "tensor_parallel.tp"}

# file of constants -> section -> constants
CONSTANTS = {
    "runtime/constants.py": {
        "": """TRAIN_BATCH_SIZE TRAIN_MICRO_BATCH_SIZE_PER_GPU GRADIENT_ACCUMULATION_STEPS MANAGED_GRADIENT_ACCUMULATION
            SPARSE_GRADIENTS GRADIENT_CLIPPING GRAPH_HARVESTING COMMUNICATION_DATA_TYPE SEQ_PARALLEL_COMMUNICATION_DATA_TYPE
            PRESCALE_GRADIENTS GRADIENT_PREDIVIDE_FACTOR GRADIENT_ALLREDUCE_OP DISABLE_ALLGATHER DUMP_STATE VOCABULARY_SIZE
            WALL_CLOCK_BREAKDOWN MEMORY_BREAKDOWN STEPS_PER_PRINT ZERO_ALLOW_UNTESTED_OPTIMIZER ZERO_FORCE_DS_CPU_OPTIMIZER
            DATALOADER_DROP_LAST USE_DATA_BEFORE_EXPERT_PARALLEL LOG_LEVEL""",
        "optimizer": "TYPE LEGACY_FUSION",
        "optimizer.params": "MAX_GRAD_NORM",
        "scheduler": "TYPE",
        "amp": "AMP_ENABLED",
        "torch_autocast": "TORCH_AUTOCAST_ENABLED TORCH_AUTOCAST_DTYPE TORCH_AUTOCAST_LOWER_PRECISION_SAFE_MODULES",
        "sparse_attention": """SPARSE_MODE SPARSE_BLOCK SPARSE_DIFFERENT_LAYOUT_PER_HEAD SPARSE_NUM_LOCAL_BLOCKS
            SPARSE_NUM_GLOBAL_BLOCKS SPARSE_ATTENTION_TYPE SPARSE_HORIZONTAL_GLOBAL_ATTENTION SPARSE_NUM_DIFFERENT_GLOBAL_PATTERNS
            SPARSE_NUM_RANDOM_BLOCKS SPARSE_LOCAL_WINDOW_BLOCKS SPARSE_GLOBAL_BLOCK_INDICES SPARSE_GLOBAL_BLOCK_END_INDICES
            SPARSE_NUM_SLIDING_WINDOW_BLOCKS""",
        "eigenvalue": """EIGENVALUE_ENABLED EIGENVALUE_VERBOSE EIGENVALUE_MAX_ITER EIGENVALUE_TOL EIGENVALUE_STABILITY
            EIGENVALUE_GAS_BOUNDARY_RESOLUTION EIGENVALUE_LAYER_NAME EIGENVALUE_LAYER_NUM""",
        "progressive_layer_drop": "PLD_ENABLED PLD_THETA PLD_GAMMA",
        "checkpoint": "CHECKPOINT_TAG_VALIDATION LOAD_UNIVERSAL_CHECKPOINT USE_NODE_LOCAL_STORAGE_CHECKPOINT",
        "checkpoint.parallel_write": "CHECKPOINT_PARALLEL_WRITE_PIPELINE_STAGE",
        "data_types": "GRAD_ACCUM_DTYPE PARAM_DTYPE BUFFER_DTYPE",
    },
    "runtime/config.py": {"optimizer.params": "TORCH_ADAM_PARAM ADAM_W_MODE"},
    "runtime/model_checkpointing/constants.py": {
        "checkpoint": "CHECKPOINT_SERIALIZATION",
        "checkpoint.writer": """CHECKPOINT_WRITER_TYPE CHECKPOINT_IO_BUFFER_SIZE CHECKPOINT_IO_BUFFER_DOUBLE CHECKPOINT_IO_STATISTICS
            CHECKPOINT_DATA_PARALLEL CHECKPOINT_WRITER_DECOUPLED CHECKPOINT_IO_MULTIPLIER""",
    },
    "runtime/activation_checkpointing/config.py": {
        "activation_checkpointing": """ACT_CHKPT_PARTITION_ACTIVATIONS ACT_CHKPT_NUMBER_CHECKPOINTS
            ACT_CHKPT_CONTIGUOUS_MEMORY_OPTIMIZATION ACT_CHKPT_SYNCHRONIZE_CHECKPOINT_BOUNDARY ACT_CHKPT_PROFILE
            ACT_CHKPT_CPU_CHECKPOINTING"""
    },
    "runtime/swap_tensor/constants.py": {
        "aio": "AIO_BLOCK_SIZE AIO_QUEUE_DEPTH AIO_INTRA_OP_PARALLELISM AIO_SINGLE_SUBMIT AIO_OVERLAP_EVENTS AIO_USE_GDS"
    },
    "profiling/constants.py": {
        "flops_profiler": """FLOPS_PROFILER_ENABLED FLOPS_PROFILER_RECOMPUTE_FWD_FACTOR FLOPS_PROFILER_PROFILE_STEP
            FLOPS_PROFILER_MODULE_DEPTH FLOPS_PROFILER_TOP_MODULES FLOPS_PROFILER_DETAILED FLOPS_PROFILER_OUTPUT_FILE"""
    },
    "nebula/constants.py": {
        "nebula": """NEBULA_ENABLED NEBULA_ENABLE_NEBULA_LOAD NEBULA_LOAD_PATH NEBULA_PERSISTENT_STORAGE_PATH
            NEBULA_PERSISTENT_TIME_INTERVAL NEBULA_NUM_OF_VERSION_IN_RETENTION"""
    },
    "elasticity/constants.py": {
        "elasticity": """ENABLED MAX_ACCEPTABLE_BATCH_SIZE MICRO_BATCHES MIN_GPUS MAX_GPUS NUM_GPUS_PER_NODE MODEL_PARALLEL_SIZE
            MIN_TIME PREFER_LARGER_BATCH IGNORE_NON_ELASTIC_BATCH_INFO VERSION"""
    },
    "autotuning/constants.py": {
        "autotuning": """AUTOTUNING_ENABLED AUTOTUNING_FAST AUTOTUNING_RESULTS_DIR AUTOTUNING_EXPS_DIR AUTOTUNING_OVERWRITE
            AUTOTUNING_START_PROFILE_STEP AUTOTUNING_END_PROFILE_STEP AUTOTUNING_METRIC_PATH AUTOTUNING_TUNER_TYPE
            AUTOTUNING_TUNER_EARLY_STOPPING AUTOTUNING_TUNER_NUM_TRIALS AUTOTUNING_ARG_MAPPINGS AUTOTUNING_MAX_TRAIN_BATCH_SIZE
            AUTOTUNING_MIN_TRAIN_BATCH_SIZE AUTOTUNING_MAX_TRAIN_MICRO_BATCH_SIZE_PER_GPU
            AUTOTUNING_MIN_TRAIN_MICRO_BATCH_SIZE_PER_GPU AUTOTUNING_NUM_TUNING_MICRO_BATCH_SIZES AUTOTUNING_MP_SIZE
            AUTOTUNING_METRIC AUTOTUNING_MODEL_INFO_PATH""",
        "autotuning.model_info": """MODEL_INFO_PROFILE MODEL_INFO_NUM_PARAMS MODEL_INFO_HIDDEN_SIZE MODEL_INFO_NUM_LAYERS""",
    },
    "runtime/data_pipeline/constants.py": {
        "data_efficiency": "DATA_EFFICIENCY_ENABLED DATA_EFFICIENCY_SEED",
        "data_efficiency.data_sampling": """DATA_SAMPLING_ENABLED DATA_SAMPLING_NUM_EPOCHS DATA_SAMPLING_NUM_WORKERS
            DATA_SAMPLING_PIN_MEMORY""",
        "data_efficiency.data_sampling.curriculum_learning": """CURRICULUM_LEARNING_ENABLED CURRICULUM_LEARNING_CLUSTER_PATH
            CURRICULUM_LEARNING_METRICS""",
        "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.NAME": """CURRICULUM_LEARNING_SAMPLE_PATH
            CURRICULUM_LEARNING_METRIC_PATH CURRICULUM_LEARNING_CLUSTERING_TYPE CURRICULUM_LEARNING_DIFFICULTY_TYPE
            CURRICULUM_LEARNING_MIN_DIFFICULTY CURRICULUM_LEARNING_MAX_DIFFICULTY CURRICULUM_LEARNING_SCHEDULE_TYPE""",
        "data_efficiency.data_sampling.dynamic_batching": """DYNAMIC_BATCHING_ENABLED DYNAMIC_BATCHING_METRICS_PATH
            DYNAMIC_BATCHING_LR_SCALING_METHOD DYNAMIC_BATCHING_MIN_BATCH_SIZE DYNAMIC_BATCHING_MAX_BATCH_SIZE
            DYNAMIC_BATCHING_SEQUENCE_PICKING_ORDER DYNAMIC_BATCHING_MAX_TOKENS DYNAMIC_BATCHING_VERBOSE""",
        "data_efficiency.data_routing": "DATA_ROUTING_ENABLED",
        "data_efficiency.data_routing.random_ltd": """RANDOM_LTD_ENABLED RANDOM_LTD_MODEL_MASK_NAME RANDOM_LTD_MODEL_TYPE
            RANDOM_LTD_MICRO_BATCH_SIZE RANDOM_LTD_GLOBAL_BATCH_SIZE RANDOM_LTD_HIDDEN_STATE_ORDER RANDOM_LTD_LAYER_NUM
            RANDOM_LTD_LAYER_ID RANDOM_LTD_TOTAL_LAYER_NUM""",
        "data_efficiency.data_routing.random_ltd.random_ltd_schedule": """RANDOM_LTD_MAX_VALUE RANDOM_LTD_MIN_VALUE
            RANDOM_LTD_SCHEDULER_TYPE""",
        "data_efficiency.data_routing.random_ltd.random_ltd_schedule.schedule_config": """RANDOM_LTD_INCREASE_STEP
            RANDOM_LTD_REQUIRE_STEP""",
        "data_efficiency.data_routing.random_ltd.layer_token_lr_schedule": """RANDOM_LTD_LAYER_TOKEN_LR_ENABLED
            RANDOM_LTD_TOTAL_LAYER_TOKENS RANDOM_LTD_WARMUP_TYPE RANDOM_LTD_WARMUP_LAYER_TOKENS""",
        "curriculum_learning": """CURRICULUM_ENABLED_LEGACY CURRICULUM_LEARNING_MIN_DIFFICULTY CURRICULUM_LEARNING_MAX_DIFFICULTY
            CURRICULUM_LEARNING_SCHEDULE_TYPE""",
        "curriculum_learning.schedule_config": """CURRICULUM_LEARNING_SCHEDULE_DIFFICULTY CURRICULUM_LEARNING_SCHEDULE_MAX_STEP
            CURRICULUM_LEARNING_SCHEDULE_TOTAL_STEP CURRICULUM_LEARNING_SCHEDULE_DIFFICULTY_STEP
            CURRICULUM_LEARNING_SCHEDULE_ROOT_DEGREE""",
    },
    "compression/constants.py": {
        "compression_training.weight_quantization.shared_parameters": """WEIGHT_QUANTIZE_IN_FORWARD_ENABLED TECHNIQUE_ENABLED
            WEIGHT_QUANTIZE_KERNEL TECHNIQUE_SCHEDULE_OFFSET WEIGHT_QUANTIZE_GROUPS WEIGHT_QUANTIZE_VERBOSE WEIGHT_QUANTIZE_TYPE
            WEIGHT_QUANTIZE_ROUNDING""",
        "compression_training.weight_quantization.shared_parameters.fp16_mixed_quantize": """WEIGHT_QUANTIZE_FP16_MIXED_QUANTIZE_ENABLED
            WEIGHT_QUANTIZE_CHANGE_RATIO""",
        "compression_training.weight_quantization.different_groups.NAME.params": """WEIGHT_QUANTIZE_START_BITS
            WEIGHT_QUANTIZE_TARGET_BITS WEIGHT_QUANTIZATION_PERIOD""",
        "compression_training.activation_quantization.shared_parameters": """TECHNIQUE_ENABLED ACTIVATION_QUANTIZE_TYPE
            ACTIVATION_QUANTIZE_RANGE TECHNIQUE_SCHEDULE_OFFSET""",
        "compression_training.activation_quantization.different_groups.NAME.params": "ACTIVATION_QUANTIZE_BITS",
        "compression_training.sparse_pruning.shared_parameters": """TECHNIQUE_ENABLED TECHNIQUE_SCHEDULE_OFFSET
            TECHNIQUE_SCHEDULE_OFFSET_END SPARSE_PRUNING_SCHEDULE_OFFSET_STRIDE SPARSE_PRUNING_METHOD SPARSE_PRUNING_BLOCK_PATTERN
            SPARSE_PRUNING_DENSE_RATIO SPARSE_PRUNING_EXCLUDED_MODULES""",
        "compression_training.row_pruning.shared_parameters": "TECHNIQUE_ENABLED TECHNIQUE_SCHEDULE_OFFSET ROW_PRUNING_METHOD",
        "compression_training.row_pruning.different_groups.NAME.params": "ROW_PRUNING_DENSE_RATIO",
        "compression_training.head_pruning.shared_parameters": """TECHNIQUE_ENABLED TECHNIQUE_SCHEDULE_OFFSET HEAD_PRUNING_METHOD
            HEAD_PRUNING_NUM_HEADS""",
        "compression_training.channel_pruning.shared_parameters": """TECHNIQUE_ENABLED TECHNIQUE_SCHEDULE_OFFSET
            CHANNEL_PRUNING_METHOD""",
        "compression_training.channel_pruning.different_groups.NAME": """DIFFERENT_GROUPS_MODULE_SCOPE
            DIFFERENT_GROUPS_RELATED_MODULE_SCOPE""",
        "compression_training.layer_reduction": """LAYER_REDUCTION_ENABLED KEEP_NUMBER_LAYER MODULE_NAME_PREFIX TEACHER_LAYER
            OTHER_MODULE_NAME""",
    },
    "runtime/lr_schedules.py": {
        "scheduler.params": """LR_RANGE_TEST_MIN_LR LR_RANGE_TEST_STEP_RATE LR_RANGE_TEST_STEP_SIZE LR_RANGE_TEST_STAIRCASE
            CYCLE_FIRST_STEP_SIZE CYCLE_FIRST_STAIR_COUNT CYCLE_SECOND_STEP_SIZE CYCLE_SECOND_STAIR_COUNT DECAY_STEP_SIZE CYCLE_MIN_LR
            CYCLE_MAX_LR DECAY_LR_RATE CYCLE_MIN_MOM CYCLE_MAX_MOM DECAY_MOM_RATE WARMUP_MIN_LR WARMUP_MAX_LR WARMUP_NUM_STEPS WARMUP_TYPE
            WARMUP_MIN_RATIO COS_MIN_RATIO TOTAL_NUM_STEPS"""
    },
}

# parameters of a constructor: file, class -> section
CONSTRUCTORS = {
    "ops/adam/fused_adam.py:FusedAdam": "optimizer.params",
    "ops/lamb/fused_lamb.py:FusedLamb": "optimizer.params",
    "ops/lion/fused_lion.py:FusedLion": "optimizer.params",
    "runtime/fp16/onebit/adam.py:OnebitAdam": "optimizer.params",
    "runtime/fp16/onebit/lamb.py:OnebitLamb": "optimizer.params",
    "runtime/fp16/onebit/zoadam.py:ZeroOneAdam": "optimizer.params",
    "runtime/lr_schedules.py:OneCycle": "scheduler.params",
    "runtime/lr_schedules.py:WarmupCosineLR": "scheduler.params",
}

# read as texts in the code: the pipeline (runtime/config.py), expert_parallel (module_inject/auto_ep_config.py), MS-AMP's fork, Muon, Apex
WRITTEN_OUT = """
pipeline: stages partition seed_layers activation_checkpoint_interval pipe_partitioned grad_partitioned use_reentrant
msamp: enabled opt_level use_te
amp: opt_level
optimizer.params: momentum muon_lr adam_lr ns_method
expert_parallel: expert_w3 load_balance_coeff
curriculum_learning: curriculum_type
aio: thread_count
quantize_training: enabled quantize_verbose quantizer_kernel quantize_type quantize_groups
"""


def tree(name):
    return ast.parse((root / "deepspeed" / name).read_text())


keys = set()
for where, sections in CLASSES.items():
    file, name = where.split(":")
    (cls,) = [c for c in ast.walk(tree(file)) if isinstance(c, ast.ClassDef) and c.name == name]
    for field in cls.body:
        if not isinstance(field, ast.AnnAssign):
            continue
        names = [field.target.id] + [
            k.value.value for k in getattr(field.value, "keywords", []) if k.arg == "alias"
        ]
        for section in sections:
            keys |= {
                f"{section}.{n}" for n in names if n not in SECTIONS and not (section == "tensor_parallel" and n in ("tensor_parallel", "tp"))
            }
for file, sections in CONSTANTS.items():
    values = {}
    for node in tree(file).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if isinstance(node.value, ast.Constant):
                values[node.targets[0].id] = node.value.value
            elif isinstance(node.value, ast.Name):
                values[node.targets[0].id] = values.get(node.value.id)
    for section, names in sections.items():
        keys |= {(section + "." if section else "") + values[n] for n in names.split()}
for where, section in CONSTRUCTORS.items():
    file, name = where.split(":")
    (cls,) = [c for c in ast.walk(tree(file)) if isinstance(c, ast.ClassDef) and c.name == name]
    (init,) = [f for f in cls.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]
    keys |= {f"{section}.{a.arg}" for a in init.args.args[2:] if a.arg not in ("params", "deepspeed")}
for line in WRITTEN_OUT.strip().splitlines():
    section, names = line.split(":")
    keys |= {f"{section}.{n}" for n in names.split()}
expert = re.findall(r'param_dict\.get\("(\w+)"', (root / "deepspeed/module_inject/auto_ep_config.py").read_text())
keys |= {f"expert_parallel.{n}" for n in expert}

out.parent.mkdir(parents=True, exist_ok=True)
out.write_text("".join(k + "\n" for k in sorted(keys)))

documented = set()
for name in re.findall(r"\*\*([\w:\\]+)\*\*", (root / "docs/_pages/config-json.md").read_text()):
    documented.add(name.replace("\\", "").split(":")[-1])
have = {part for k in keys for part in k.split(".")}
print(len(keys), "keys; documented, not found:", sorted(n for n in documented - have if n.islower()))
