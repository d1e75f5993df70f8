package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import java.util.Set;

/** Number types of quantised weights. */
final class WeightTypeRules {
    /** Weights of another number type than configured. */
    static final CheckpointRule FORMAT = Demand.error("weight-format", Consumer.OF_CHECKPOINTS)
            .text("Quantised weights have the number type given by format and num_bits, or by quant_algo.")
            .fix("write the configuration of the layout that the tensors are in, or convert them")
            .source(
                    "vllm-project/llm-compressor#958, ml-explore/mlx-lm#1865,"
                        + " vllm-project/vllm:vllm/model_executor/layers/quantization/compressed_tensors/compressed_tensors.py")
            .onCheckpoints(WeightTypeRules::format);

    private static void format(CheckpointSubject subject, Report report) {
        subject.quantized().forEach(layer -> {
            QuantSettings.Group group = subject.settings().group(layer.module());
            if (group == null || group.weights() == null || layer.weight() == null) {
                return;
            }
            Set<DType> wanted = wanted(group.weights(), layer);
            if (!wanted.isEmpty() && !wanted.contains(layer.weight().dtype())) {
                report.add(
                        "weights have another type than the configuration gives",
                        layer.weight().name(),
                        layer.weight().dtype() + ", and the configuration says "
                                + group.weights().bits()
                                + (group.weights().isFloat() ? "-bit floats" : "-bit integers"));
            }
        });
    }

    private static Set<DType> wanted(QuantSettings.Operand weights, LayerTensors layer) {
        if (weights.isFloat8()) {
            return Set.of(DType.F8_E4M3FN, DType.F8_E5M2, DType.F8_E4M3FNUZ, DType.F8_E5M2FNUZ);
        }
        if (weights.isFloat4()) {
            return Set.of(DType.U8, DType.F4_E2M1);
        }
        // weight_packed holds words, for codes of any width
        return layer.isInWords() ? Set.of(DType.I32) : weights.bits() == 8 ? Set.of(DType.I8) : Set.of();
    }

    /** Weights in E5M2. */
    static final CheckpointRule E5M2 = Demand.error("weight-e5m2", Consumer.OF_CHECKPOINTS)
            .text("Weights are E4M3: configurations cannot express E5M2, and kernels read E4M3.")
            .fix("quantise to E4M3")
            .source("vllm-project/compressed-tensors:src/compressed_tensors/quantization/quant_args.py")
            .onCheckpoints(WeightTypeRules::e5m2);

    private static void e5m2(CheckpointSubject subject, Report report) {
        subject.quantized()
                .filter(l -> l.weight() != null && l.weight().dtype() == DType.F8_E5M2)
                .forEach(l -> report.add("a weight is in E5M2", l.weightName(), ""));
    }

    /** 8-bit floats of the FNUZ kind. */
    static final CheckpointRule FNUZ = Demand.error("fnuz", Consumer.OF_CHECKPOINTS)
            .text("Codes are E4M3FN: in FNUZ, 0x80 is NaN instead of -0 and every value is half as large, and"
                    + " few readers support these types.")
            .fix("convert the codes: octet convert")
            .source("triton-lang/triton#10745, onnx/onnx#5764, microsoft/onnxruntime#18473")
            .onCheckpoints(WeightTypeRules::fnuz);

    private static void fnuz(CheckpointSubject subject, Report report) {
        subject.checkpoint().tensors().values().stream()
                .filter(t -> t.dtype() == DType.F8_E4M3FNUZ || t.dtype() == DType.F8_E5M2FNUZ)
                .forEach(t -> report.add(
                        "a tensor is of a FNUZ type", t.name(), t.dtype().toString()));
    }

    /** MXFP8 that is announced as FP8, and the reverse. */
    static final CheckpointRule MX_OR_FP8 = Demand.error("mx-or-fp8", Consumer.OF_CHECKPOINTS)
            .text("Powers of two in blocks of 32 (U8 scales) are announced as MXFP8, and nothing else is: loaders go by"
                    + " the announcement.")
            .fix("set the format or quant_algo that the scales have")
            .source("sgl-project/sglang#32538, vllm-project/vllm:vllm/model_executor/layers/quantization/modelopt.py")
            .onCheckpoints(WeightTypeRules::mxOrFp8);

    private static void mxOrFp8(CheckpointSubject subject, Report report) {
        QuantSettings settings = subject.settings();
        if (settings.method() == QuantSettings.Method.NONE || settings.method() == QuantSettings.Method.OTHER) {
            return;
        }
        subject.quantized()
                .filter(LayerTensors::isFloat8)
                .forEach(l -> l.first(LayerTensors.WEIGHT_SCALES).ifPresent(s -> mxOrFp8(l, s, settings, report)));
    }

    private static void mxOrFp8(LayerTensors layer, StoredTensor scale, QuantSettings settings, Report report) {
        QuantSettings.Group group = settings.group(layer.module());
        if (group == null || group.weights() == null) {
            return;
        }
        boolean announced = group.weights().groupSize() == 32;
        boolean powers = scale.dtype() == DType.U8 || scale.dtype() == DType.F8_E8M0;
        boolean mx = powers
                && scale.shape().rank() >= 2
                && layer.shape().rank() >= 2
                && scale.shape().dim(-1) == Math.ceilDiv(layer.shape().dim(-1), 32L)
                && scale.shape().dim(-2) == layer.shape().dim(-2);
        if (mx != announced) {
            report.add(
                    announced
                            ? "MXFP8 is announced, and the scales are not those of MXFP8"
                            : "scales are those of MXFP8, and the configuration does not announce it",
                    scale.name(),
                    scale.dtype() + " " + scale.shape());
        }
    }

    private WeightTypeRules() {}
}
