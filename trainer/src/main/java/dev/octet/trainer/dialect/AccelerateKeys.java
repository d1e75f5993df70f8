package dev.octet.trainer.dialect;

import static dev.octet.trainer.dialect.KeyRule.decided;
import static dev.octet.trainer.dialect.KeyRule.noEffect;
import static dev.octet.trainer.dialect.KeyRule.refused;
import static dev.octet.trainer.dialect.KeyType.ANY;
import static dev.octet.trainer.dialect.KeyType.FLAG;
import static dev.octet.trainer.dialect.KeyType.NUMBER;
import static dev.octet.trainer.dialect.KeyType.TEXT;
import static dev.octet.trainer.dialect.KeyType.WHOLE;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/**
 * Every key of the file that {@code accelerate config} writes: the fields of ClusterConfig and SageMakerConfig, and the options of {@code accelerate
 * launch} that its sections set (accelerate 1.15.0, commands/config/config_args.py and commands/launch.py). The launcher puts a prefix before
 * the keys of some sections unless they have it, so both spellings are rows. What becomes of the keys that are decided, {@link Accelerate} says.
 */
final class AccelerateKeys {
    private static final String PROCESSES = "It is about how processes find each other, and there is one.";
    private static final String TPU = "It is about starting processes on TPUs.";
    private static final String CLOUD = "Octet starts nothing in a cloud: run octet train on the machine itself.";
    private static final String COMPILER = "Octet plans the whole step itself; torch.compile does not take part.";
    private static final String SHARDS =
            "It says how processes split or move weights; what they compute does not depend on it.";
    private static final String PARALLEL = "Processes share neither experts nor contexts of attention here: write 1.";
    private static final String MODEL = "The model's own graph says it; Megatron's is not built here.";
    private static final String MEMORY = "It moves memory in another way and computes the same.";

    static final KeyTable ALL = new KeyTable(rows());

    private AccelerateKeys() {}

    private static List<KeyRule> rows() {
        List<KeyRule> rows = new ArrayList<>();
        rows.add(refused("compute_environment", TEXT, "LOCAL_MACHINE", CLOUD, "local_machine"));
        rows.add(decided("distributed_type", TEXT, "NO"));
        rows.add(decided("mixed_precision", TEXT, "no"));
        rows.add(decided("fp16", FLAG, "false"));
        rows.add(decided("num_processes", WHOLE, "1"));
        rows.add(noEffect("num_machines", WHOLE, "1", "num_processes counts the processes of all machines."));
        for (String key : List.of("machine_rank", "main_process_port")) {
            rows.add(noEffect(key, WHOLE, "", PROCESSES));
        }
        for (String key : List.of("main_process_ip", "rdzv_backend", "main_training_function")) {
            rows.add(noEffect(key, TEXT, "", PROCESSES));
        }
        rows.add(noEffect("same_network", FLAG, "false", PROCESSES));
        rows.add(noEffect("gpu_ids", ANY, "all", "octet train --device cuda:N chooses the device."));
        rows.add(decided("use_cpu", FLAG, "false"));
        rows.add(noEffect("debug", FLAG, "false", "It checks operations among processes."));
        rows.add(noEffect("enable_cpu_affinity", FLAG, "false", "Threads are shared out by octet train --threads."));
        rows.add(noEffect("downcast_bf16", FLAG, "no", TPU));
        for (String key : List.of("tpu_use_cluster", "tpu_use_sudo")) {
            rows.add(noEffect(key, FLAG, "false", TPU));
        }
        for (String key : List.of("tpu_name", "tpu_zone", "command_file", "commands", "tpu_vm", "tpu_env")) {
            rows.add(noEffect(key, ANY, "", TPU));
        }
        rows.add(noEffect("mpirun_config.mpirun_hostfile", TEXT, "", PROCESSES));
        dynamo(rows);
        fp8(rows);
        fsdp(rows);
        deepSpeed(rows);
        megatron(rows);
        parallelism(rows);
        sageMaker(rows);
        return rows;
    }

