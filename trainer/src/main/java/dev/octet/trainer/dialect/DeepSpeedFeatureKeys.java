package dev.octet.trainer.dialect;

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

/** Rows of DeepSpeed's keys that belong to features a run here does not have: each is refused where its feature is turned on. */
final class DeepSpeedFeatureKeys {
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

    private DeepSpeedFeatureKeys() {}

    static List<KeyRule> rows() {
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
