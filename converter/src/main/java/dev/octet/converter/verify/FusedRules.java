package dev.octet.converter.verify;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.converter.checkpoint.TensorRole;
import dev.octet.formats.checkpoint.StoredTensor;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** Modules that engines load as one. */
final class FusedRules {
    /** Fused modules of which some are quantised. */
    static final CheckpointRule PARTIAL = Demand.error("fused-partial", Consumer.ENGINES)
            .text("Modules that are loaded as one matrix (q, k, v; gate, up) are all quantised or none: engines"
                    + " refuse a mixture.")
            .fix("quantise or leave out the whole group")
            .source("vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py")
            .onCheckpoints(FusedRules::partial);

    private static void partial(CheckpointSubject subject, Report report) {
        subject.fusedGroups().forEach((name, group) -> {
            List<String> quantized = group.stream()
                    .filter(subject::isQuantized)
                    .map(LayerTensors::last)
                    .toList();
            if (!quantized.isEmpty() && quantized.size() < group.size()) {
                report.add(
                        "some modules of a fused group are quantised and some are not",
                        name,
                        "quantised: " + String.join(", ", quantized) + " of "
                                + group.stream().map(LayerTensors::last).collect(Collectors.joining(", ")));
            }
        });
    }

    /** Fused modules whose scales of the whole tensor differ. */
    static final CheckpointRule SCALES = Demand.warning("fused-scales", Consumer.ENGINES)
            .text("Modules that are loaded as one matrix share one per-tensor scale, one global scale, one"
                    + " input scale: otherwise weights are quantised a second time, or refused (NVFP4).")
            .fix("quantise the group with one common scale; octet quantize does")
            .source("vllm-project/vllm#54974, NVIDIA/TensorRT-LLM#14199, vllm-project/vllm#4332,"
                    + " vllm-project/vllm#40934, NVIDIA/TensorRT-LLM:tensorrt_llm/_torch/modules/linear.py")
            .onCheckpoints(FusedRules::scales);

    private static void scales(CheckpointSubject subject, Report report) {
        subject.fusedGroups().forEach((name, group) -> {
            compare(name, group, LayerTensors.WEIGHT_SCALES, "per-tensor scales", subject, report);
            compare(name, group, LayerTensors.GLOBAL_SCALES, "global scales", subject, report);
            compare(name, group, LayerTensors.INPUT_SCALES, "input scales", subject, report);
        });
    }

    /** A small weight of one block also has a single scale, which its siblings need not share. */
    private static boolean isOfWholeTensor(LayerTensors layer, List<String> parts, CheckpointSubject subject) {
        QuantSettings.Group group = subject.settings().group(layer.module());
        return !parts.equals(LayerTensors.WEIGHT_SCALES)
                || group == null
                || group.weights() == null
                || group.weights().strategy().equals("tensor");
    }

    private static void compare(
            String name,
            List<LayerTensors> group,
            List<String> parts,
            String kind,
            CheckpointSubject subject,
            Report report) {
        double smallest = Double.POSITIVE_INFINITY;
        double largest = 0;
        boolean packed = false;
        List<String> seen = new ArrayList<>();
        for (LayerTensors layer : group) {
            Optional<StoredTensor> scale = layer.first(parts)
                    .filter(s -> s.shape().elementCount() == 1 && isOfWholeTensor(layer, parts, subject));
            Optional<ScaleFacts> value = scale.flatMap(subject::values).filter(ScaleFacts::sound);
            if (value.isPresent()) {
                smallest = Math.min(smallest, value.get().min());
                largest = Math.max(largest, value.get().max());
                packed |= layer.isPacked();
                seen.add(layer.last() + " " + value.get().min());
            }
        }
        if (seen.size() < 2 || smallest == largest) {
            return;
        }
        String detail = String.format(Locale.ROOT, "%s; ratio %.3f", String.join(", ", seen), largest / smallest);
        if (packed) {
            Set<Consumer> asserting = EnumSet.of(Consumer.TENSORRT_LLM);
            report.add(Severity.ERROR, asserting, "the " + kind + " of a fused NVFP4 group differ", name, detail);
            report.add(Consumer.VLLM_LIKE, "the " + kind + " of a fused NVFP4 group differ", name, detail);
        } else if (parts.equals(LayerTensors.INPUT_SCALES)) {
            // the largest is taken for all: nothing saturates, some precision is lost
            report.add(Severity.ADVICE, "the " + kind + " of a fused group differ", name, detail);
        } else {
            report.add("the " + kind + " of a fused group differ", name, detail);
        }
    }

