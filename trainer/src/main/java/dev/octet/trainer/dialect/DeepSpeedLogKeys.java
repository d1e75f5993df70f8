package dev.octet.trainer.dialect;

import static dev.octet.trainer.dialect.KeyRule.noEffect;
import static dev.octet.trainer.dialect.KeyType.ANY;
import static dev.octet.trainer.dialect.KeyType.FLAG;
import static dev.octet.trainer.dialect.KeyType.LIST;
import static dev.octet.trainer.dialect.KeyType.NUMBER;
import static dev.octet.trainer.dialect.KeyType.TEXT;
import static dev.octet.trainer.dialect.KeyType.WHOLE;

import java.util.List;
import java.util.stream.Stream;

/** Rows of DeepSpeed's keys about logs, monitors, checkpoints and data files. */
final class DeepSpeedLogKeys {
    private DeepSpeedLogKeys() {}

    static List<KeyRule> rows() {
        return Stream.of(logs(), files()).flatMap(List::stream).toList();
    }

    private static List<KeyRule> logs() {
        return List.of(
                noEffect("steps_per_print", WHOLE, "", DeepSpeedKeys.LOGS),
                noEffect("wall_clock_breakdown", FLAG, "false", DeepSpeedKeys.LOGS),
                noEffect("memory_breakdown", FLAG, "false", DeepSpeedKeys.LOGS),
                noEffect("dump_state", FLAG, "false", DeepSpeedKeys.LOGS),
                noEffect("log_level", TEXT, "", DeepSpeedKeys.LOGS),
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
                noEffect("comms_logger.enabled", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("comms_logger.prof_all", FLAG, "true", DeepSpeedKeys.ONE_PROCESS),
                noEffect("comms_logger.prof_ops", LIST, "[]", DeepSpeedKeys.ONE_PROCESS),
                noEffect("comms_logger.verbose", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("comms_logger.debug", FLAG, "false", DeepSpeedKeys.ONE_PROCESS),
                noEffect("timers.throughput.enabled", FLAG, "true", DeepSpeedKeys.LOGS),
                noEffect("timers.throughput.synchronized", FLAG, "true", DeepSpeedKeys.LOGS));
    }

    private static List<KeyRule> files() {
        return List.of(
                noEffect("aio.block_size", WHOLE, "1048576", DeepSpeedKeys.TUNING),
                noEffect("aio.queue_depth", WHOLE, "8", DeepSpeedKeys.TUNING),
                noEffect("aio.intra_op_parallelism", WHOLE, "1", DeepSpeedKeys.TUNING),
                noEffect("aio.single_submit", FLAG, "false", DeepSpeedKeys.TUNING),
                noEffect("aio.overlap_events", FLAG, "true", DeepSpeedKeys.TUNING),
                noEffect("aio.use_gds", FLAG, "false", DeepSpeedKeys.TUNING),
                noEffect("aio.thread_count", WHOLE, "1", DeepSpeedKeys.TUNING),
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
}
