package dev.octet.converter.verify;

import dev.octet.converter.checkpoint.LinearNames;
import dev.octet.converter.checkpoint.TensorRole;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.quant.layout.StoredWeight;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * The tensors of one module: those whose names are the module's path, a dot, and one more part. Each matrix of fused experts
 * ({@code experts.gate_up_proj} with {@code experts.gate_up_proj_scale_inv}) counts as a module of its own.
 */
final class LayerTensors {
    /** Names of scales of a weight's blocks, in every layout known. */
    static final List<String> WEIGHT_SCALES =
            List.of("weight_scale", "weight_scale_inv", "scale", "_weight_scale", "weights_scaling_factor");

    /** Names of second-level scales. */
    static final List<String> GLOBAL_SCALES = List.of("weight_global_scale", "weight_scale_2");

    /** Names of static scales of inputs. */
    static final List<String> INPUT_SCALES =
            List.of("input_scale", "activation_scale", "input_global_scale", "activation_scaling_factor");

    /** Names of scales that belong to attention or to outputs. */
    static final List<String> OTHER_SCALES = List.of(
            "k_scale",
            "v_scale",
            "q_scale",
            "prob_scale",
            "kv_scale",
            "output_scale",
            "kv_cache_scaling_factor",
            "pre_quant_scale");

    private static final List<String> WEIGHTS = List.of("weight", "weight_packed", "_weight_qdata");
    private static final Set<DType> PLAIN = Set.of(DType.BF16, DType.F16, DType.F32, DType.F64);

    /** A tensor by the last part of its name: {@code weight}, {@code weight_scale}, ... */
    record Part(String name, StoredTensor tensor) {}

    private final String module;

    /** Two or three: a list takes a fifth of the memory of a map, and every module has one. */
    private final List<Part> parts;

    private final @Nullable StoredTensor weight;
    private final Shape shape;

    /** Found when a rule first asks; rules in several threads find the same. */
    private @Nullable TensorRole role;

    private LayerTensors(String module, List<Part> parts, Map<String, StoredWeight> stored) {
        this.module = module;
        this.parts = List.copyOf(parts);
        this.weight = first(WEIGHTS).orElse(null);
        StoredWeight known = isInWords() ? stored.get(weightName()) : null;
        this.shape = weight == null ? Shape.SCALAR : known != null ? known.shape() : unpacked(weight);
    }

    /** Path: {@code model.layers.0.self_attn.q_proj}. */
    String module() {
        return module;
    }

    /** All of them, in the order of the checkpoint. */
    List<Part> parts() {
        return parts;
    }

    /** The weight or its codes; null for a module without one. */
    @Nullable
    StoredTensor weight() {
        return weight;
    }

    @Nullable
    StoredTensor part(String name) {
        for (Part part : parts) {
            if (part.name().equals(name)) {
                return part.tensor();
            }
        }
        return null;
    }

    boolean has(String name) {
        return part(name) != null;
    }

    /** The first there is of these parts. */
    Optional<StoredTensor> first(List<String> names) {
        for (String name : names) {
            StoredTensor found = part(name);
            if (found != null) {
                return Optional.of(found);
            }
        }
        return Optional.empty();
    }

    /** Whether the weight is stored as codes of eight bits or fewer. */
    boolean quantized() {
        return isFloat8() || isPacked() || isInteger() || isInWords();
    }

    /** Whether the weight is of an 8-bit float type. */
    boolean isFloat8() {
        return weight != null && weight.dtype().isFloat8();
    }

    /** Whether the weight is two 4-bit codes to a byte. */
    boolean isPacked() {
        return weight != null && (weight.dtype() == DType.U8 || weight.dtype() == DType.F4_E2M1);
    }

    /** Whether the weight is of 8-bit integers. */
    boolean isInteger() {
        return weight != null && weight.dtype() == DType.I8;
    }

    /** Whether the weight is of integers packed into I32. */
    boolean isInWords() {
        return weight != null && weight.dtype() == DType.I32 && weight.name().endsWith("_packed");
    }

    /** Whether the weight is of 16 bits or more. */
    boolean isPlain() {
        return weight != null && PLAIN.contains(weight.dtype());
    }