    /** Experts of one layer of which some are quantised. */
    static final CheckpointRule EXPERTS_PARTIAL = Demand.error("experts-partial", Consumer.ENGINES)
            .text("All experts of a layer are quantised or none: engines load them as one tensor.")
            .fix("quantise or leave out all experts of the layer")
            .source("vllm-project/vllm#45212, vllm-project/vllm:vllm/model_executor/layers/quantization/fp8.py")
            .onCheckpoints(FusedRules::expertsPartial);

    private static final String EXPERTS = ".experts.";

    private static void expertsPartial(CheckpointSubject subject, Report report) {
        Map<String, List<LayerTensors>> blocks = new LinkedHashMap<>();
        for (LayerTensors layer : subject.layers().values()) {
            int at = layer.module().indexOf(EXPERTS);
            if (at >= 0 && layer.weight() != null) {
                blocks.computeIfAbsent(layer.module().substring(0, at) + ".experts", k -> new ArrayList<>())
                        .add(layer);
            }
        }
        blocks.forEach((block, layers) -> {
            long quantized = layers.stream().filter(subject::isQuantized).count();
            if (quantized > 0 && quantized < layers.size()) {
                report.add(
                        "some experts of a layer are quantised and some are not",
                        block,
                        quantized + " of " + layers.size() + " weights");
            }
        });
    }

    /** Experts in one tensor of codes, whose scales transformers does not fold in. */
    static final CheckpointRule EXPERTS_FUSED = Demand.warning("experts-fused", Consumer.TRANSFORMERS)
            .text("Each expert of an fp8 checkpoint has a module of its own: without a GPU for FP8,"
                    + " transformers dequantises while it loads, but reads the codes of a tensor of all experts as"
                    + " values. The experts of a Llama 4 in compressed-tensors have one module each as well:"
                    + " transformers does not find others and starts with random ones.")
            .fix("store each expert on its own (experts.0.gate_proj.weight), as transformers saves them")
            .source("huggingface/transformers:src/transformers/quantizers/quantizer_finegrained_fp8.py,"
                    + " huggingface/transformers:src/transformers/quantizers/base.py")
            .onCheckpoints(FusedRules::expertsFused);

    private static void expertsFused(CheckpointSubject subject, Report report) {
        if (subject.settings().method() == QuantSettings.Method.COMPRESSED_TENSORS && isLlama4(subject.config())) {
            subject.checkpoint().tensors().values().stream()
                    .filter(t -> LinearNames.role(t.name(), t.shape()) == TensorRole.FUSED_EXPERTS)
                    .forEach(t -> report.add(
                            Severity.ERROR,
                            "experts of a Llama 4 are in one tensor, and each is a Linear of its own under"
                                    + " compressed-tensors",
                            t.name(),
                            t.shape().toString()));
            return;
        }
        if (subject.settings().method() != QuantSettings.Method.FP8) {
            return;
        }
        subject.quantized()
                .filter(l -> l.isParameter() && l.role() == TensorRole.FUSED_EXPERTS)
                .forEach(l -> report.add(
                        "experts are in one tensor", l.weightName(), l.shape().toString()));
    }

    /** transformers then creates Llama 4's experts anew, one by one, regardless of the list of modules to leave out. */
    private static boolean isLlama4(@Nullable ObjectNode config) {
        return config != null && config.path("model_type").asText("").startsWith("llama4");
    }

    private FusedRules() {}
}