    /** A key in both spellings. */
    private static void both(
            List<KeyRule> rows, String section, String prefix, String name, Function<String, KeyRule> row) {
        rows.add(row.apply(section + "." + prefix + name));
        rows.add(row.apply(section + "." + name));
    }

    private static void dynamo(List<KeyRule> rows) {
        rows.add(noEffect("dynamo_backend", TEXT, "NO", COMPILER));
        for (String name : List.of("backend", "mode", "use_dynamic", "use_fullgraph", "use_regional_compilation")) {
            both(rows, "dynamo_config", "dynamo_", name, path -> noEffect(path, TEXT, "", COMPILER));
        }
    }

    private static void fp8(List<KeyRule> rows) {
        for (String name :
                List.of("backend", "opt_level", "optimization_level", "amax_compute_algo", "amax_compute_algorithm")) {
            both(rows, "fp8_config", "fp8_", name, path -> decided(path, TEXT, ""));
        }
        rows.add(decided("fp8_config.fp8_format", TEXT, "HYBRID"));
        rows.add(decided("fp8_config.format", TEXT, "HYBRID"));
        for (String name : List.of("margin", "interval", "amax_history_len", "amax_history_length")) {
            both(rows, "fp8_config", "fp8_", name, path -> decided(path, WHOLE, ""));
        }
        for (String name : List.of(
                "use_autocast_during_eval",
                "use_mxfp8_block_scaling",
                "enable_fsdp_float8_all_gather",
                "pad_inner_dim")) {
            both(rows, "fp8_config", "fp8_", name, path -> decided(path, FLAG, ""));
        }
        both(rows, "fp8_config", "fp8_", "override_linear_precision", path -> decided(path, ANY, ""));
    }

    private static void fsdp(List<KeyRule> rows) {
        for (String name : List.of(
                "version",
                "sharding_strategy",
                "reshard_after_forward",
                "auto_wrap_policy",
                "transformer_layer_cls_to_wrap",
                "min_num_params",
                "backward_prefetch",
                "forward_prefetch",
                "state_dict_type",
                "sync_module_states",
                "cpu_ram_efficient_loading",
                "use_orig_params",
                "limit_all_gathers",
                "ignored_modules")) {
            both(rows, "fsdp_config", "fsdp_", name, path -> noEffect(path, ANY, "", SHARDS));
        }
        both(
                rows,
                "fsdp_config",
                "fsdp_",
                "activation_checkpointing_offload",
                path -> noEffect(
                        path, FLAG, "false", "What is recomputed is not kept, so nothing of it is offloaded."));
        both(rows, "fsdp_config", "fsdp_", "offload_params", path -> decided(path, FLAG, "false"));
        both(rows, "fsdp_config", "fsdp_", "activation_checkpointing", path -> decided(path, FLAG, "false"));
    }

    private static void deepSpeed(List<KeyRule> rows) {
        String section = "deepspeed_config.";
        rows.add(decided(section + "deepspeed_config_file", TEXT, ""));
        rows.add(decided(section + "zero_stage", WHOLE, "2"));
        rows.add(decided(section + "gradient_accumulation_steps", ANY, "1"));
        rows.add(decided(section + "gradient_clipping", ANY, "1.0"));
        for (String name : List.of("offload_optimizer_device", "offload_param_device")) {
            rows.add(decided(section + name, TEXT, "none"));
        }
        for (String name : List.of("offload_optimizer_nvme_path", "offload_param_nvme_path")) {
            rows.add(decided(section + name, TEXT, ""));
        }
        for (String name : List.of("zero3_init_flag", "zero3_save_16bit_model")) {
            rows.add(noEffect(section + name, FLAG, "false", SHARDS));
        }
        rows.add(noEffect(
                section + "deepspeed_moe_layer_cls_names",
                TEXT,
                "",
                "It tells ZeRO 3 which modules not to split, and nothing is split."));
        for (String name : List.of(
                "deepspeed_hostfile",
                "deepspeed_exclusion_filter",
                "deepspeed_inclusion_filter",
                "deepspeed_multinode_launcher")) {
            rows.add(noEffect(section + name, TEXT, "", PROCESSES));
        }
    }

