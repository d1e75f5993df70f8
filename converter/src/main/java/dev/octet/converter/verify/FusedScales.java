package dev.octet.converter.verify;

import dev.octet.formats.checkpoint.StoredTensor;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;

/** Fused modules whose scales of the whole tensor differ. */
final class FusedScales extends CheckpointRule {
    FusedScales() {
        super(
                "fused-scales",
                Severity.WARNING,
                EnumSet.of(Consumer.VLLM, Consumer.SGLANG, Consumer.TENSORRT_LLM),
                "Modules that are loaded as one matrix share one per-tensor scale, one global scale, one input scale:"
                        + " else weights are quantised a second time, or refused (NVFP4).",
                "quantise the group with one common scale; octet quantize does",
                "vllm-project/vllm#54974, NVIDIA/TensorRT-LLM#14199, vllm-project/vllm#4332, vllm-project/vllm#40934,"
                        + " NVIDIA/TensorRT-LLM:tensorrt_llm/_torch/modules/linear.py");
    }

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        subject.fusedGroups().forEach((name, group) -> {
            compare(name, group, LayerTensors.WEIGHT_SCALES, "per-tensor scales", subject, findings);
            compare(name, group, LayerTensors.GLOBAL_SCALES, "global scales", subject, findings);
            compare(name, group, LayerTensors.INPUT_SCALES, "input scales", subject, findings);
        });
    }

    /** A small weight of one block has one scale, too, which its siblings need not share. */
    private static boolean isOfWholeTensor(LayerTensors layer, List<String> parts, CheckpointSubject subject) {
        QuantSettings.Group group = subject.settings().group(layer.module());
        return !parts.equals(LayerTensors.WEIGHT_SCALES)
                || group == null
                || group.weights() == null
                || group.weights().strategy().equals("tensor");
    }

    private void compare(
            String name,
            List<LayerTensors> group,
            List<String> parts,
            String kind,
            CheckpointSubject subject,
            Findings findings) {
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
            findings.add(
                    this, Severity.ERROR, asserting, "the " + kind + " of a fused NVFP4 group differ", name, detail);
            findings.add(
                    this,
                    severity(),
                    Consumer.VLLM_LIKE,
                    "the " + kind + " of a fused NVFP4 group differ",
                    name,
                    detail);
        } else if (parts.equals(LayerTensors.INPUT_SCALES)) {
            // the largest is taken for all: nothing saturates, some precision is lost
            findings.add(this, Severity.ADVICE, consumers(), "the " + kind + " of a fused group differ", name, detail);
        } else {
            findings.add(this, "the " + kind + " of a fused group differ", name, detail);
        }
    }
}