    /** The weight's own shape, unpacked; that of a scalar for a module without one. */
    Shape shape() {
        return shape;
    }

    private static Shape unpacked(StoredTensor weight) {
        long[] dims = weight.shape().toArray();
        if (weight.dtype() == DType.U8 && dims.length > 0 && dims[dims.length - 1] < Long.MAX_VALUE / 2) {
            try {
                dims[dims.length - 1] *= 2;
                return Shape.of(dims);
            } catch (ArithmeticException e) {
                return weight.shape(); // a hostile shape: nothing real has it
            }
        }
        return weight.shape();
    }

    /** What the module is for. */
    TensorRole role() {
        TensorRole known = role;
        if (known == null) {
            known = LinearNames.role(weightName(), shape);
            role = known;
        }
        return known;
    }

    /** Whether the weight has this path itself instead of being part of a module, as fused experts do. */
    boolean isParameter() {
        return weight != null && weight.name().equals(module);
    }

    /** The weight's own name, as a checkpoint that is not quantised has it. */
    String weightName() {
        return isParameter() ? module : module + ".weight";
    }

    /** The last part of the module's path. */
    String last() {
        return module.substring(module.lastIndexOf('.') + 1);
    }

    /** The path without its last part; empty for a module at the top. */
    String parent() {
        int dot = module.lastIndexOf('.');
        return dot < 0 ? "" : module.substring(0, dot);
    }

    /** Whether this is a product that quantisation is for: a Linear or the fused matrices of experts. */
    boolean isLinear() {
        TensorRole role = role();
        return role == TensorRole.LINEAR || role == TensorRole.FUSED_EXPERTS;
    }

    /**
     * All modules of a checkpoint, in its order.
     *
     * @param stored its quantised weights, of which those packed into words have their shapes
     */
    static Map<String, LayerTensors> group(Map<String, StoredTensor> tensors, Map<String, StoredWeight> stored) {
        Map<String, List<Part>> modules = new LinkedHashMap<>();
        // the same few words for all modules: kept once
        Map<String, String> words = new HashMap<>();
        tensors.forEach((name, tensor) -> {
            int dot = name.lastIndexOf('.');
            String word = words.computeIfAbsent(name.substring(dot + 1), w -> w);
            modules.computeIfAbsent(dot < 0 ? "" : name.substring(0, dot), m -> new ArrayList<>(2))
                    .add(new Part(word, tensor));
        });
        Map<String, LayerTensors> layers = LinkedHashMap.newLinkedHashMap(modules.size());
        modules.forEach((module, parts) -> {
            List<Part> left = splitExperts(module, parts, layers, stored);
            if (!left.isEmpty()) {
                layers.put(module, new LayerTensors(module, left, stored));
            }
        });
        return layers;
    }

    /** Takes fused experts, which have no part {@code weight} of their own, out of {@code parts}; gives the rest. */
    private static List<Part> splitExperts(
            String module, List<Part> parts, Map<String, LayerTensors> layers, Map<String, StoredWeight> stored) {
        List<String> experts = new ArrayList<>(0);
        for (Part part : parts) {
            StoredTensor tensor = part.tensor();
            if (tensor.shape().rank() >= 2
                    && tensor.dtype().isFloat8()
                    && !WEIGHTS.contains(part.name())
                    && !part.name().contains("_scale")) {
                experts.add(part.name());
            }
        }
        List<Part> left = parts;
        for (String expert : experts) {
            List<Part> own = new ArrayList<>();
            List<Part> others = new ArrayList<>();
            for (Part part : left) {
                if (!part.name().equals(expert) && !part.name().startsWith(expert + "_")) {
                    others.add(part);
                    continue;
                }
                String rest = part.name().equals(expert) ? "" : part.name().substring(expert.length() + 1);
                boolean complete = rest.startsWith("weight_") || rest.startsWith("input_") || rest.equals("bias");
                String word = rest.isEmpty() ? "weight" : complete ? rest : "weight_" + rest;
                own.removeIf(p -> p.name().equals(word)); // of two spellings of one part, the later
                own.add(new Part(word, part.tensor()));
            }
            left = others;
            String path = module.isEmpty() ? expert : module + "." + expert;
            layers.put(path, new LayerTensors(path, own, stored));
        }
        return left;
    }
}
