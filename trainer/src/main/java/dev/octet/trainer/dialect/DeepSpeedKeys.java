package dev.octet.trainer.dialect;

import static dev.octet.trainer.dialect.KeyRule.decided;
import static dev.octet.trainer.dialect.KeyRule.feature;
import static dev.octet.trainer.dialect.KeyRule.noEffect;
import static dev.octet.trainer.dialect.KeyRule.refused;
import static dev.octet.trainer.dialect.KeyType.ANY;
import static dev.octet.trainer.dialect.KeyType.FLAG;
import static dev.octet.trainer.dialect.KeyType.LIST;
import static dev.octet.trainer.dialect.KeyType.NUMBER;
import static dev.octet.trainer.dialect.KeyType.TEXT;
import static dev.octet.trainer.dialect.KeyType.WHOLE;

import java.util.List;
import java.util.stream.Stream;

/**
 * Every key of DeepSpeed's JSON: those of its documentation (docs/_pages/config-json.md) and those that its code reads without documenting
 * them (deepspeed/runtime/config.py and the configuration of each part), at commit edaa722 of August 2026. Deprecated spellings are rows of
 * their own. What becomes of the keys that are decided, {@link DeepSpeed} says.
 */
final class DeepSpeedKeys {
    private static final String ONE_PROCESS = "It shares work among processes, and there is one.";
    private static final String LOGS = "It is about what is printed; metrics.jsonl has every step.";
    private static final String TUNING = "It moves memory in another way and computes the same.";

    private static final Becomes.Feature EXPERTS = new Becomes.Feature(
            "expert parallelism",
            List.of("expert_parallel.enabled"),
            "It replaces layers of experts by others that are split over processes.");

    private static final Becomes.Feature HYBRID = new Becomes.Feature(
            "hybrid engine",
            List.of("hybrid_engine.enabled"),
            "It generates text between training steps, for reinforcement learning, which octet train does not do.");

    private static final Becomes.Feature ELASTIC = new Becomes.Feature(
            "elasticity",
            List.of("elasticity.enabled"),
            "It chooses the batch size from the number of GPUs; write train_batch_size instead.");

    private static final Becomes.Feature AUTOTUNING = new Becomes.Feature(
            "autotuning",
            List.of("autotuning.enabled"),
            "It starts many runs to choose batch size and ZeRO settings; octet train does the run that is written.");

    private static final Becomes.Feature LAYER_DROP = new Becomes.Feature(
            "progressive layer drop",
            List.of("progressive_layer_drop.enabled"),
            "Layers are not dropped at random here.");

    private static final Becomes.Feature CURRICULUM = new Becomes.Feature(
            "curriculum",
            List.of("curriculum_learning.enabled"),
            "The order and length of the samples do not depend on their difficulty here.");

    private static final Becomes.Feature DATA_EFFICIENCY = new Becomes.Feature(
            "data efficiency library",
            List.of("data_efficiency.enabled"),
            "The order and length of the samples do not depend on their difficulty here, and no tokens are dropped.");

    private static final Becomes.Feature MOQ = new Becomes.Feature(
            "quantized training",
            List.of("quantize_training.enabled"),
            "Weights are not quantised step by step here; precision: {mode: fp8, recipe: qat} trains for the FP8 a"
                    + " model is deployed in.");

    private static final Becomes.Feature LAYER_REDUCTION = new Becomes.Feature(
            "layer reduction",
            List.of("compression_training.layer_reduction.enabled"),
            "The graph stays as it is: give a model that has fewer layers.");

    private static final Becomes.Feature WEIGHT_QUANTIZATION = new Becomes.Feature(
            "weight quantization",
            List.of("compression_training.weight_quantization.shared_parameters.enabled"),
            "Weights and activations are not quantised step by step here; precision: {mode: fp8, recipe: qat} trains"
                    + " for the FP8 a model is deployed in.");

    private static final Becomes.Feature ACTIVATION_QUANTIZATION = new Becomes.Feature(
            "activation quantization",
            List.of("compression_training.activation_quantization.shared_parameters.enabled"),
            "Weights and activations are not quantised step by step here; precision: {mode: fp8, recipe: qat} trains"
                    + " for the FP8 a model is deployed in.");

    private static final Becomes.Feature SPARSE_PRUNING = new Becomes.Feature(
            "sparse pruning",
            List.of("compression_training.sparse_pruning.shared_parameters.enabled"),
            "Weights are not pruned here.");

    private static final Becomes.Feature ROW_PRUNING = new Becomes.Feature(
            "row pruning",
            List.of("compression_training.row_pruning.shared_parameters.enabled"),
            "Weights are not pruned here.");

    private static final Becomes.Feature HEAD_PRUNING = new Becomes.Feature(
            "head pruning",
            List.of("compression_training.head_pruning.shared_parameters.enabled"),
            "Weights are not pruned here.");

    private static final Becomes.Feature CHANNEL_PRUNING = new Becomes.Feature(
            "channel pruning",
            List.of("compression_training.channel_pruning.shared_parameters.enabled"),
            "Weights are not pruned here.");

    /** All rows. */
    static final KeyTable ALL = new KeyTable(Stream.of(
                    batch(),
                    optimizer(),
                    scheduler(),
                    communication(),
                    numberTypes(),
                    zero(),
                    activations(),
                    logs(),
                    files(),
                    execution(),
                    features())
            .flatMap(List::stream)
            .toList());

    private DeepSpeedKeys() {}

    private static List<KeyRule> batch() {
        return List.of(
                decided("train_batch_size", WHOLE, ""),
                decided("train_micro_batch_size_per_gpu", WHOLE, ""),
                decided("gradient_accumulation_steps", WHOLE, ""),
                refused(
                        "managed_gradient_accumulation",
                        FLAG,
                        "true",
                        "The code that calls step() would decide when weights change; here every"
                                + " gradient_accumulation_steps micro-batches do.",
                        "true"));
    }

