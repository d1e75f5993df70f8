package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.LinearModules;
import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.converter.checkpoint.TensorRole;
import dev.octet.formats.checkpoint.StoredTensor;
import java.util.EnumSet;
import java.util.LinkedHashSet;
import java.util.Set;

/** Which layers are quantised, and which the configuration leaves out. */
final class CoverageRules {
    /** Patterns of modules to leave out that match nothing. */
    static final CheckpointRule EXCLUDE_UNMATCHED = Demand.warning("exclude-unmatched", Consumer.OF_CHECKPOINTS)
            .text("Every pattern of modules that are not quantised matches a module.")
            .fix("name modules as the checkpoint does: their weights' names without .weight")
            .source("vllm-project/vllm#21669, vllm-project/vllm#44628, vllm-project/vllm#54547,"
                    + " huggingface/transformers#48349")
            .onCheckpoints(CoverageRules::excludeUnmatched);

    private static void excludeUnmatched(CheckpointSubject subject, Report report) {
        if (subject.exclusions().texts().isEmpty() || !subject.complete()) {
            return;
        }
        Set<String> modules = new LinkedHashSet<>();
        for (String module : subject.layers().keySet()) {
            // paths of blocks count too: a pattern may leave out all that is in one
            for (String path = module; !path.isEmpty() && modules.add(path); ) {
                int dot = path.lastIndexOf('.');
                path = dot < 0 ? "" : path.substring(0, dot);
            }
        }
        subject.checkpoint().tensors().values().stream()
                .filter(t -> t.shape().rank() == 3 && LinearNames.role(t.name(), t.shape()) == TensorRole.FUSED_EXPERTS)
                .forEach(t -> modules.add(t.name()));
        // consumers have names of their own for some modules, and modules without a tensor
        LinearModules known = LinearModules.of(subject.config());
        Set<String> stored = subject.storedModules();
        modules.addAll(known.otherNames(modules, stored));
        known.unstored(stored).forEach(m -> modules.add(m.replace('*', '0')));
        for (String pattern : subject.exclusions().unmatched(modules)) {
            report.add("a pattern of modules to leave out matches nothing", pattern, "");
        }
    }

    /** Modules that are left out by the configuration and quantised in the file. */
    static final CheckpointRule EXCLUDE_CONTRADICTED = Demand.error("exclude-contradicted", Consumer.OF_CHECKPOINTS)
            .text("A module that the configuration leaves out is not quantised: loaders read its codes as values.")
            .fix("remove the pattern from the list, or put the weight back as it was")
            .source("vllm-project/vllm#44081, vllm-project/vllm#45132, vllm-project/vllm#21669")
            .onCheckpoints(CoverageRules::excludeContradicted);

    private static void excludeContradicted(CheckpointSubject subject, Report report) {
        subject.quantized()
                .filter(l -> subject.exclusions().match(l.module()))
                .forEach(l -> report.add(
                        "a module is left out by the configuration, and quantised",
                        l.module(),
                        String.valueOf(l.weight() == null ? "" : l.weight().dtype())));
    }

    /** Modules that the configuration covers and that are not quantised. */
    static final CheckpointRule LINEAR_NOT_QUANTIZED = Demand.error("linear-not-quantized", Consumer.OF_CHECKPOINTS)
            .text("Every Linear that the configuration covers is stored as codes; one that is not is in the list of"
                    + " those left out.")
            .fix("add the module to ignore / modules_to_not_convert / exclude_modules, or quantise it")
            .source("vllm-project/llm-compressor#958, vllm-project/vllm#44081, ml-explore/mlx-lm#1865")
            .onCheckpoints(CoverageRules::linearNotQuantized);

    /**
     * transformers replaces every Linear of the model and computes NaN where a scale is missing; engines build heads and routers
     * unquantised.
     */
    private static final Set<Consumer> BY_CLASS = EnumSet.of(Consumer.TRANSFORMERS);

    private static void linearNotQuantized(CheckpointSubject subject, Report report) {
        QuantSettings settings = subject.settings();
        if (settings.method() == QuantSettings.Method.NONE || settings.method() == QuantSettings.Method.OTHER) {
            return;
        }
        boolean mixed = settings.algorithm().equals("MIXED_PRECISION");
        subject.layers().values().stream()
                .filter(l -> l.isPlain() && !subject.exclusions().match(l.module()) && !mixed)
                .filter(l -> settings.targets(l.module()))
                .forEach(l -> linearNotQuantized(l, settings, report));
    }

