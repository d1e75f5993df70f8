package dev.octet.converter.verify;

import dev.octet.formats.tensor.DType;

/** Shapes and number types of scales. */
final class ScaleFormRules {
    /** Scales of shape [1, 1]. */
    static final CheckpointRule ONE_BY_ONE = Demand.error("scale-1x1", Consumer.VLLM_LIKE)
            .text("A scale of a whole tensor has the shape [] or [1]: vLLM refuses [1, 1].")
            .fix("reshape it to [1]")
            .source("vllm-project/vllm:vllm/model_executor/parameter.py, vllm-project/vllm#50617")
            .onCheckpoints(ScaleFormRules::oneByOne);

    private static void oneByOne(CheckpointSubject subject, Report report) {
        subject.scales()
                .filter(s -> s.tensor().shape().elementCount() == 1
                        && s.tensor().shape().rank() > 1
                        && isOfWholeTensor(s, subject))
                .forEach(s -> report.add(
                        "one number is stored as a matrix",
                        s.tensor().name(),
                        s.tensor().shape().toString()));
    }

    /** A weight of one block or one row has a grid of one scale, which is right; so has attention with one head of keys, by head. */
    private static boolean isOfWholeTensor(CheckpointSubject.Scale scale, CheckpointSubject subject) {
        if (LayerTensors.OTHER_SCALES.contains(scale.part()) && KvScales.byHead(subject)) {
            return false;
        }
        QuantSettings.Group group = subject.settings().group(scale.layer().module());
        return group != null
                && (!scale.ofWeight()
                        || (group.weights() != null
                                && group.weights().strategy().equals("tensor")));
    }

    /** Scales without dimensions. */
    static final CheckpointRule ZERO_DIM = Demand.warning("scale-0d", Consumer.TRANSFORMERS)
            .text("A scale has at least one dimension: transformers 5.8.1 fails on a scalar.")
            .fix("reshape it to [1]")
            .source("NVIDIA-NeMo/Automodel#2654")
            .onCheckpoints(ScaleFormRules::zeroDim);

    private static void zeroDim(CheckpointSubject subject, Report report) {
        // ModelOpt's own shape, and transformers does not read that layout
        if (subject.settings().method() != QuantSettings.Method.MODELOPT) {
            subject.scales()
                    .filter(s -> s.ofWeight() && s.tensor().shape().rank() == 0)
                    .forEach(s ->
                            report.add("a scale has no dimensions", s.tensor().name(), "[]"));
        }
    }

    /** Number types of scales. */
    static final CheckpointRule TYPE = Demand.warning("scale-type", Consumer.OF_CHECKPOINTS)
            .text("Scales are F32; in compressed-tensors they have the model's type, which transformers gives"
                    + " the weights that it unpacks; U8 or E4M3 for blocks of MX and NVFP4.")
            .fix("store the scales as F32, in compressed-tensors as the model's dtype: octet quantize, octet convert")
            .source("HabanaAI/vllm-fork#2141, InternLM/lmdeploy#4261, InternLM/lmdeploy#4276,"
                    + " vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/forward.py")
            .onCheckpoints(ScaleFormRules::type);

    private static void type(CheckpointSubject subject, Report report) {
        QuantSettings.Method method = subject.settings().method();
        // without a method no reader is known yet
        boolean compressed = method == QuantSettings.Method.COMPRESSED_TENSORS || method == QuantSettings.Method.NONE;
        subject.scales().forEach(s -> {
            DType type = s.tensor().dtype();
            switch (type) {
                case F32, U8, F8_E8M0, F8_E4M3FN -> {}
                case BF16, F16 -> {
                    if (!compressed) {
                        typeBreach(s, Severity.WARNING, report);
                    }
                }
                default -> typeBreach(s, Severity.ERROR, report);
            }
        });
    }

    private static void typeBreach(CheckpointSubject.Scale scale, Severity severity, Report report) {
        report.add(
                severity,
                "a scale is of type " + scale.tensor().dtype() + ", which not every reader takes",
                scale.tensor().name(),
                "");
    }

    /** E8M0 scales under their own type. */
    static final CheckpointRule E8M0_TYPE = Demand.warning("scale-e8m0-type", Consumer.ENGINES)
            .text("Scales that are powers of two are stored as U8 (MX) or F32 (fp8 with blocks): F8_E8M0 is a legal"
                    + " type that few readers know.")
            .fix("store the same bytes as U8, or the values as F32")
            .source("vllm-project/compressed-tensors:src/compressed_tensors/compressors/mxfp8/base.py,"
                    + " NVIDIA/Model-Optimizer:modelopt/torch/export/quant_utils.py")
            .onCheckpoints(ScaleFormRules::e8m0Type);

    private static void e8m0Type(CheckpointSubject subject, Report report) {
        subject.scales()
                .filter(s -> s.tensor().dtype() == DType.F8_E8M0)
                .forEach(
                        s -> report.add("a scale is of type F8_E8M0", s.tensor().name(), ""));
    }

    private ScaleFormRules() {}
}
