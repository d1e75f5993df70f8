package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.TensorRole;
import dev.octet.formats.checkpoint.StoredTensor;
import java.util.EnumSet;
import java.util.Set;

/** Modules that the configuration covers and that are not quantised. */
final class LinearNotQuantized extends CheckpointRule {
    LinearNotQuantized() {
        super(
                "linear-not-quantized",
                Severity.ERROR,
                Consumer.OF_CHECKPOINTS,
                "Every Linear that the configuration covers is stored as codes; one that is not is in the list of"
                        + " those left out.",
                "add the module to ignore / modules_to_not_convert / exclude_modules, or quantise it",
                "vllm-project/llm-compressor#958, vllm-project/vllm#44081, ml-explore/mlx-lm#1865");
    }

    /** transformers replaces every Linear of the model and computes NaN where there is no scale; engines build heads and routers without quantisation. */
    private static final Set<Consumer> BY_CLASS = EnumSet.of(Consumer.TRANSFORMERS);

    @Override
    void check(CheckpointSubject subject, Findings findings) {
        QuantSettings settings = subject.settings();
        if (settings.method() == QuantSettings.Method.NONE || settings.method() == QuantSettings.Method.OTHER) {
            return;
        }
        boolean mixed = settings.algorithm().equals("MIXED_PRECISION");
        subject.layers().values().stream()
                .filter(l -> l.isPlain() && !subject.exclusions().match(l.module()) && !mixed)
                .filter(l -> settings.targets(l.module()))
                .forEach(l -> check(l, settings, findings));
    }

    private void check(LayerTensors layer, QuantSettings settings, Findings findings) {
        TensorRole role = layer.role();
        StoredTensor weight = layer.weight();
        String detail = weight == null ? "" : weight.dtype() + " " + weight.shape();
        if (role == TensorRole.LINEAR || role == TensorRole.FUSED_EXPERTS) {
            boolean known = Projections.of(layer.last()) != Projections.UNKNOWN || role == TensorRole.FUSED_EXPERTS;
            findings.add(
                    this,
                    known ? Severity.ERROR : Severity.WARNING,
                    consumers(),
                    known
                            ? "a Linear that the configuration covers is not quantised"
                            : "a matrix that the configuration may cover is not quantised",
                    layer.module(),
                    detail);
        } else if ((role == TensorRole.HEAD || role == TensorRole.ROUTER)
                && settings.method() == QuantSettings.Method.COMPRESSED_TENSORS) {
            findings.add(
                    this,
                    Severity.ERROR,
                    BY_CLASS,
                    role == TensorRole.HEAD
                            ? "the head is not quantised and not left out"
                            : "a router is not quantised and not left out",
                    layer.module(),
                    detail);
        }
    }
}