    private static void linearNotQuantized(LayerTensors layer, QuantSettings settings, Report report) {
        TensorRole role = layer.role();
        StoredTensor weight = layer.weight();
        String detail = weight == null ? "" : weight.dtype() + " " + weight.shape();
        if (role == TensorRole.LINEAR || role == TensorRole.FUSED_EXPERTS) {
            boolean known = Projections.of(layer.last()) != Projections.UNKNOWN || role == TensorRole.FUSED_EXPERTS;
            report.add(
                    known ? Severity.ERROR : Severity.WARNING,
                    known
                            ? "a Linear that the configuration covers is not quantised"
                            : "a matrix that the configuration may cover is not quantised",
                    layer.module(),
                    detail);
        } else if ((role == TensorRole.HEAD || role == TensorRole.ROUTER)
                && settings.method() == QuantSettings.Method.COMPRESSED_TENSORS) {
            report.add(
                    Severity.ERROR,
                    BY_CLASS,
                    role == TensorRole.HEAD
                            ? "the head is not quantised and not left out"
                            : "a router is not quantised and not left out",
                    layer.module(),
                    detail);
        }
    }

    /** Norms, embeddings and routers that are quantised. */
    static final CheckpointRule LAYER_KIND = Demand.error("layer-kind", Consumer.OF_CHECKPOINTS)
            .text("Norms, embeddings and routers are not quantised: consumers cannot load quantised norms, and"
                    + " quantised routers choose other experts.")
            .fix("put back the 16-bit weights of these layers")
            .source("vllm-project/compressed-tensors:src/compressed_tensors/quantization/lifecycle/initialize.py,"
                    + " NVIDIA/Model-Optimizer:modelopt/torch/export/unified_export_hf.py")
            .onCheckpoints(CoverageRules::layerKind);

    private static void layerKind(CheckpointSubject subject, Report report) {
        subject.quantized().forEach(layer -> {
            TensorRole role = layer.role();
            String what = switch (role) {
                case NORM -> "a norm is quantised";
                case EMBEDDING -> "an embedding is quantised";
                case ROUTER -> "a router is quantised";
                case LINEAR, FUSED_EXPERTS, HEAD, OTHER -> "";
            };
            if (!what.isEmpty()) {
                report.add(what, layer.module(), "");
            }
        });
    }

    /** A quantised head. */
    static final CheckpointRule HEAD_QUANTIZED = Demand.warning("head-quantized", Consumer.OF_CHECKPOINTS)
            .text("lm_head is not quantised: most engine versions build it without scales.")
            .fix("put back the 16-bit lm_head and leave it out in the configuration")
            .source("vllm-project/vllm#44081, vllm-project/vllm#45132")
            .onCheckpoints(CoverageRules::headQuantized);

    private static void headQuantized(CheckpointSubject subject, Report report) {
        subject.quantized()
                .filter(l -> l.role() == TensorRole.HEAD)
                .forEach(l -> report.add("a head is quantised", l.module(), ""));
    }

    /** Tied embeddings that are quantised, or stored twice. */
    static final CheckpointRule TIED_EMBEDDINGS = Demand.error("tied-embeddings", Consumer.OF_CHECKPOINTS)
            .text("With tie_word_embeddings, embedding and head are one tensor, and not quantised.")
            .fix("store the embedding once in 16 bits and no lm_head, or set tie_word_embeddings to false")
            .source("huggingface/transformers#37905")
            .onCheckpoints(CoverageRules::tiedEmbeddings);

    private static void tiedEmbeddings(CheckpointSubject subject, Report report) {
        if (subject.config() == null
                || !subject.config().path("tie_word_embeddings").asBoolean(false)) {
            return;
        }
        for (LayerTensors layer : subject.layers().values()) {
            boolean head = layer.last().equals("lm_head") && layer.weight() != null;
            boolean tied = head || (layer.last().equals("embed_tokens") && layer.role() == TensorRole.EMBEDDING);
            if (tied && subject.isQuantized(layer)) {
                report.add("a tied embedding or head is quantised", layer.module(), "");
            } else if (head) {
                report.add(
                        Severity.WARNING,
                        "embeddings are tied, and there is a head: which one wins depends on the loader",
                        layer.module(),
                        "");
            }
        }
    }

    private CoverageRules() {}
}
