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

/**
 * Every field of transformers' TrainingArguments: those of version 5.18.0, and those that version 4 had and that were removed or renamed since. What
 * becomes of the keys that are decided, {@link TrainingArguments} says.
 */
final class TrainingArgumentsKeys {
    private static final String LOGS = "Every step is in metrics.jsonl; --log-every says which are printed.";
    private static final String HUB = "Octet sends nothing to a hub.";
    private static final String LOADER = "It is about how samples are loaded, not which.";
    private static final String COMPILER = "Octet plans the whole step itself; nothing is compiled by torch.";
    private static final String PROCESSES = "It is about several processes, and there is one.";
    private static final String EVALUATION =
            "It is about how an evaluation is collected; here only its loss is computed.";
    private static final String TRACKER =
            "It is about another program that keeps logs; the run's folder has tensorboard/.";
    private static final String DEVICE = "octet train --device chooses the device.";
    private static final String SAVED =
            "It is about how a checkpoint is written; one here holds all that a run needs to go on.";
    private static final String[] OFF = {"false", "no", "0", ""};

    static final KeyTable ALL = new KeyTable(rows());

    private TrainingArgumentsKeys() {}

    private static List<KeyRule> rows() {
        List<KeyRule> rows = new ArrayList<>();
        length(rows);
        optimizer(rows);
        precision(rows);
        memory(rows);
        logs(rows);
        evaluations(rows);
        checkpoints(rows);
        data(rows);
        processes(rows);
        return rows;
    }

    private static void none(List<KeyRule> rows, String reason, KeyType type, String... keys) {
        for (String key : keys) {
            rows.add(noEffect(key, type, "", reason));
        }
    }

    private static void length(List<KeyRule> rows) {
        rows.add(
                noEffect("output_dir", TEXT, "trainer_output", "The folder of the run is -o RUN on the command line."));
        rows.add(noEffect(
                "overwrite_output_dir", FLAG, "false", "A run never overwrites another; --force replaces its folder."));
        rows.add(decided("per_device_train_batch_size", WHOLE, "8"));
        rows.add(decided("per_gpu_train_batch_size", WHOLE, ""));
        rows.add(decided("gradient_accumulation_steps", WHOLE, "1"));
        rows.add(decided("num_train_epochs", NUMBER, "3.0"));
        rows.add(decided("max_steps", WHOLE, "-1"));
        rows.add(decided("seed", WHOLE, "42"));
        rows.add(decided("data_seed", WHOLE, ""));
        rows.add(noEffect("full_determinism", FLAG, "false", "Runs are deterministic in any case."));
        rows.add(refused(
                "auto_find_batch_size",
                FLAG,
                "false",
                "A batch size that depends on the machine's memory makes another run: give batch_size.",
                OFF));
        none(rows, "octet train trains, and evaluates where there is data.eval.", FLAG, "do_train", "do_eval");
        rows.add(noEffect("do_predict", FLAG, "false", "octet evaluate compares outputs."));
        rows.add(decided("resume_from_checkpoint", ANY, ""));
        rows.add(noEffect("ignore_data_skip", FLAG, "false", "A resumed run goes on at the next sample."));
        rows.add(noEffect(
                "restore_callback_states_from_checkpoint", FLAG, "false", "There are no callbacks of transformers."));
    }

    private static void optimizer(List<KeyRule> rows) {
        rows.add(decided("optim", TEXT, "adamw_torch_fused"));
        rows.add(decided("optim_args", TEXT, ""));
        rows.add(decided("adafactor", FLAG, "false"));
        rows.add(decided("learning_rate", NUMBER, "5e-5"));
        rows.add(decided("weight_decay", NUMBER, "0.0"));
        rows.add(decided("adam_beta1", NUMBER, "0.9"));
        rows.add(decided("adam_beta2", NUMBER, "0.999"));
        rows.add(decided("adam_epsilon", NUMBER, "1e-8"));
        rows.add(decided("max_grad_norm", NUMBER, "1.0"));
        rows.add(decided("lr_scheduler_type", TEXT, "linear"));
        rows.add(decided("lr_scheduler_kwargs", ANY, ""));
        rows.add(decided("warmup_steps", NUMBER, "0"));
        rows.add(decided("warmup_ratio", NUMBER, "0.0"));
        rows.add(refused(
                "optim_target_modules", ANY, "", "It chooses modules for GaLore and APOLLO, which are not here."));
        rows.add(decided("label_smoothing_factor", NUMBER, "0.0"));
        rows.add(refused(
                "neftune_noise_alpha",
                NUMBER,
                "",
                "It adds random noise to embeddings; a step here has no random numbers."));
    }

