package dev.octet.trainer.dialect;

import static dev.octet.trainer.dialect.KeyRule.decided;
import static dev.octet.trainer.dialect.KeyRule.noEffect;
import static dev.octet.trainer.dialect.KeyRule.refused;
import static dev.octet.trainer.dialect.KeyType.ANY;
import static dev.octet.trainer.dialect.KeyType.FLAG;
import static dev.octet.trainer.dialect.KeyType.LIST;
import static dev.octet.trainer.dialect.KeyType.TEXT;
import static dev.octet.trainer.dialect.KeyType.WHOLE;

import java.util.List;

/** Rows of DeepSpeed's keys about how a step is executed. */
final class DeepSpeedExecutionKeys {
    private DeepSpeedExecutionKeys() {}

    static List<KeyRule> rows() {
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
                decided("pipeline.stages", ANY, "auto"),
                noEffect("pipeline.partition", TEXT, "best", DeepSpeedKeys.ONE_PROCESS),
                noEffect("pipeline.seed_layers", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("pipeline.activation_checkpoint_interval", WHOLE, "0", DeepSpeedKeys.ONE_PROCESS),
                noEffect("pipeline.pipe_partitioned", FLAG, "true", DeepSpeedKeys.ONE_PROCESS),
                noEffect("pipeline.grad_partitioned", FLAG, "true", DeepSpeedKeys.ONE_PROCESS),
                noEffect("pipeline.use_reentrant", FLAG, "true", DeepSpeedKeys.ONE_PROCESS),
                decided("tensor_parallel.autotp_size", WHOLE, "0"),
                decided("tensor_parallel.tensor_parallel.tp_size", WHOLE, "1"),
                decided("tensor_parallel.tp.tp_size", WHOLE, "1"),
                noEffect("tensor_parallel.dtype", TEXT, "", DeepSpeedKeys.ONE_PROCESS),
                noEffect("tensor_parallel.tp_overlap_comm", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("tensor_parallel.tensor_parallel.tp_grain_size", WHOLE, "1", DeepSpeedKeys.ONE_PROCESS),
                noEffect("tensor_parallel.tp.tp_grain_size", WHOLE, "1", DeepSpeedKeys.ONE_PROCESS),
                noEffect("tensor_parallel.injection_policy_tuple", ANY, "", DeepSpeedKeys.ONE_PROCESS),
                noEffect("tensor_parallel.partition_config", ANY, "", DeepSpeedKeys.ONE_PROCESS),
                noEffect("tensor_parallel.preset_model", TEXT, "", DeepSpeedKeys.ONE_PROCESS),
                noEffect("tensor_parallel.keep_module_on_host", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("tensor_parallel.replace_with_kernel_inject", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("tensor_parallel.kernel_inject", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                refused(
                        "sequence_parallel_size",
                        WHOLE,
                        "1",
                        "Attention over sequences that processes share is not computed here.",
                        "1"),
                noEffect("use_data_before_expert_parallelism", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("data_parallel_group", ANY, "", DeepSpeedKeys.ONE_PROCESS));
    }
}
