package dev.octet.trainer.dialect;

import static dev.octet.trainer.dialect.KeyRule.decided;
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

/** Rows of DeepSpeed's keys about memory: ZeRO, offload and activation checkpointing. */
final class DeepSpeedMemoryKeys {
    private DeepSpeedMemoryKeys() {}

    static List<KeyRule> rows() {
        return Stream.of(zero(), activations()).flatMap(List::stream).toList();
    }

    private static List<KeyRule> zero() {
        return List.of(
                decided("zero_optimization.stage", WHOLE, "0"),
                decided("zero_optimization", FLAG, "false"),
                noEffect("zero_optimization.contiguous_gradients", FLAG, "true", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.reduce_scatter", FLAG, "true", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.reduce_bucket_size", NUMBER, "5e8", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.use_multi_rank_bucket_allreduce", FLAG, "true", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.allgather_partitions", FLAG, "true", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.allgather_bucket_size", NUMBER, "5e8", DeepSpeedKeys.ONE_PROCESS),
                noEffect(
                        "zero_optimization.overlap_comm",
                        FLAG,
                        "",
                        "Gradients travel while backward computes, wherever that changes no number, whatever it"
                                + " says."),
                noEffect("zero_optimization.round_robin_gradients", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.zero_hpz_partition_size", WHOLE, "1", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.zero_quantized_weights", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.zero_quantized_gradients", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.zeropp_loco_param.**", ANY, "", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.mics_shard_size", WHOLE, "-1", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.mics_hierarchical_params_gather", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.stage3_prefetch_bucket_size", NUMBER, "5e7", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.prefetch_bucket_size", NUMBER, "5e7", DeepSpeedKeys.ONE_PROCESS),
                noEffect(
                        "zero_optimization.stage3_param_persistence_threshold",
                        NUMBER,
                        "1e5",
                        DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.param_persistence_threshold", NUMBER, "1e5", DeepSpeedKeys.ONE_PROCESS),
                noEffect(
                        "zero_optimization.stage3_model_persistence_threshold",
                        NUMBER,
                        "9223372036854775807",
                        DeepSpeedKeys.ONE_PROCESS),
                noEffect(
                        "zero_optimization.model_persistence_threshold",
                        NUMBER,
                        "9223372036854775807",
                        DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.stage3_max_live_parameters", NUMBER, "1e9", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.max_live_parameters", NUMBER, "1e9", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.stage3_max_reuse_distance", NUMBER, "1e9", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.max_reuse_distance", NUMBER, "1e9", DeepSpeedKeys.ONE_PROCESS),
                noEffect(
                        "zero_optimization.stage3_module_granularity_threshold",
                        NUMBER,
                        "0",
                        DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.module_granularity_threshold", NUMBER, "0", DeepSpeedKeys.ONE_PROCESS),
                noEffect(
                        "zero_optimization.stage3_use_all_reduce_for_fetch_params",
                        FLAG,
                        "false",
                        DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.use_all_reduce_for_fetch_params", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.stage3_allgather_sequential", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.allgather_sequential", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("zero_optimization.legacy_stage1", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("allgather_size", NUMBER, "5e8", DeepSpeedKeys.ONE_PROCESS),
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
                noEffect("zero_optimization.log_trace_cache_warnings", FLAG, "false", DeepSpeedKeys.LOGS),
                noEffect("zero_optimization.enable_sanity_checks", FLAG, "false", DeepSpeedKeys.LOGS),
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
                noEffect("zero_optimization.offload_param.pin_memory", FLAG, "true", DeepSpeedKeys.TUNING),
                noEffect("zero_optimization.offload_param.buffer_count", WHOLE, "5", DeepSpeedKeys.TUNING),
                noEffect("zero_optimization.offload_param.buffer_size", NUMBER, "1e8", DeepSpeedKeys.TUNING),
                noEffect("zero_optimization.offload_param.max_in_cpu", NUMBER, "1e9", DeepSpeedKeys.TUNING),
                decided("zero_optimization.offload_optimizer.device", TEXT, "none"),
                decided("zero_optimization.offload_optimizer.nvme_path", TEXT, ""),
                noEffect("zero_optimization.offload_optimizer.pin_memory", FLAG, "true", DeepSpeedKeys.TUNING),
                noEffect("zero_optimization.offload_optimizer.buffer_count", WHOLE, "4", DeepSpeedKeys.TUNING),
                noEffect("zero_optimization.offload_optimizer.pipeline_read", FLAG, "false", DeepSpeedKeys.TUNING),
                noEffect("zero_optimization.offload_optimizer.pipeline_write", FLAG, "false", DeepSpeedKeys.TUNING),
                noEffect("zero_optimization.offload_optimizer.fast_init", FLAG, "false", DeepSpeedKeys.TUNING),
                noEffect("zero_optimization.offload_optimizer.ratio", NUMBER, "1.0", DeepSpeedKeys.TUNING),
                noEffect("zero_optimization.offload_optimizer.super_offload", FLAG, "false", DeepSpeedKeys.TUNING),
                noEffect("zero_optimization.offload_optimizer.cpuadam_cores_perc", NUMBER, "0.8", DeepSpeedKeys.TUNING),
                decided("zero_optimization.cpu_offload", FLAG, "false"),
                decided("zero_optimization.cpu_offload_param", FLAG, "false"),
                noEffect("zero_optimization.cpu_offload_use_pin_memory", FLAG, "false", DeepSpeedKeys.TUNING),
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
                noEffect("activation_checkpointing.profile", FLAG, "false", DeepSpeedKeys.LOGS));
    }
}
