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

/**
 * Every key of DeepSpeed's JSON: those of its documentation (docs/_pages/config-json.md) and those that its code reads without documenting
 * them (deepspeed/runtime/config.py and the configuration of each part), at commit edaa722 of August 2026. Deprecated spellings are rows of
 * their own. What becomes of the keys that are decided, {@link DeepSpeed} says.
 */
final class DeepSpeedKeys {
    static final String ONE_PROCESS = "It says how processes share work; what they compute does not depend on it.";
    static final String LOGS = "It is about what is printed; metrics.jsonl has every step.";
    static final String TUNING = "It moves memory in another way and computes the same.";

    /** All rows. */
    static final KeyTable ALL = new KeyTable(Stream.of(
                    batch(),
                    optimizer(),
                    scheduler(),
                    torchScheduler(),
                    communication(),
                    numberTypes(),
                    DeepSpeedMemoryKeys.rows(),
                    DeepSpeedLogKeys.rows(),
                    DeepSpeedExecutionKeys.rows(),
                    DeepSpeedFeatureKeys.rows())
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

    /** Parameters of torch's schedules, which DeepSpeed takes by name where it has none of its own. */
    private static List<KeyRule> torchScheduler() {
        return List.of(
                decided("scheduler.params.step_size", WHOLE, ""),
                decided("scheduler.params.gamma", NUMBER, ""),
                decided("scheduler.params.milestones", LIST, ""),
                decided("scheduler.params.factor", NUMBER, "0.333"),
                decided("scheduler.params.total_iters", WHOLE, "5"),
                decided("scheduler.params.start_factor", NUMBER, "0.333"),
                decided("scheduler.params.end_factor", NUMBER, "1.0"),
                decided("scheduler.params.power", NUMBER, "1.0"),
                decided("scheduler.params.T_max", WHOLE, ""),
                decided("scheduler.params.eta_min", NUMBER, "0.0"),
                decided("scheduler.params.T_0", WHOLE, ""),
                decided("scheduler.params.T_mult", WHOLE, "1"),
                decided("scheduler.params.base_lr", NUMBER, ""),
                decided("scheduler.params.max_lr", NUMBER, ""),
                decided("scheduler.params.step_size_up", WHOLE, "2000"),
                decided("scheduler.params.step_size_down", WHOLE, ""),
                decided("scheduler.params.mode", TEXT, "triangular"),
                decided("scheduler.params.scale_fn", ANY, ""),
                decided("scheduler.params.scale_mode", TEXT, "cycle"),
                decided("scheduler.params.base_momentum", NUMBER, ""),
                decided("scheduler.params.max_momentum", NUMBER, ""),
                decided("scheduler.params.total_steps", WHOLE, ""),
                decided("scheduler.params.epochs", WHOLE, ""),
                decided("scheduler.params.steps_per_epoch", WHOLE, ""),
                decided("scheduler.params.pct_start", NUMBER, "0.3"),
                decided("scheduler.params.anneal_strategy", TEXT, "cos"),
                decided("scheduler.params.div_factor", NUMBER, "25.0"),
                decided("scheduler.params.final_div_factor", NUMBER, "10000.0"),
                decided("scheduler.params.three_phase", FLAG, "false"),
                decided("scheduler.params.last_epoch", WHOLE, "-1"));
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
}