    private static void megatron(List<KeyRule> rows) {
        String prefix = "megatron_lm_config.megatron_lm_";
        for (String name : List.of("tp_degree", "pp_degree")) {
            rows.add(decided(prefix + name, WHOLE, "1"));
        }
        for (String name :
                List.of("expert_model_parallel_size", "expert_tensor_parallel_size", "context_parallel_size")) {
            rows.add(refused(prefix + name, WHOLE, "1", PARALLEL, "1"));
        }
        rows.add(decided(prefix + "sequence_parallelism", FLAG, "false"));
        rows.add(decided(prefix + "use_distributed_optimizer", FLAG, "false"));
        rows.add(noEffect(
                prefix + "decoder_last_pipeline_num_layers",
                WHOLE,
                "",
                "Layers are dealt out to stages by what each costs."));
        rows.add(decided(prefix + "gradient_clipping", NUMBER, "1.0"));
        rows.add(decided(prefix + "num_micro_batches", WHOLE, "1"));
        rows.add(decided(prefix + "recompute_activations", FLAG, "false"));
        for (String name : List.of("recompute_granularity", "recompute_method", "recompute_num_layers")) {
            rows.add(noEffect(
                    prefix + name,
                    ANY,
                    "",
                    "Recomputation here is by layer: write gradient_checkpointing for other choices."));
        }
        rows.add(decided(prefix + "optimizer_cpu_offload", FLAG, "false"));
        for (String name : List.of("overlap_cpu_optimizer_d2h_h2d", "use_custom_fsdp")) {
            rows.add(noEffect(prefix + name, FLAG, "false", MEMORY));
        }
        rows.add(refused(
                prefix + "use_precision_aware_optimizer",
                FLAG,
                "false",
                "Accelerate cannot say in which types; write optimizer: {states: {engine: te, ...}} instead.",
                "false",
                "no",
                "0"));
        for (String name : List.of("no_load_optim", "no_save_optim")) {
            rows.add(noEffect(prefix + name, FLAG, "false", "A checkpoint here always holds the optimizer's states."));
        }
        rows.add(refused(
                prefix + "eod_mask_loss",
                FLAG,
                "false",
                "Labels of the data say which positions count.",
                "false",
                "no",
                "0"));
        rows.add(noEffect(
                prefix + "calculate_per_token_loss",
                FLAG,
                "true",
                "A loss is the mean over the positions that count."));
        for (String name : List.of("attention_dropout", "hidden_dropout")) {
            rows.add(refused(prefix + name, NUMBER, "0.0", "Dropout is the identity here.", "0", "0.0"));
        }
        for (String name :
                List.of("attention_backend", "attention_softmax_in_fp32", "use_rotary_position_embeddings")) {
            rows.add(noEffect(prefix + name, ANY, "", MODEL));
        }
    }

    private static void parallelism(List<KeyRule> rows) {
        String prefix = "parallelism_config.parallelism_config_";
        for (String name : List.of("dp_replicate_size", "dp_shard_size", "tp_size")) {
            rows.add(decided(prefix + name, WHOLE, "1"));
        }
        for (String name : List.of("cp_size", "sp_size")) {
            rows.add(refused(prefix + name, WHOLE, "1", PARALLEL, "1"));
        }
        for (String name : List.of(
                "cp_backend",
                "cp_comm_strategy",
                "sp_backend",
                "sp_seq_length",
                "sp_seq_length_is_variable",
                "sp_attn_implementation")) {
            rows.add(noEffect(prefix + name, ANY, "", "It tunes parallelism that a run here does not have."));
        }
    }

    private static void sageMaker(List<KeyRule> rows) {
        for (String key : List.of(
                "ec2_instance_type",
                "iam_role_name",
                "image_uri",
                "profile",
                "region",
                "base_job_name",
                "pytorch_version",
                "transformers_version",
                "py_version",
                "sagemaker_inputs_file",
                "sagemaker_metrics_file")) {
            rows.add(noEffect(key, TEXT, "", CLOUD));
        }
        rows.add(noEffect("additional_args.**", ANY, "", CLOUD));
    }
}