    private static List<KeyRule> optimizer() {
        return List.of(
                decided("optimizer.type", TEXT, ""),
                decided("optimizer.params.lr", NUMBER, "0.001"),
                decided("optimizer.params.betas", LIST, "[0.9, 0.999]"),
                decided("optimizer.params.eps", NUMBER, "1e-8"),
                decided("optimizer.params.weight_decay", NUMBER, "0.0"),
                decided("optimizer.params.momentum", NUMBER, ""),
                decided("optimizer.params.bias_correction", FLAG, "true"),
                decided("optimizer.params.torch_adam", FLAG, "false"),
                decided("optimizer.params.adam_w_mode", FLAG, "true"),
                decided("optimizer.params.amsgrad", FLAG, "false"),
                decided("optimizer.params.eps_inside_sqrt", FLAG, "false"),
                decided("optimizer.params.max_grad_norm", NUMBER, "0.0"),
                decided("optimizer.params.set_grad_none", FLAG, "true"),
                decided("optimizer.params.dampening", NUMBER, "0.0"),
                decided("optimizer.params.nesterov", FLAG, ""),
                decided("optimizer.params.max_coeff", NUMBER, "10.0"),
                decided("optimizer.params.min_coeff", NUMBER, "0.01"),
                decided("optimizer.params.muon_lr", NUMBER, ""),
                decided("optimizer.params.adam_lr", NUMBER, ""),
                decided("optimizer.params.ns_method", TEXT, "gram"),
                noEffect(
                        "optimizer.params.fp32_optimizer_states",
                        FLAG,
                        "true",
                        "It chooses between implementations of the same update."),
                noEffect(
                        "optimizer.params.foreach", FLAG, "", "It chooses between implementations of the same update."),
                noEffect("optimizer.params.fused", FLAG, "", "It chooses between implementations of the same update."),
                noEffect(
                        "optimizer.params.capturable",
                        FLAG,
                        "false",
                        "It chooses between implementations of the same update."),
                noEffect(
                        "optimizer.params.differentiable",
                        FLAG,
                        "false",
                        "It chooses between implementations of the same update."),
                decided("optimizer.params.freeze_step", WHOLE, "100000"),
                decided("optimizer.params.cuda_aware", FLAG, "false"),
                decided("optimizer.params.comm_backend_name", TEXT, "nccl"),
                decided("optimizer.params.var_freeze_step", WHOLE, "100000"),
                decided("optimizer.params.var_update_scaler", WHOLE, "16"),
                decided("optimizer.params.local_step_scaler", WHOLE, "32678"),
                decided("optimizer.params.local_step_clipper", WHOLE, "16"),
                decided("optimizer.params.coeff_beta", NUMBER, "0.9"),
                decided("optimizer.params.factor_max", NUMBER, "4.0"),
                decided("optimizer.params.factor_min", NUMBER, "0.5"),
                decided("optimizer.params.factor_threshold", NUMBER, "0.1"),
                decided("optimizer.params.maximize", FLAG, "false"),
                decided("optimizer.params.*", ANY, ""),
                noEffect(
                        "optimizer.legacy_fusion",
                        FLAG,
                        "false",
                        "It chooses between implementations of the same update."));
    }

    private static List<KeyRule> scheduler() {
        return List.of(
                decided("scheduler.type", TEXT, ""),
                decided("scheduler.params.warmup_min_lr", NUMBER, "0.0"),
                decided("scheduler.params.warmup_max_lr", NUMBER, ""),
                decided("scheduler.params.warmup_num_steps", WHOLE, "1000"),
                decided("scheduler.params.warmup_type", TEXT, "log"),
                decided("scheduler.params.total_num_steps", WHOLE, ""),
                decided("scheduler.params.warmup_min_ratio", NUMBER, "0.0"),
                decided("scheduler.params.cos_min_ratio", NUMBER, "0.0001"),
                decided("scheduler.params.cycle_min_lr", NUMBER, ""),
                decided("scheduler.params.cycle_max_lr", NUMBER, ""),
                decided("scheduler.params.decay_lr_rate", NUMBER, "0.0"),
                decided("scheduler.params.cycle_first_step_size", WHOLE, "2000"),
                decided("scheduler.params.cycle_second_step_size", WHOLE, ""),
                decided("scheduler.params.cycle_first_stair_count", WHOLE, "0"),
                decided("scheduler.params.cycle_second_stair_count", WHOLE, ""),
                decided("scheduler.params.decay_step_size", WHOLE, "0"),
                decided("scheduler.params.cycle_momentum", FLAG, "true"),
                decided("scheduler.params.cycle_min_mom", NUMBER, "0.8"),
                decided("scheduler.params.cycle_max_mom", NUMBER, "0.9"),
                decided("scheduler.params.decay_mom_rate", NUMBER, "0.0"),
                decided("scheduler.params.lr_range_test_min_lr", NUMBER, "0.001"),
                decided("scheduler.params.lr_range_test_step_size", WHOLE, "2000"),
                decided("scheduler.params.lr_range_test_step_rate", NUMBER, "1.0"),
                decided("scheduler.params.lr_range_test_staircase", FLAG, "false"),
                decided("scheduler.params.last_batch_iteration", WHOLE, "-1"));
    }

    private static List<KeyRule> communication() {
        return List.of(
                noEffect("communication_data_type", TEXT, "", ONE_PROCESS),
                noEffect("seq_parallel_communication_data_type", TEXT, "fp32", ONE_PROCESS),
                noEffect("gradient_allreduce_op", TEXT, "mean", ONE_PROCESS),
                noEffect("prescale_gradients", FLAG, "false", ONE_PROCESS),
                noEffect("gradient_predivide_factor", NUMBER, "1.0", ONE_PROCESS),
                noEffect("disable_allgather", FLAG, "false", ONE_PROCESS),
                noEffect(
                        "sparse_gradients",
                        FLAG,
                        "false",
                        "It compresses gradients of embeddings for communication, and there is one process."));
    }

    private static List<KeyRule> numberTypes() {
        return List.of(
                decided("fp16.enabled", FLAG, "false"),
                decided("fp16.auto_cast", FLAG, "false"),
                decided("fp16.loss_scale", NUMBER, "0"),
                decided("fp16.initial_scale_power", WHOLE, "16"),
                decided("fp16.loss_scale_window", WHOLE, "1000"),
                decided("fp16.hysteresis", WHOLE, "2"),
                decided("fp16.consecutive_hysteresis", FLAG, "false"),
                decided("fp16.min_loss_scale", WHOLE, "1"),
                decided("fp16.fp16_master_weights_and_grads", FLAG, "false"),
                decided("bf16.enabled", FLAG, "false"),
                decided("bf16.immediate_grad_update", FLAG, "false"),
                decided("bf16.check_grad_overflow", FLAG, "true"),
                decided("bf16.bf16_master_weights_and_grads", FLAG, "false"),
                decided("bf16.bf16_optimizer_states", FLAG, "false"),
                decided("bfloat16.enabled", FLAG, "false"),
                decided("bfloat16.immediate_grad_update", FLAG, "false"),
                decided("bfloat16.check_grad_overflow", FLAG, "true"),
                decided("bfloat16.bf16_master_weights_and_grads", FLAG, "false"),
                decided("bfloat16.bf16_optimizer_states", FLAG, "false"),
                decided("amp.enabled", FLAG, "false"),
                decided("amp.opt_level", TEXT, "O1"),
                decided("amp.loss_scale", ANY, ""),
                decided("amp.keep_batchnorm_fp32", ANY, ""),
                decided("amp.master_weights", ANY, ""),
                decided("amp.cast_model_type", ANY, ""),
                decided("amp.patch_torch_functions", ANY, ""),
                decided("amp.cast_model_outputs", ANY, ""),
                decided("amp.num_losses", WHOLE, "1"),
                decided("amp.verbosity", WHOLE, "1"),
                decided("amp.min_loss_scale", ANY, ""),
                decided("amp.max_loss_scale", NUMBER, "16777216"),
                decided("torch_autocast.enabled", FLAG, "false"),
                decided("torch_autocast.dtype", TEXT, "bfloat16"),
                decided("torch_autocast.lower_precision_safe_modules", LIST, ""),
                decided("msamp.enabled", FLAG, "false"),
                decided("msamp.opt_level", TEXT, "O1"),
                decided("msamp.use_te", FLAG, "false"),
                decided("data_types.grad_accum_dtype", TEXT, ""),
                decided("data_types.param_dtype", TEXT, ""),
                decided("data_types.buffer_dtype", TEXT, ""),
                decided("gradient_clipping", NUMBER, "1.0"));
    }