    private static void precision(List<KeyRule> rows) {
        rows.add(decided("bf16", FLAG, "false"));
        rows.add(decided("fp16", FLAG, "false"));
        rows.add(decided("fp16_opt_level", TEXT, "O1"));
        rows.add(decided("half_precision_backend", TEXT, "auto"));
        rows.add(decided("fp16_backend", TEXT, "auto"));
        rows.add(noEffect("tf32", FLAG, "", "Products of F32 are F32."));
        for (String key : List.of("bf16_full_eval", "fp16_full_eval")) {
            rows.add(refused(key, FLAG, "false", "Evaluations compute as training does.", OFF));
        }
        rows.add(noEffect("use_cpu", FLAG, "false", DEVICE));
        none(rows, DEVICE, FLAG, "no_cuda", "use_mps_device");
    }

    private static void memory(List<KeyRule> rows) {
        rows.add(decided("gradient_checkpointing", FLAG, "false"));
        rows.add(noEffect(
                "gradient_checkpointing_kwargs", ANY, "", "Recomputation here gives the same bits in any case."));
        none(rows, COMPILER, FLAG, "torch_compile", "use_liger_kernel", "jit_mode_eval", "use_ipex");
        none(rows, COMPILER, TEXT, "torch_compile_backend", "torch_compile_mode", "torchdynamo");
        none(rows, COMPILER, ANY, "liger_kernel_config");
        rows.add(noEffect("use_cache", FLAG, "false", "Training keeps no keys and values of earlier tokens."));
        rows.add(noEffect("torch_empty_cache_steps", WHOLE, "", "Memory is planned before the first step."));
        rows.add(
                noEffect("skip_memory_metrics", FLAG, "true", "memory_bytes of metrics.jsonl says what a step takes."));
    }

    private static void logs(List<KeyRule> rows) {
        none(rows, LOGS, TEXT, "logging_strategy", "log_level", "log_level_replica");
        none(rows, LOGS, NUMBER, "logging_steps");
        none(rows, LOGS, FLAG, "logging_first_step", "log_on_each_node", "logging_nan_inf_filter", "disable_tqdm");
        none(rows, LOGS, FLAG, "include_tokens_per_second");
        none(rows, LOGS, ANY, "include_num_input_tokens_seen", "logging_dir");
        none(rows, TRACKER, ANY, "report_to");
        none(rows, TRACKER, TEXT, "run_name", "project", "trackio_space_id", "trackio_bucket_id");
        none(rows, TRACKER, ANY, "trackio_static_space_id");
        none(rows, "It is about the memory of a debugger.", ANY, "debug");
    }

    private static void evaluations(List<KeyRule> rows) {
        rows.add(decided("eval_strategy", TEXT, "no"));
        rows.add(decided("evaluation_strategy", TEXT, "no"));
        rows.add(decided("evaluate_during_training", FLAG, "false"));
        rows.add(decided("eval_steps", NUMBER, ""));
        rows.add(noEffect(
                "per_device_eval_batch_size",
                WHOLE,
                "8",
                "Evaluations have the batch_size of training; their loss is the same."));
        rows.add(noEffect(
                "per_gpu_eval_batch_size",
                WHOLE,
                "",
                "Evaluations have the batch_size of training; their loss is the same."));
        rows.add(decided("eval_delay", NUMBER, "0"));
        rows.add(decided("eval_on_start", FLAG, "false"));
        none(
                rows,
                EVALUATION,
                FLAG,
                "prediction_loss_only",
                "eval_do_concat_batches",
                "eval_use_gather_object",
                "batch_eval_metrics",
                "include_inputs_for_metrics",
                "use_legacy_prediction_loop");
        none(rows, EVALUATION, ANY, "include_for_metrics", "eval_accumulation_steps");
        rows.add(decided("load_best_model_at_end", FLAG, "false"));
        rows.add(decided("metric_for_best_model", TEXT, ""));
        rows.add(decided("greater_is_better", FLAG, ""));
    }

