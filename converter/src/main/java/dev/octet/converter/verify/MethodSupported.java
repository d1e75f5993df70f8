package dev.octet.converter.verify;

import java.util.EnumMap;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;

/** Methods that a consumer does not load. */
final class MethodSupported {
    static final CheckpointRule RULE = Demand.error("method-supported", Consumer.OF_CHECKPOINTS)
            .text("The consumer loads checkpoints of this quant_method and scheme.")
            .fix("convert the checkpoint to a layout that its consumer loads: octet convert")
            .source("NVIDIA/TensorRT-LLM:tensorrt_llm/_torch/model_config.py, NVIDIA/TensorRT-LLM#17723,"
                        + " sgl-project/sglang:python/sglang/srt/layers/quantization/compressed_tensors/compressed_tensors.py,"
                        + " sgl-project/sglang#15468, sgl-project/sglang#19101,"
                        + " vllm-project/vllm:vllm/model_executor/layers/quantization/compressed_tensors/compressed_tensors.py,"
                        + " huggingface/transformers:src/transformers/utils/quantization_config.py,"
                        + " pytorch/ao:torchao/prototype/safetensors/safetensors_utils.py")
            .onCheckpoints(MethodSupported::check);

    /** SGLang's as of 2026-07, vLLM's as of 2026-08. */
    private static final List<Refused> REFUSED = List.of(
            Refused.compressed(Consumer.SGLANG, MethodSupported::isMxfp8, "MXFP8"),
            Refused.compressed(
                    Consumer.SGLANG,
                    g -> weights(g, QuantSettings.Operand::isFloat4) && g.inputs() == null,
                    "NVFP4 without input scales"),
            Refused.compressed(
                    Consumer.SGLANG, g -> isIntegersAlone(g) && weights(g, w -> !w.symmetric()), "asymmetric integers"),
            Refused.modelOpt(Consumer.SGLANG, "FP8_PER_CHANNEL_PER_TOKEN"),
            Refused.modelOpt(Consumer.SGLANG, "FP8_PB_WO"),
            Refused.modelOpt(Consumer.SGLANG, "MXFP8"),
            Refused.modelOpt(Consumer.SGLANG, "W4A16_NVFP4"));

    private static final Set<Consumer> ENGINES = EnumSet.of(Consumer.VLLM, Consumer.SGLANG);

    private static final Set<Consumer> TENSORRT_LLM = EnumSet.of(Consumer.TENSORRT_LLM);

    private MethodSupported() {}

    private static void check(CheckpointSubject subject, Report report) {
        if (subject.quantized().findAny().isEmpty()) {
            return;
        }
        QuantSettings settings = subject.settings();
        String where = "quant_method " + settings.json().path("quant_method").asText("");
        refusing(subject).forEach((consumer, why) -> report.add(Severity.ERROR, EnumSet.of(consumer), why, where, ""));
        checkIntegers(settings, where, report);
        switch (settings.method()) {
            case COMPRESSED_TENSORS ->
                report.add(
                        Severity.ADVICE,
                        TENSORRT_LLM,
                        "TensorRT-LLM loads compressed-tensors in part; modelopt is its own layout",
                        where,
                        "");
            case OTHER -> report.add(Severity.WARNING, "the quantisation method is not known", where, "");
            case MODELOPT, FP8, NONE -> {}
        }
    }

    /** Consumers that have no code for the method and scheme of a checkpoint, however sound it is, each with the reason. */
    static Map<Consumer, String> refusing(CheckpointSubject subject) {
        Map<Consumer, String> refusing = new EnumMap<>(Consumer.class);
        if (subject.quantized().findAny().isEmpty()) {
            return refusing;
        }
        QuantSettings settings = subject.settings();
        if (settings.method() == QuantSettings.Method.MODELOPT) {
            refusing.put(Consumer.TRANSFORMERS, "transformers has no loader for modelopt");
        }
        if (settings.method() == QuantSettings.Method.FP8 && !settings.hasBlocks()) {
            refusing.put(Consumer.TENSORRT_LLM, "TensorRT-LLM loads fp8 with blocks only");
        }
        for (Refused refused : REFUSED) {
            boolean found = refused.algorithm().isEmpty()
                    ? settings.method() == QuantSettings.Method.COMPRESSED_TENSORS
                            && settings.groups().stream().anyMatch(refused.scheme())
                    : settings.method() == QuantSettings.Method.MODELOPT
                            && settings.algorithm().equals(refused.algorithm());
            if (found) {
                refusing.putIfAbsent(refused.consumer(), refused.what());
            }
        }
        return refusing;
    }

    /**
     * A scheme that a consumer has no method for.
     *
     * @param algorithm of a modelopt checkpoint; empty for compressed-tensors, where {@code scheme} decides
     */
    private record Refused(Consumer consumer, String algorithm, Predicate<QuantSettings.Group> scheme, String what) {
        static Refused compressed(Consumer consumer, Predicate<QuantSettings.Group> scheme, String what) {
            return new Refused(consumer, "", scheme, "SGLang has no method for " + what + " in compressed-tensors");
        }

        static Refused modelOpt(Consumer consumer, String algorithm) {
            return new Refused(consumer, algorithm, _ -> false, "SGLang has no method for quant_algo " + algorithm);
        }
    }

    private static boolean weights(QuantSettings.Group group, Predicate<QuantSettings.Operand> are) {
        return group.weights() != null && are.test(group.weights());
    }

    private static boolean isMxfp8(QuantSettings.Group group) {
        return weights(group, w -> w.isFloat8() && w.strategy().equals("group") && w.groupSize() == 32);
    }

    private static boolean isIntegersAlone(QuantSettings.Group group) {
        return group.inputs() == null && weights(group, w -> !w.isFloat());
    }

    private static void checkIntegers(QuantSettings settings, String where, Report report) {
        String format = settings.json().path("format").asText("");
        if (settings.method() == QuantSettings.Method.COMPRESSED_TENSORS
                && format.equals("int-quantized")
                && settings.groups().stream().anyMatch(MethodSupported::isIntegersAlone)) {
            report.add(
                    Severity.ERROR,
                    ENGINES,
                    "engines load weights of integers alone as pack-quantized, not as int-quantized",
                    where,
                    format);
        }
    }
}