    private static List<KeyRule> zero() {
        return List.of(
                decided("zero_optimization.stage", WHOLE, "0"),
                decided("zero_optimization", FLAG, "false"),
                noEffect("zero_optimization.contiguous_gradients", FLAG, "true", ONE_PROCESS),
                noEffect("zero_optimization.reduce_scatter", FLAG, "true", ONE_PROCESS),
                noEffect("zero_optimization.reduce_bucket_size", NUMBER, "5e8", ONE_PROCESS),
                noEffect("zero_optimization.use_multi_rank_bucket_allreduce", FLAG, "true", ONE_PROCESS),
                noEffect("zero_optimization.allgather_partitions", FLAG, "true", ONE_PROCESS),
                noEffect("zero_optimization.allgather_bucket_size", NUMBER, "5e8", ONE_PROCESS),
                noEffect("zero_optimization.overlap_comm", FLAG, "", ONE_PROCESS),
                noEffect("zero_optimization.round_robin_gradients", FLAG, "false", ONE_PROCESS),
                noEffect("zero_optimization.zero_hpz_partition_size", WHOLE, "1", ONE_PROCESS),
                noEffect("zero_optimization.zero_quantized_weights", FLAG, "false", ONE_PROCESS),
                noEffect("zero_optimization.zero_quantized_gradients", FLAG, "false", ONE_PROCESS),
                noEffect("zero_optimization.zeropp_loco_param.**", ANY, "", ONE_PROCESS),
                noEffect("zero_optimization.mics_shard_size", WHOLE, "-1", ONE_PROCESS),
                noEffect("zero_optimization.mics_hierarchical_params_gather", FLAG, "false", ONE_PROCESS),
                noEffect("zero_optimization.stage3_prefetch_bucket_size", NUMBER, "5e7", ONE_PROCESS),
                noEffect("zero_optimization.prefetch_bucket_size", NUMBER, "5e7", ONE_PROCESS),
                noEffect("zero_optimization.stage3_param_persistence_threshold", NUMBER, "1e5", ONE_PROCESS),
                noEffect("zero_optimization.param_persistence_threshold", NUMBER, "1e5", ONE_PROCESS),
                noEffect(
                        "zero_optimization.stage3_model_persistence_threshold",
                        NUMBER,
                        "9223372036854775807",
                        ONE_PROCESS),
                noEffect("zero_optimization.model_persistence_threshold", NUMBER, "9223372036854775807", ONE_PROCESS),
                noEffect("zero_optimization.stage3_max_live_parameters", NUMBER, "1e9", ONE_PROCESS),
                noEffect("zero_optimization.max_live_parameters", NUMBER, "1e9", ONE_PROCESS),
                noEffect("zero_optimization.stage3_max_reuse_distance", NUMBER, "1e9", ONE_PROCESS),
                noEffect("zero_optimization.max_reuse_distance", NUMBER, "1e9", ONE_PROCESS),
                noEffect("zero_optimization.stage3_module_granularity_threshold", NUMBER, "0", ONE_PROCESS),
                noEffect("zero_optimization.module_granularity_threshold", NUMBER, "0", ONE_PROCESS),
                noEffect("zero_optimization.stage3_use_all_reduce_for_fetch_params", FLAG, "false", ONE_PROCESS),
                noEffect("zero_optimization.use_all_reduce_for_fetch_params", FLAG, "false", ONE_PROCESS),
                noEffect("zero_optimization.stage3_allgather_sequential", FLAG, "false", ONE_PROCESS),
                noEffect("zero_optimization.allgather_sequential", FLAG, "false", ONE_PROCESS),
                noEffect("zero_optimization.legacy_stage1", FLAG, "false", ONE_PROCESS),
                noEffect("allgather_size", NUMBER, "5e8", ONE_PROCESS),
                noEffect(
                        "zero_optimization.stage3_gather_16bit_weights_on_model_save",
                        FLAG,
                        "false",
                        "A run keeps all of its weights in F32; octet export writes them in 16 bits or FP8."),
                noEffect(
                        "zero_optimization.gather_16bit_weights_on_model_save",
                        FLAG,
                        "false",
                        "A run keeps all of its weights in F32; octet export writes them in 16 bits or FP8."),
                noEffect(
                        "zero_optimization.stage3_gather_fp16_weights_on_model_save",
                        FLAG,
                        "false",
                        "A run keeps all of its weights in F32; octet export writes them in 16 bits or FP8."),
                noEffect(
                        "zero_optimization.load_from_fp32_weights",
                        FLAG,
                        "true",
                        "It is about checkpoints of DeepSpeed; those of a run here hold F32 weights and all states."),
                noEffect(
                        "zero_optimization.elastic_checkpoint",
                        FLAG,
                        "false",
                        "It is about checkpoints of DeepSpeed; those of a run here hold F32 weights and all states."),
                noEffect(
                        "zero_optimization.pipeline_loading_checkpoint",
                        FLAG,
                        "false",
                        "It is about checkpoints of DeepSpeed; those of a run here hold F32 weights and all states."),
                noEffect(
                        "zero_optimization.sub_group_size",
                        NUMBER,
                        "1e9",
                        "It lays memory out in another way and computes the same."),
                noEffect(
                        "zero_optimization.memory_efficient_linear",
                        FLAG,
                        "true",
                        "It lays memory out in another way and computes the same."),
                noEffect(
                        "zero_optimization.override_module_apply",
                        FLAG,
                        "true",
                        "It lays memory out in another way and computes the same."),
                noEffect(
                        "zero_optimization.leaf_module.classes",
                        LIST,
                        "",
                        "It lays memory out in another way and computes the same."),
                noEffect(
                        "zero_optimization.leaf_module.names",
                        LIST,
                        "",
                        "It lays memory out in another way and computes the same."),
                noEffect(
                        "zero_optimization.leaf_module.name_suffixes",
                        LIST,
                        "",
                        "It lays memory out in another way and computes the same."),
                noEffect(
                        "zero_optimization.save_muon_momentum_buffer_in_memory",
                        FLAG,
                        "false",
                        "It lays memory out in another way and computes the same."),
                noEffect("zero_optimization.log_trace_cache_warnings", FLAG, "false", LOGS),
                noEffect("zero_optimization.enable_sanity_checks", FLAG, "false", LOGS),
                noEffect(
                        "zero_optimization.ignore_unused_parameters",
                        FLAG,
                        "true",
                        "Parameters that the loss does not depend on get no gradient here, and octet train names"
                                + " them."),
                refused(
                        "zero_optimization.zero_quantized_nontrainable_weights",
                        FLAG,
                        "false",
                        "Frozen weights would be kept in 8 bits, which changes the losses; they stay in F32 here.",
                        "false"),
                refused(
                        "zero_optimization.grad_hooks",
                        FLAG,
                        "true",
                        "DeepSpeed documents it, but its code refuses the key: remove it."),
                refused(
                        "zero_optimization.zenflow.**",
                        ANY,
                        "",
                        "ZenFlow updates most weights later than their gradients, which changes the losses."),
                decided("zero_optimization.offload_param.device", TEXT, "none"),
                decided("zero_optimization.offload_param.nvme_path", TEXT, ""),
                noEffect("zero_optimization.offload_param.pin_memory", FLAG, "true", TUNING),
                noEffect("zero_optimization.offload_param.buffer_count", WHOLE, "5", TUNING),
                noEffect("zero_optimization.offload_param.buffer_size", NUMBER, "1e8", TUNING),
                noEffect("zero_optimization.offload_param.max_in_cpu", NUMBER, "1e9", TUNING),
                decided("zero_optimization.offload_optimizer.device", TEXT, "none"),
                decided("zero_optimization.offload_optimizer.nvme_path", TEXT, ""),
                noEffect("zero_optimization.offload_optimizer.pin_memory", FLAG, "true", TUNING),
                noEffect("zero_optimization.offload_optimizer.buffer_count", WHOLE, "4", TUNING),
                noEffect("zero_optimization.offload_optimizer.pipeline_read", FLAG, "false", TUNING),
                noEffect("zero_optimization.offload_optimizer.pipeline_write", FLAG, "false", TUNING),
                noEffect("zero_optimization.offload_optimizer.fast_init", FLAG, "false", TUNING),
                noEffect("zero_optimization.offload_optimizer.ratio", NUMBER, "1.0", TUNING),
                noEffect("zero_optimization.offload_optimizer.super_offload", FLAG, "false", TUNING),
                noEffect("zero_optimization.offload_optimizer.cpuadam_cores_perc", NUMBER, "0.8", TUNING),
                decided("zero_optimization.cpu_offload", FLAG, "false"),
                decided("zero_optimization.cpu_offload_param", FLAG, "false"),
                noEffect("zero_optimization.cpu_offload_use_pin_memory", FLAG, "false", TUNING),
                noEffect(
                        "zero_allow_untested_optimizer",
                        FLAG,
                        "false",
                        "It is a permission that DeepSpeed asks for; nothing here needs it."),
                noEffect(
                        "zero_force_ds_cpu_optimizer",
                        FLAG,
                        "true",
                        "It chooses between implementations of the same update."));
    }