    private static void checkpoints(List<KeyRule> rows) {
        rows.add(decided("save_strategy", TEXT, "steps"));
        rows.add(decided("save_steps", NUMBER, "500"));
        rows.add(decided("save_total_limit", WHOLE, ""));
        none(rows, SAVED, FLAG, "save_safetensors", "save_on_each_node", "save_only_model", "enable_jit_checkpoint");
        rows.add(refused("push_to_hub", FLAG, "false", HUB, OFF));
        none(rows, HUB, TEXT, "hub_token", "hub_model_id", "hub_strategy", "hub_revision");
        none(rows, HUB, FLAG, "hub_private_repo", "hub_always_push");
        none(rows, HUB, TEXT, "push_to_hub_model_id", "push_to_hub_organization", "push_to_hub_token");
    }

    private static void data(List<KeyRule> rows) {
        rows.add(noEffect(
                "dataloader_drop_last",
                FLAG,
                "false",
                "An epoch always has as many batches as its samples fill; a smaller one at its end is left out."));
        none(rows, LOADER, WHOLE, "dataloader_num_workers", "dataloader_prefetch_factor");
        none(rows, LOADER, FLAG, "dataloader_pin_memory", "dataloader_persistent_workers", "dataloader_in_order");
        none(rows, LOADER, TEXT, "dataloader_multiprocessing_context");
        none(rows, "Columns that the model has no input for are not read.", FLAG, "remove_unused_columns");
        none(rows, "It counts with samples grouped by length only.", TEXT, "length_column_name");
        rows.add(decided("label_names", ANY, ""));
        rows.add(decided("train_sampling_strategy", TEXT, "random"));
        rows.add(refused("group_by_length", FLAG, "false", "The order of samples follows from the seed alone.", OFF));
        rows.add(refused("past_index", WHOLE, "-1", "No state goes from one batch to the next.", "-1"));
        for (String key : List.of("split_batches", "accelerator_config.split_batches")) {
            rows.add(refused(key, FLAG, "false", "A batch here has the size that is given.", OFF));
        }
        rows.add(refused(
                "accelerator_config.use_configured_state",
                FLAG,
                "false",
                "There is no state that Python set up before.",
                OFF));
        none(
                rows,
                LOADER,
                FLAG,
                "accelerator_config.dispatch_batches",
                "accelerator_config.even_batches",
                "accelerator_config.use_seedable_sampler",
                "accelerator_config.non_blocking",
                "dispatch_batches");
        none(rows, "gradient_accumulation_steps says it.", ANY, "accelerator_config.gradient_accumulation_kwargs.**");
    }

    private static void processes(List<KeyRule> rows) {
        none(
                rows,
                PROCESSES,
                FLAG,
                "average_tokens_across_devices",
                "ddp_find_unused_parameters",
                "ddp_broadcast_buffers",
                "ddp_static_graph");
        none(
                rows,
                PROCESSES,
                WHOLE,
                "ddp_bucket_cap_mb",
                "ddp_timeout",
                "local_rank",
                "tpu_num_cores",
                "fsdp_min_num_params");
        none(
                rows,
                PROCESSES,
                TEXT,
                "ddp_backend",
                "xpu_backend",
                "mp_parameters",
                "ray_scope",
                "fsdp_transformer_layer_cls_to_wrap");
        none(rows, PROCESSES, ANY, "sharded_ddp", "fsdp", "tpu_metrics_debug");
        rows.add(decided("parallelism_config.tp_size", WHOLE, "1"));
        for (String name : List.of("cp_size", "sp_size")) {
            rows.add(refused(
                    "parallelism_config." + name,
                    WHOLE,
                    "1",
                    "Attention over sequences that processes share is not computed here.",
                    "1"));
        }
        rows.add(noEffect("parallelism_config.**", ANY, "", PROCESSES));
        rows.add(decided("fsdp_config.activation_checkpointing", FLAG, "false"));
        rows.add(noEffect("fsdp_config.**", ANY, "", PROCESSES));
        rows.add(decided("deepspeed", ANY, ""));
    }
}