    private static List<KeyRule> activations() {
        return List.of(
                decided("activation_checkpointing.partition_activations", FLAG, "false"),
                decided("activation_checkpointing.number_checkpoints", WHOLE, ""),
                decided("activation_checkpointing.cpu_checkpointing", FLAG, "false"),
                noEffect(
                        "activation_checkpointing.contiguous_memory_optimization",
                        FLAG,
                        "false",
                        "It lays memory out in another way and computes the same."),
                noEffect(
                        "activation_checkpointing.synchronize_checkpoint_boundary",
                        FLAG,
                        "false",
                        "It lays memory out in another way and computes the same."),
                noEffect("activation_checkpointing.profile", FLAG, "false", LOGS));
    }

    private static List<KeyRule> logs() {
        return List.of(
                noEffect("steps_per_print", WHOLE, "", LOGS),
                noEffect("wall_clock_breakdown", FLAG, "false", LOGS),
                noEffect("memory_breakdown", FLAG, "false", LOGS),
                noEffect("dump_state", FLAG, "false", LOGS),
                noEffect("log_level", TEXT, "", LOGS),
                noEffect("vocabulary_size", WHOLE, "", "DeepSpeed only warns where it is no multiple of 8."),
                noEffect(
                        "flops_profiler.enabled",
                        FLAG,
                        "false",
                        "It measures and does not change what is computed; OCTET_DEBUG=2 prints the time of each"
                                + " operator."),
                noEffect(
                        "flops_profiler.recompute_fwd_factor",
                        NUMBER,
                        "0.0",
                        "It measures and does not change what is computed; OCTET_DEBUG=2 prints the time of each"
                                + " operator."),
                noEffect(
                        "flops_profiler.profile_step",
                        WHOLE,
                        "1",
                        "It measures and does not change what is computed; OCTET_DEBUG=2 prints the time of each"
                                + " operator."),
                noEffect(
                        "flops_profiler.module_depth",
                        WHOLE,
                        "-1",
                        "It measures and does not change what is computed; OCTET_DEBUG=2 prints the time of each"
                                + " operator."),
                noEffect(
                        "flops_profiler.top_modules",
                        WHOLE,
                        "1",
                        "It measures and does not change what is computed; OCTET_DEBUG=2 prints the time of each"
                                + " operator."),
                noEffect(
                        "flops_profiler.detailed",
                        FLAG,
                        "true",
                        "It measures and does not change what is computed; OCTET_DEBUG=2 prints the time of each"
                                + " operator."),
                noEffect(
                        "flops_profiler.output_file",
                        TEXT,
                        "",
                        "It measures and does not change what is computed; OCTET_DEBUG=2 prints the time of each"
                                + " operator."),
                noEffect(
                        "tensorboard.enabled",
                        FLAG,
                        "false",
                        "A run always writes tensorboard/ and metrics.jsonl into its folder."),
                noEffect(
                        "tensorboard.output_path",
                        TEXT,
                        "",
                        "A run always writes tensorboard/ and metrics.jsonl into its folder."),
                noEffect(
                        "tensorboard.job_name",
                        TEXT,
                        "DeepSpeedJobName",
                        "A run always writes tensorboard/ and metrics.jsonl into its folder."),
                noEffect(
                        "csv_monitor.enabled",
                        FLAG,
                        "false",
                        "A run always writes tensorboard/ and metrics.jsonl into its folder."),
                noEffect(
                        "csv_monitor.output_path",
                        TEXT,
                        "",
                        "A run always writes tensorboard/ and metrics.jsonl into its folder."),
                noEffect(
                        "csv_monitor.job_name",
                        TEXT,
                        "DeepSpeedJobName",
                        "A run always writes tensorboard/ and metrics.jsonl into its folder."),
                noEffect(
                        "wandb.enabled",
                        FLAG,
                        "false",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect(
                        "wandb.group",
                        TEXT,
                        "",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect(
                        "wandb.team",
                        TEXT,
                        "",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect(
                        "wandb.project",
                        TEXT,
                        "deepspeed",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect(
                        "comet.enabled",
                        FLAG,
                        "false",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect(
                        "comet.samples_log_interval",
                        WHOLE,
                        "100",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect(
                        "comet.project",
                        TEXT,
                        "",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect(
                        "comet.workspace",
                        TEXT,
                        "",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect(
                        "comet.api_key",
                        TEXT,
                        "",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect(
                        "comet.experiment_name",
                        TEXT,
                        "",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect(
                        "comet.experiment_key",
                        TEXT,
                        "",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect(
                        "comet.online",
                        FLAG,
                        "",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect(
                        "comet.mode",
                        TEXT,
                        "",
                        "Nothing is sent to a service; metrics.jsonl and tensorboard/ in the run's folder have every"
                                + " step."),
                noEffect("comms_logger.enabled", FLAG, "false", ONE_PROCESS),
                noEffect("comms_logger.prof_all", FLAG, "true", ONE_PROCESS),
                noEffect("comms_logger.prof_ops", LIST, "[]", ONE_PROCESS),
                noEffect("comms_logger.verbose", FLAG, "false", ONE_PROCESS),
                noEffect("comms_logger.debug", FLAG, "false", ONE_PROCESS),
                noEffect("timers.throughput.enabled", FLAG, "true", LOGS),
                noEffect("timers.throughput.synchronized", FLAG, "true", LOGS));
    }

    private static List<KeyRule> files() {
        return List.of(
                noEffect("aio.block_size", WHOLE, "1048576", TUNING),
                noEffect("aio.queue_depth", WHOLE, "8", TUNING),
                noEffect("aio.intra_op_parallelism", WHOLE, "1", TUNING),
                noEffect("aio.single_submit", FLAG, "false", TUNING),
                noEffect("aio.overlap_events", FLAG, "true", TUNING),
                noEffect("aio.use_gds", FLAG, "false", TUNING),
                noEffect("aio.thread_count", WHOLE, "1", TUNING),
                noEffect(
                        "checkpoint.tag_validation",
                        TEXT,
                        "Warn",
                        "It is about checkpoints of DeepSpeed; those of a run here hold F32 weights and all states."),
                noEffect(
                        "checkpoint.load_universal",
                        FLAG,
                        "false",
                        "It is about checkpoints of DeepSpeed; those of a run here hold F32 weights and all states."),
                noEffect(
                        "checkpoint.use_node_local_storage",
                        FLAG,
                        "false",
                        "It is about checkpoints of DeepSpeed; those of a run here hold F32 weights and all states."),
                noEffect(
                        "checkpoint.parallel_write.pipeline_stage",
                        FLAG,
                        "false",
                        "It is about checkpoints of DeepSpeed; those of a run here hold F32 weights and all states."),
                noEffect(
                        "checkpoint.checkpoint_serialization",
                        FLAG,
                        "true",
                        "It is about checkpoints of DeepSpeed; those of a run here hold F32 weights and all states."),
                noEffect(
                        "checkpoint.writer.**",
                        ANY,
                        "",
                        "It is about checkpoints of DeepSpeed; those of a run here hold F32 weights and all states."),
                noEffect(
                        "nebula.enabled",
                        FLAG,
                        "false",
                        "It is a service that keeps checkpoints; those of a run lie in its folder."),
                noEffect(
                        "nebula.enable_nebula_load",
                        FLAG,
                        "true",
                        "It is a service that keeps checkpoints; those of a run lie in its folder."),
                noEffect(
                        "nebula.load_path",
                        TEXT,
                        "",
                        "It is a service that keeps checkpoints; those of a run lie in its folder."),
                noEffect(
                        "nebula.nebula_load_path",
                        TEXT,
                        "",
                        "It is a service that keeps checkpoints; those of a run lie in its folder."),
                noEffect(
                        "nebula.persistent_storage_path",
                        TEXT,
                        "",
                        "It is a service that keeps checkpoints; those of a run lie in its folder."),
                noEffect(
                        "nebula.persistent_time_interval",
                        WHOLE,
                        "100",
                        "It is a service that keeps checkpoints; those of a run lie in its folder."),
                noEffect(
                        "nebula.num_of_version_in_retention",
                        WHOLE,
                        "2",
                        "It is a service that keeps checkpoints; those of a run lie in its folder."),
                noEffect(
                        "datastates_ckpt.**",
                        ANY,
                        "",
                        "It is a service that keeps checkpoints; those of a run lie in its folder."),
                noEffect(
                        "dataloader_drop_last",
                        FLAG,
                        "false",
                        "Every batch here is full; samples that do not fill one come first in the next epoch."));
    }

    private static List<KeyRule> execution() {
        return List.of(
                noEffect("graph_harvesting", FLAG, "false", "It lays memory out in another way and computes the same."),
                noEffect(
                        "compile.deepcompile",
                        FLAG,
                        "false",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.free_activation",
                        FLAG,
                        "false",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.free_activation_threshold",
                        WHOLE,
                        "10485760",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.offload_activation",
                        FLAG,
                        "false",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.offload_activation_pin_memory",
                        FLAG,
                        "true",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.offload_opt_states",
                        FLAG,
                        "false",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.double_buffer",
                        FLAG,
                        "true",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.symmetric_memory",
                        FLAG,
                        "false",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.debug_log",
                        FLAG,
                        "false",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.offload_parameters",
                        FLAG,
                        "false",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.sync_before_reduce",
                        FLAG,
                        "false",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.sync_after_reduce",
                        FLAG,
                        "false",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.sync_before_allgather",
                        FLAG,
                        "false",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.sync_after_allgather",
                        FLAG,
                        "false",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.keep_int_input_tensors",
                        FLAG,
                        "true",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.keep_all_input_tensors",
                        FLAG,
                        "false",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect(
                        "compile.passes",
                        LIST,
                        "",
                        "It compiles the same computation; programs here are compiled in any case."),
                noEffect("pipeline.stages", ANY, "auto", ONE_PROCESS),
                noEffect("pipeline.partition", TEXT, "best", ONE_PROCESS),
                noEffect("pipeline.seed_layers", FLAG, "false", ONE_PROCESS),
                noEffect("pipeline.activation_checkpoint_interval", WHOLE, "0", ONE_PROCESS),
                noEffect("pipeline.pipe_partitioned", FLAG, "true", ONE_PROCESS),
                noEffect("pipeline.grad_partitioned", FLAG, "true", ONE_PROCESS),
                noEffect("pipeline.use_reentrant", FLAG, "true", ONE_PROCESS),
                refused(
                        "tensor_parallel.autotp_size",
                        WHOLE,
                        "0",
                        "It splits each layer over several processes, and there is one.",
                        "0",
                        "1"),
                refused(
                        "tensor_parallel.tensor_parallel.tp_size",
                        WHOLE,
                        "1",
                        "It splits each layer over several processes, and there is one.",
                        "0",
                        "1"),
                refused(
                        "tensor_parallel.tp.tp_size",
                        WHOLE,
                        "1",
                        "It splits each layer over several processes, and there is one.",
                        "0",
                        "1"),
                noEffect("tensor_parallel.dtype", TEXT, "", ONE_PROCESS),
                noEffect("tensor_parallel.tp_overlap_comm", FLAG, "false", ONE_PROCESS),
                noEffect("tensor_parallel.tensor_parallel.tp_grain_size", WHOLE, "1", ONE_PROCESS),
                noEffect("tensor_parallel.tp.tp_grain_size", WHOLE, "1", ONE_PROCESS),
                noEffect("tensor_parallel.injection_policy_tuple", ANY, "", ONE_PROCESS),
                noEffect("tensor_parallel.partition_config", ANY, "", ONE_PROCESS),
                noEffect("tensor_parallel.preset_model", TEXT, "", ONE_PROCESS),
                noEffect("tensor_parallel.keep_module_on_host", FLAG, "false", ONE_PROCESS),
                noEffect("tensor_parallel.replace_with_kernel_inject", FLAG, "false", ONE_PROCESS),
                noEffect("tensor_parallel.kernel_inject", FLAG, "false", ONE_PROCESS),
                refused(
                        "sequence_parallel_size",
                        WHOLE,
                        "1",
                        "It splits each sequence over several processes, and there is one.",
                        "1"),
                noEffect("use_data_before_expert_parallelism", FLAG, "false", ONE_PROCESS),
                noEffect("data_parallel_group", ANY, "", ONE_PROCESS));
    }

    private static List<KeyRule> features() {
        return List.of(
                feature("expert_parallel.enabled", FLAG, "false", EXPERTS),
                feature("expert_parallel.autoep_size", WHOLE, "1", EXPERTS),
                feature("expert_parallel.expert_tensor_parallel_size", WHOLE, "1", EXPERTS),
                feature("expert_parallel.validate_folding_routing", FLAG, "false", EXPERTS),
                feature("expert_parallel.preset_model", TEXT, "", EXPERTS),
                feature("expert_parallel.moe_layer_pattern", TEXT, "", EXPERTS),
                feature("expert_parallel.expert_pattern", TEXT, "", EXPERTS),
                feature("expert_parallel.router_pattern", TEXT, "", EXPERTS),
                feature("expert_parallel.use_grouped_mm", FLAG, "true", EXPERTS),
                feature("expert_parallel.disable_triton_grouped_mm", FLAG, "false", EXPERTS),
                feature("expert_parallel.route_norm", ANY, "", EXPERTS),
                feature("expert_parallel.route_scale", NUMBER, "1.0", EXPERTS),
                feature("expert_parallel.score_apply", TEXT, "", EXPERTS),
                feature("expert_parallel.combine_impl", TEXT, "", EXPERTS),
                feature("expert_parallel.num_expert_groups", WHOLE, "", EXPERTS),
                feature("expert_parallel.num_limited_groups", WHOLE, "", EXPERTS),
                feature("expert_parallel.score_func", TEXT, "", EXPERTS),
                feature("expert_parallel.top_k", ANY, "", EXPERTS),
                feature("expert_parallel.load_balance_coeff", ANY, "", EXPERTS),
                feature("expert_parallel.routed_scaling_factor", ANY, "", EXPERTS),
                feature("expert_parallel.expert_w1", TEXT, "", EXPERTS),
                feature("expert_parallel.expert_w2", TEXT, "", EXPERTS),
                feature("expert_parallel.expert_w3", TEXT, "", EXPERTS),
                feature("expert_parallel.num_experts_attr", TEXT, "", EXPERTS),
                feature("expert_parallel.top_k_attr", TEXT, "", EXPERTS),
                feature("expert_parallel.has_shared_experts", ANY, "", EXPERTS),
                feature("expert_parallel.shared_experts_pattern", TEXT, "", EXPERTS),
                feature("expert_parallel.shared_experts_gate_pattern", TEXT, "", EXPERTS),
                refused(
                        "sparse_attention.mode",
                        TEXT,
                        "fixed",
                        "Attention here is the model's own; blocks of it are not left out."),
                refused(
                        "sparse_attention.block",
                        WHOLE,
                        "16",
                        "Attention here is the model's own; blocks of it are not left out."),
                refused(
                        "sparse_attention.different_layout_per_head",
                        FLAG,
                        "false",
                        "Attention here is the model's own; blocks of it are not left out."),
                refused(
                        "sparse_attention.num_local_blocks",
                        WHOLE,
                        "4",
                        "Attention here is the model's own; blocks of it are not left out."),
                refused(
                        "sparse_attention.num_global_blocks",
                        WHOLE,
                        "1",
                        "Attention here is the model's own; blocks of it are not left out."),
                refused(
                        "sparse_attention.attention",
                        TEXT,
                        "bidirectional",
                        "Attention here is the model's own; blocks of it are not left out."),
                refused(
                        "sparse_attention.horizontal_global_attention",
                        FLAG,
                        "false",
                        "Attention here is the model's own; blocks of it are not left out."),
                refused(
                        "sparse_attention.num_different_global_patterns",
                        WHOLE,
                        "1",
                        "Attention here is the model's own; blocks of it are not left out."),
                refused(
                        "sparse_attention.num_random_blocks",
                        WHOLE,
                        "0",
                        "Attention here is the model's own; blocks of it are not left out."),
                refused(
                        "sparse_attention.local_window_blocks",
                        LIST,
                        "[4]",
                        "Attention here is the model's own; blocks of it are not left out."),
                refused(
                        "sparse_attention.global_block_indices",
                        LIST,
                        "[0]",
                        "Attention here is the model's own; blocks of it are not left out."),
                refused(
                        "sparse_attention.global_block_end_indices",
                        LIST,
                        "",
                        "Attention here is the model's own; blocks of it are not left out."),
                refused(
                        "sparse_attention.num_sliding_window_blocks",
                        WHOLE,
                        "3",
                        "Attention here is the model's own; blocks of it are not left out."),
                feature("hybrid_engine.enabled", FLAG, "false", HYBRID),
                feature("hybrid_engine.max_out_tokens", WHOLE, "512", HYBRID),
                feature("hybrid_engine.inference_tp_size", WHOLE, "1", HYBRID),
                feature("hybrid_engine.release_inference_cache", FLAG, "false", HYBRID),
                feature("hybrid_engine.pin_parameters", FLAG, "true", HYBRID),
                feature("hybrid_engine.tp_gather_partition_size", WHOLE, "8", HYBRID),
                feature("hybrid_engine.enable_cuda_graph", FLAG, "false", HYBRID),
                feature("elasticity.enabled", FLAG, "false", ELASTIC),
                feature("elasticity.max_train_batch_size", WHOLE, "2000", ELASTIC),
                feature("elasticity.micro_batch_sizes", LIST, "[2, 4, 6]", ELASTIC),
                feature("elasticity.min_gpus", WHOLE, "1", ELASTIC),
                feature("elasticity.max_gpus", WHOLE, "10000", ELASTIC),
                feature("elasticity.min_time", WHOLE, "0", ELASTIC),
                feature("elasticity.prefer_larger_batch", FLAG, "true", ELASTIC),
                feature("elasticity.ignore_non_elastic_batch_info", FLAG, "false", ELASTIC),
                feature("elasticity.version", NUMBER, "0.2", ELASTIC),
                feature("elasticity.model_parallel_size", WHOLE, "1", ELASTIC),
                feature("elasticity.num_gpus_per_node", WHOLE, "1", ELASTIC),
                feature("autotuning.enabled", FLAG, "false", AUTOTUNING),
                feature("autotuning.fast", FLAG, "true", AUTOTUNING),
                feature("autotuning.results_dir", TEXT, "autotuning_results", AUTOTUNING),
                feature("autotuning.exps_dir", TEXT, "autotuning_exps", AUTOTUNING),
                feature("autotuning.overwrite", FLAG, "true", AUTOTUNING),
                feature("autotuning.start_profile_step", WHOLE, "3", AUTOTUNING),
                feature("autotuning.end_profile_step", WHOLE, "5", AUTOTUNING),
                feature("autotuning.metric_path", TEXT, "", AUTOTUNING),
                feature("autotuning.metric", TEXT, "throughput", AUTOTUNING),
                feature("autotuning.tuner_type", TEXT, "gridsearch", AUTOTUNING),
                feature("autotuning.tuner_early_stopping", WHOLE, "5", AUTOTUNING),
                feature("autotuning.tuner_num_trials", WHOLE, "50", AUTOTUNING),
                feature("autotuning.arg_mappings.**", ANY, "", AUTOTUNING),
                feature("autotuning.max_train_batch_size", WHOLE, "", AUTOTUNING),
                feature("autotuning.min_train_batch_size", WHOLE, "1", AUTOTUNING),
                feature("autotuning.max_train_micro_batch_size_per_gpu", WHOLE, "1024", AUTOTUNING),
                feature("autotuning.min_train_micro_batch_size_per_gpu", WHOLE, "1", AUTOTUNING),
                feature("autotuning.num_tuning_micro_batch_sizes", WHOLE, "3", AUTOTUNING),
                feature("autotuning.mp_size", WHOLE, "1", AUTOTUNING),
                feature("autotuning.model_info_path", TEXT, "", AUTOTUNING),
                feature("autotuning.model_info.**", ANY, "", AUTOTUNING),
                feature("progressive_layer_drop.enabled", FLAG, "false", LAYER_DROP),
                feature("progressive_layer_drop.theta", NUMBER, "1.0", LAYER_DROP),
                feature("progressive_layer_drop.gamma", NUMBER, "0.001", LAYER_DROP),
                feature("curriculum_learning.enabled", FLAG, "false", CURRICULUM),
                feature("curriculum_learning.curriculum_type", TEXT, "seqlen", CURRICULUM),
                feature("curriculum_learning.min_difficulty", WHOLE, "8", CURRICULUM),
                feature("curriculum_learning.max_difficulty", WHOLE, "1024", CURRICULUM),
                feature("curriculum_learning.schedule_type", TEXT, "fixed_linear", CURRICULUM),
                feature("curriculum_learning.schedule_config.total_curriculum_step", WHOLE, "40000", CURRICULUM),
                feature("curriculum_learning.schedule_config.difficulty_step", WHOLE, "8", CURRICULUM),
                feature("curriculum_learning.schedule_config.root_degree", WHOLE, "", CURRICULUM),
                feature("curriculum_learning.schedule_config.difficulty", LIST, "", CURRICULUM),
                feature("curriculum_learning.schedule_config.max_step", LIST, "", CURRICULUM),
                feature("data_efficiency.enabled", FLAG, "false", DATA_EFFICIENCY),
                feature("data_efficiency.seed", WHOLE, "1234", DATA_EFFICIENCY),
                feature("data_efficiency.data_sampling.enabled", FLAG, "false", DATA_EFFICIENCY),
                feature("data_efficiency.data_sampling.num_epochs", WHOLE, "1000", DATA_EFFICIENCY),
                feature("data_efficiency.data_sampling.num_workers", WHOLE, "0", DATA_EFFICIENCY),
                feature("data_efficiency.data_sampling.pin_memory", FLAG, "false", DATA_EFFICIENCY),
                feature("data_efficiency.data_sampling.curriculum_learning.enabled", FLAG, "false", DATA_EFFICIENCY),
                feature(
                        "data_efficiency.data_sampling.curriculum_learning.data_cluster_path",
                        TEXT,
                        "",
                        DATA_EFFICIENCY),
                feature(
                        "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.**",
                        ANY,
                        "",
                        DATA_EFFICIENCY),
                feature("data_efficiency.data_sampling.dynamic_batching.enabled", FLAG, "false", DATA_EFFICIENCY),
                feature("data_efficiency.data_sampling.dynamic_batching.metrics_path", TEXT, "", DATA_EFFICIENCY),
                feature(
                        "data_efficiency.data_sampling.dynamic_batching.lr_scaling_method",
                        TEXT,
                        "linear",
                        DATA_EFFICIENCY),
                feature("data_efficiency.data_sampling.dynamic_batching.min_batch_size", WHOLE, "1", DATA_EFFICIENCY),
                feature("data_efficiency.data_sampling.dynamic_batching.max_batch_size", WHOLE, "", DATA_EFFICIENCY),
                feature(
                        "data_efficiency.data_sampling.dynamic_batching.sequence_picking_order",
                        TEXT,
                        "dataloader",
                        DATA_EFFICIENCY),
                feature("data_efficiency.data_sampling.dynamic_batching.max_tokens", WHOLE, "", DATA_EFFICIENCY),
                feature("data_efficiency.data_sampling.dynamic_batching.verbose", FLAG, "false", DATA_EFFICIENCY),
                feature("data_efficiency.data_routing.enabled", FLAG, "false", DATA_EFFICIENCY),
                feature("data_efficiency.data_routing.random_ltd.enabled", FLAG, "false", DATA_EFFICIENCY),
                feature("data_efficiency.data_routing.random_ltd.total_layer_num", WHOLE, "", DATA_EFFICIENCY),
                feature("data_efficiency.data_routing.random_ltd.random_ltd_layer_num", WHOLE, "", DATA_EFFICIENCY),
                feature("data_efficiency.data_routing.random_ltd.random_ltd_layer_id", LIST, "", DATA_EFFICIENCY),
                feature("data_efficiency.data_routing.random_ltd.model_mask_name", TEXT, "", DATA_EFFICIENCY),
                feature("data_efficiency.data_routing.random_ltd.model_type", TEXT, "", DATA_EFFICIENCY),
                feature("data_efficiency.data_routing.random_ltd.hidden_state_order", TEXT, "", DATA_EFFICIENCY),
                feature("data_efficiency.data_routing.random_ltd.micro_batch_size", WHOLE, "", DATA_EFFICIENCY),
                feature("data_efficiency.data_routing.random_ltd.global_batch_size", WHOLE, "", DATA_EFFICIENCY),
                feature("data_efficiency.data_routing.random_ltd.random_ltd_schedule.**", ANY, "", DATA_EFFICIENCY),
                feature("data_efficiency.data_routing.random_ltd.layer_token_lr_schedule.**", ANY, "", DATA_EFFICIENCY),
                feature(
                        "compression_training.weight_quantization.shared_parameters.enabled",
                        FLAG,
                        "false",
                        WEIGHT_QUANTIZATION),
                feature(
                        "compression_training.weight_quantization.shared_parameters.quantizer_kernel",
                        FLAG,
                        "false",
                        WEIGHT_QUANTIZATION),
                feature(
                        "compression_training.weight_quantization.shared_parameters.schedule_offset",
                        WHOLE,
                        "0",
                        WEIGHT_QUANTIZATION),
                feature(
                        "compression_training.weight_quantization.shared_parameters.quantize_groups",
                        WHOLE,
                        "1",
                        WEIGHT_QUANTIZATION),
                feature(
                        "compression_training.weight_quantization.shared_parameters.quantize_verbose",
                        FLAG,
                        "false",
                        WEIGHT_QUANTIZATION),
                feature(
                        "compression_training.weight_quantization.shared_parameters.quantization_type",
                        TEXT,
                        "symmetric",
                        WEIGHT_QUANTIZATION),
                feature(
                        "compression_training.weight_quantization.shared_parameters.rounding",
                        TEXT,
                        "nearest",
                        WEIGHT_QUANTIZATION),
                feature(
                        "compression_training.weight_quantization.shared_parameters.quantize_weight_in_forward",
                        FLAG,
                        "false",
                        WEIGHT_QUANTIZATION),
                feature(
                        "compression_training.weight_quantization.shared_parameters.fp16_mixed_quantize.enabled",
                        FLAG,
                        "false",
                        WEIGHT_QUANTIZATION),
                feature(
                        "compression_training.weight_quantization.shared_parameters.fp16_mixed_quantize.quantize_change_ratio",
                        NUMBER,
                        "0.001",
                        WEIGHT_QUANTIZATION),
                feature("compression_training.weight_quantization.different_groups.**", ANY, "", WEIGHT_QUANTIZATION),
                feature(
                        "compression_training.activation_quantization.shared_parameters.enabled",
                        FLAG,
                        "false",
                        ACTIVATION_QUANTIZATION),
                feature(
                        "compression_training.activation_quantization.shared_parameters.quantization_type",
                        TEXT,
                        "symmetric",
                        ACTIVATION_QUANTIZATION),
                feature(
                        "compression_training.activation_quantization.shared_parameters.range_calibration",
                        TEXT,
                        "dynamic",
                        ACTIVATION_QUANTIZATION),
                feature(
                        "compression_training.activation_quantization.shared_parameters.schedule_offset",
                        WHOLE,
                        "1000",
                        ACTIVATION_QUANTIZATION),
                feature(
                        "compression_training.activation_quantization.different_groups.**",
                        ANY,
                        "",
                        ACTIVATION_QUANTIZATION),
                feature("compression_training.sparse_pruning.shared_parameters.enabled", FLAG, "false", SPARSE_PRUNING),
                feature(
                        "compression_training.sparse_pruning.shared_parameters.schedule_offset",
                        WHOLE,
                        "1000",
                        SPARSE_PRUNING),
                feature(
                        "compression_training.sparse_pruning.shared_parameters.schedule_offset_end",
                        WHOLE,
                        "1000",
                        SPARSE_PRUNING),
                feature(
                        "compression_training.sparse_pruning.shared_parameters.schedule_offset_stride",
                        WHOLE,
                        "1",
                        SPARSE_PRUNING),
                feature("compression_training.sparse_pruning.shared_parameters.method", TEXT, "l1", SPARSE_PRUNING),
                feature(
                        "compression_training.sparse_pruning.shared_parameters.block_pattern",
                        TEXT,
                        "4x1",
                        SPARSE_PRUNING),
                feature(
                        "compression_training.sparse_pruning.shared_parameters.dense_ratio",
                        NUMBER,
                        "0.1",
                        SPARSE_PRUNING),
                feature(
                        "compression_training.sparse_pruning.shared_parameters.excluded_modules",
                        LIST,
                        "[]",
                        SPARSE_PRUNING),
                feature("compression_training.sparse_pruning.different_groups.**", ANY, "", SPARSE_PRUNING),
                feature("compression_training.row_pruning.shared_parameters.enabled", FLAG, "false", ROW_PRUNING),
                feature(
                        "compression_training.row_pruning.shared_parameters.schedule_offset",
                        WHOLE,
                        "1000",
                        ROW_PRUNING),
                feature("compression_training.row_pruning.shared_parameters.method", TEXT, "l1", ROW_PRUNING),
                feature("compression_training.row_pruning.different_groups.**", ANY, "", ROW_PRUNING),
                feature("compression_training.head_pruning.shared_parameters.enabled", FLAG, "false", HEAD_PRUNING),
                feature(
                        "compression_training.head_pruning.shared_parameters.schedule_offset",
                        WHOLE,
                        "1000",
                        HEAD_PRUNING),
                feature("compression_training.head_pruning.shared_parameters.method", TEXT, "topk", HEAD_PRUNING),
                feature("compression_training.head_pruning.shared_parameters.num_heads", WHOLE, "", HEAD_PRUNING),
                feature("compression_training.head_pruning.different_groups.**", ANY, "", HEAD_PRUNING),
                feature(
                        "compression_training.channel_pruning.shared_parameters.enabled",
                        FLAG,
                        "false",
                        CHANNEL_PRUNING),
                feature(
                        "compression_training.channel_pruning.shared_parameters.schedule_offset",
                        WHOLE,
                        "1000",
                        CHANNEL_PRUNING),
                feature("compression_training.channel_pruning.shared_parameters.method", TEXT, "l1", CHANNEL_PRUNING),
                feature("compression_training.channel_pruning.different_groups.**", ANY, "", CHANNEL_PRUNING),
                feature("compression_training.layer_reduction.enabled", FLAG, "false", LAYER_REDUCTION),
                feature("compression_training.layer_reduction.keep_number_layer", WHOLE, "", LAYER_REDUCTION),
                feature("compression_training.layer_reduction.module_name_prefix", TEXT, "", LAYER_REDUCTION),
                feature("compression_training.layer_reduction.teacher_layer", LIST, "", LAYER_REDUCTION),
                feature("compression_training.layer_reduction.other_module_name", LIST, "", LAYER_REDUCTION),
                feature("quantize_training.enabled", FLAG, "false", MOQ),
                feature("quantize_training.quantize_verbose", FLAG, "false", MOQ),
                feature("quantize_training.quantizer_kernel", FLAG, "false", MOQ),
                feature("quantize_training.quantize_type", TEXT, "symmetric", MOQ),
                feature("quantize_training.quantize_bits.**", ANY, "", MOQ),
                feature("quantize_training.quantize_schedule.**", ANY, "", MOQ),
                feature("quantize_training.quantize_groups", WHOLE, "1", MOQ),
                feature("quantize_training.quantize_algo.**", ANY, "", MOQ),
                feature("quantize_training.fp16_mixed_quantize.**", ANY, "", MOQ),
                feature("quantize_training.eigenvalue.**", ANY, "", MOQ),
                noEffect("eigenvalue.enabled", FLAG, "false", "DeepSpeed reads it only inside quantize_training."),
                noEffect("eigenvalue.verbose", FLAG, "false", "DeepSpeed reads it only inside quantize_training."),
                noEffect("eigenvalue.max_iter", WHOLE, "100", "DeepSpeed reads it only inside quantize_training."),
                noEffect("eigenvalue.tol", NUMBER, "1e-2", "DeepSpeed reads it only inside quantize_training."),
                noEffect("eigenvalue.stability", NUMBER, "1e-6", "DeepSpeed reads it only inside quantize_training."),
                noEffect(
                        "eigenvalue.gas_boundary_resolution",
                        WHOLE,
                        "1",
                        "DeepSpeed reads it only inside quantize_training."),
                noEffect(
                        "eigenvalue.layer_name",
                        TEXT,
                        "bert.encoder.layer",
                        "DeepSpeed reads it only inside quantize_training."),
                noEffect("eigenvalue.layer_num", WHOLE, "0", "DeepSpeed reads it only inside quantize_training."),
                refused(
                        "weight_quantization.**",
                        ANY,
                        "",
                        "Weights would be kept in few bits for inference; octet quantize does that to a trained"
                                + " model."));
    }
}
