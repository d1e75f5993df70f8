package dev.octet.quant.layout;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.QuantType;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * Finds quantised weights among tensors by their names, number types and shapes, which say nearly all; a configuration only settles
 * what they leave open. Knows the names of every tool listed in {@link #SCALE_NAMES}.
 */
final class WeightFinder {
    /**
     * What a configuration says of one weight.
     *
     * @param granularity null when it does not say
     * @param codes null when it does not say
     */
    record Expectation(
            @Nullable Granularity granularity, @Nullable QuantType codes) {
        static final Expectation NONE = new Expectation(null, null);
    }

    private static final String WEIGHT = ".weight";
    private static final String PACKED = "_packed";
    private static final String SHAPE = "_shape";

    /**
     * Where the scale of {@code m.weight} lies: {@code W} stands for the weight's name, {@code M} for its module. In order: DeepSeek and
     * Hugging Face; compressed-tensors, ModelOpt, vLLM; ModelOpt's experts of Llama 4; DeepSeek-V4; ComfyUI; TensorRT-LLM's own
     * checkpoints.
     */
    private static final List<String> SCALE_NAMES = List.of(
            "W_scale_inv", "W_scale", "W_weight_scale", "M.scale", "M.scale_weight", "M.weights_scaling_factor");

    /** Where the scale of the activation lies: after the module and a dot, or after a name without {@code .weight} and a line. */
    private static final List<String> INPUT_NAMES = List.of(
            "input_scale",
            "activation_scale",
            "input_global_scale",
            "act_scale",
            "scale_input",
            "activation_scaling_factor");

    /** Names of scales that belong to no weight and yet mean something: those of the KV cache and of outputs. */
    private static final List<String> OTHER_SCALES = List.of(
            ".k_scale",
            ".v_scale",
            ".q_scale",
            ".kv_scale",
            ".prob_scale",
            ".output_scale",
            ".kv_cache_scaling_factor",
            ".pre_quant_scale",
            ".prequant_scaling_factor",
            ".input_scale_ub",
            ".input_zero_point",
            ".scaled_fp8");

    /** Endings of names that only scales and their like have. */
    private static final List<String> SCALE_ENDINGS = List.of(
            "_scale_inv",
            ".weight_scale",
            ".weight_scale_2",
            ".weight_global_scale",
            ".input_scale",
            ".input_global_scale",
            ".activation_scale",
            ".weight_zero_point",
            ".scale_weight",
            ".scale_input",
            ".weights_scaling_factor",
            ".activation_scaling_factor");

    /** What tensors next to a weight add to its name. */
    private static final List<String> SUFFIXES = List.of(
            "_scale",
            "_scale_2",
            "_global_scale",
            "_weight_scale",
            "_weight_scale_2",
            "_input_scale",
            "_activation_scale",
            "_input_global_scale",
            "_zero_point");

    /** More notes are only counted: a foreign checkpoint may have as many odd tensors as it has tensors. */
    private static final int MAX_NOTES = 50;

    /** A model has a few dozen last parts; of a file made to harm no table is kept. */
    private static final int MANY_LAST_PARTS = 1000;

    static final String EXTRA_STATE = "_extra_state";

    private final Map<String, TensorSpec> tensors;
    private final Map<String, Shape> shapes;
    private final Function<String, Expectation> expectations;
    private final List<String> notes;
    private final Map<String, StoredWeight> weights = new LinkedHashMap<>();
    private final Set<String> taken = new HashSet<>();

    /** What stands after the last dot of all names, a few words: most names that are looked for end in none of them. */
    private final Set<String> lastParts = new HashSet<>();

    /** Whether there is a last part, by what it is made of: the ending looked for, and what stands before that. */
    private final Map<String, Map<String, Boolean>> endings = new HashMap<>();

    /**
     * Made for one checkpoint.
     *
     * @param headers its tensors, and the shapes that some of them tell
     * @param expectations what its configuration says of the weight of this name
     * @param notes takes what is odd
     */
    WeightFinder(Headers headers, Function<String, Expectation> expectations, List<String> notes) {
        this.tensors = headers.tensors();
        this.shapes = headers.shapes();
        this.expectations = expectations;
        this.notes = notes;
        for (String name : tensors.keySet()) {
            lastParts.add(lastPart(name));
        }
    }

    /** Adds a weight found by other means than names; its tensors are not looked at any more. */
    void add(StoredWeight weight) {
        weights.put(weight.name(), weight);
        weight.tensors().forEach(t -> taken.add(t.name()));
    }

    private @Nullable TensorSpec lookup(String name) {
        return lastParts.contains(lastPart(name)) ? tensors.get(name) : null;
    }

    /** The tensor called {@code stem + ending}; that name is put together only where some tensor's name ends so. */
    private @Nullable TensorSpec lookup(String stem, String ending) {
        String last = lastPart(stem);
        if (lastParts.size() > MANY_LAST_PARTS) {
            return lastParts.contains(last + ending) ? tensors.get(stem + ending) : null;
        }
        boolean possible = endings.computeIfAbsent(ending, _ -> new HashMap<>())
                .computeIfAbsent(last, l -> lastParts.contains(l + ending));
        return possible ? tensors.get(stem + ending) : null;
    }

    private static String lastPart(String name) {
        return name.substring(name.lastIndexOf('.') + 1);
    }

    /** Keeps a tensor from being taken for anything more. */
    void take(String name) {
        taken.add(name);
    }

    /** All weights, and the rest of the tensors sorted. */
    StoredCheckpoint find(String layout) {
        return find(layout, _ -> false);
    }

    /**
     * All weights, and the rest of the tensors sorted.
     *
     * @param weightOnly whether the configuration says that the inputs of a weight are not quantised
     */
    StoredCheckpoint find(String layout, Predicate<StoredWeight> weightOnly) {
        for (TensorSpec tensor : tensors.values()) {
            if (mayBeCodes(tensor.dtype()) && !taken.contains(tensor.name()) && !isScaleOfAnother(tensor)) {
                read(tensor).ifPresent(this::add);
            }
        }
        Map<String, TensorSpec> plain = new LinkedHashMap<>();
        Map<String, TensorSpec> others = new LinkedHashMap<>();
        int states = 0;
        for (TensorSpec tensor : tensors.values()) {
            if (taken.contains(tensor.name())) {
                continue;
            }
            if (tensor.name().endsWith(EXTRA_STATE)) {
                states++;
                others.put(tensor.name(), tensor);
            } else if (isOther(tensor)) {
                others.put(tensor.name(), tensor);
            } else {
                plain.put(tensor.name(), tensor);
            }
        }
        if (states > 0) {
            notes.add(
                    states + " _extra_state tensors of Transformer Engine hold the state of FP8 training, no weights");
        }
        if (notes.size() > MAX_NOTES) {
            int more = notes.size() - MAX_NOTES;
            notes.subList(MAX_NOTES, notes.size()).clear();
            notes.add("and " + more + " notes more");
        }
        return new StoredCheckpoint(
                layout, weights, plain, others, List.copyOf(notes), StoredRecipes.of(weights, weightOnly));
    }

    /** Asked first, as half of the tensors of a quantised checkpoint are scales, mostly F32. */
    private static boolean mayBeCodes(DType type) {
        return (type.isFloat8() && type != DType.F8_E8M0)
                || type == DType.F4_E2M1
                || type == DType.U8
                || type == DType.I8
                || type == DType.I32; // packed integers, for a note
    }

    private boolean isOther(TensorSpec tensor) {
        String name = tensor.name();
        if (endsWithAny(name, OTHER_SCALES) || name.equals("scaled_fp8")) {
            if (name.endsWith(".pre_quant_scale") || name.endsWith(".prequant_scaling_factor")) {
                notes.add("'" + name + "' multiplies an activation; its weight is that of the smoothed model");
            }
            return true;
        }
        if (endsWithAny(name, SCALE_ENDINGS) && tensor.shape().rank() <= 4) {
            notes.add("scale '" + name + "' belongs to no quantised weight");
            return true;
        }
        return false;
    }

    /** Block scales of NVFP4 are E4M3 and would look like weights. */
    private boolean isScaleOfAnother(TensorSpec tensor) {
        String name = tensor.name();
        return endsWithAny(name, SCALE_ENDINGS)
                || endsWithAny(name, OTHER_SCALES)
                || name.equals("scaled_fp8")
                || isBesideWeight(name);
    }

    private boolean isBesideWeight(String name) {
        for (String suffix : SUFFIXES) {
            if (name.endsWith(suffix) && hasWeight(name, suffix)) {
                return true;
            }
        }
        return false;
    }

    private boolean hasWeight(String name, String suffix) {
        String weight = name.substring(0, name.length() - suffix.length());
        return lookup(weight) != null || lookup(weight, PACKED) != null;
    }

    private Optional<StoredWeight> read(TensorSpec data) {
        String name = data.name().endsWith(WEIGHT + PACKED)
                ? data.name().substring(0, data.name().length() - PACKED.length())
                : data.name();
        StoredWeight before = weights.get(name);
        if (before != null) {
            notes.add("'" + data.name() + "' and '" + before.data().name()
                    + "' are both codes of one weight; the former stays as it is");
            return Optional.empty();
        }
        Expectation expectation = expectations.apply(name);
        Optional<ScaleTensor> scale = scale(name);
        Optional<QuantType> codes = codes(data, scale, expectation);
        if (codes.isEmpty()) {
            noteUnread(name, data);
            return Optional.empty();
        }
        Optional<Shape> shape = data.dtype() == DType.I32
                ? packedShape(name, data, codes.orElseThrow())
                : logicalShape(data, codes.orElseThrow());
        TensorSpec zeroPoint = codes.orElseThrow().hasZeroPoint() ? lookup(name, "_zero_point") : null;
        return shape.map(s -> weight(
                new Named(name, s, codes.orElseThrow(), data),
                scale.orElse(null),
                globalScale(name),
                zeroPoint,
                inputScale(name),
                expectation.granularity()));
    }

    private void noteUnread(String name, TensorSpec data) {
        if (!name.equals(data.name()) && data.dtype() == DType.I32) {
            notes.add("'" + data.name()
                    + "' holds packed integers, which are read with 4 or 8 bits and a weight_scale only");
        } else if (data.dtype() == DType.I8 && data.shape().rank() == 2 && name.endsWith(WEIGHT)) {
            notes.add("'" + name + "' holds integers without a scale that Octet knows, and is taken as it is");
        }
    }

    /** The tensor of a weight's codes, and what it is without regard to scales. */
    record Named(String name, Shape shape, QuantType codes, TensorSpec data) {}

    /**
     * A weight with those of its scales that fit; a note for each that does not.
     *
     * @param expected what a configuration says of its blocks, null when it does not
     */
    StoredWeight weight(
            Named named,
            @Nullable ScaleTensor found,
            @Nullable ScaleTensor global,
            @Nullable TensorSpec zeroPoint,
            @Nullable ScaleTensor input,
            @Nullable Granularity expected) {
        Granularity granularity = found == null ? null : granularity(named, found, global, expected);
        if (found != null && granularity == null) {
            notes.add("scale '" + found.name() + "' of shape " + found.spec().shape() + " does not fit '" + named.name()
                    + "' of shape " + named.shape());
        }
        String unread = null;
        if (lookup(named.name(), "_g_idx") != null) {
            unread = "its columns are in groups of another order than that of the file (weight_g_idx, actorder: group)";
            notes.add("'" + named.name() + "' is not read: " + unread);
        } else if (named.codes().hasZeroPoint() && (zeroPoint == null || !fits(named, zeroPoint, found))) {
            unread = zeroPoint == null
                    ? "its integers are asymmetric, and it has no zero points"
                    : "its zero points are of shape " + zeroPoint.shape() + ", which does not fit its scales";
            notes.add("'" + named.name() + "' is not read: " + unread);
        }
        boolean fits = granularity != null && unread == null;
        TensorSpec shape = lookup(named.name(), SHAPE);
        return new StoredWeight(
                named.name(),
                named.shape(),
                named.codes(),
                granularity == null ? new Granularity.PerTensor() : granularity,
                named.data(),
                fits ? found : null,
                global,
                zeroPoint,
                input,
                shape,
                unread);
    }

    /** Whether there is a zero point for each scale; packed ones fill whole words down the columns. */
    private static boolean fits(Named named, TensorSpec zeroPoint, @Nullable ScaleTensor scale) {
        if (scale == null) {
            return false;
        }
        Shape scales = scale.spec().shape();
        if (zeroPoint.dtype() != DType.I32) {
            return sameCount(zeroPoint.shape(), scales);
        }
        int inWord = StoredWeight.WORD_BITS / named.codes().bits();
        return scales.rank() == 2
                && zeroPoint.shape().rank() == 2
                && zeroPoint.shape().dim(0) == Math.ceilDiv(scales.dim(0), (long) inWord)
                && zeroPoint.shape().dim(1) == scales.dim(1);
    }

    /** The shape of a matrix whose rows are packed into words: as the checkpoint tells it, else all that its words hold. */
    private Optional<Shape> packedShape(String name, TensorSpec data, QuantType codes) {
        Shape told = shapes.get(name + SHAPE);
        long words = data.shape().dim(1);
        if (told != null) {
            boolean fits = told.rank() == 2
                    && told.dim(0) == data.shape().dim(0)
                    && wordsOf(told.dim(1), codes.bits()) == words;
            if (!fits) {
                notes.add("'" + data.name() + "' of shape " + data.shape() + " does not hold a matrix of " + told
                        + ", as '" + name + SHAPE + "' says");
            }
            return fits ? Optional.of(told) : Optional.empty();
        }
        int inWord = StoredWeight.WORD_BITS / codes.bits();
        return data.shape().elementCount() > Long.MAX_VALUE / (8L * inWord)
                ? Optional.empty()
                : Optional.of(Shape.of(data.shape().dim(0), words * inWord));
    }

    private static long wordsOf(long count, int bits) {
        return Math.ceilDiv(count, (long) (StoredWeight.WORD_BITS / bits));
    }

    /** What is packed into words: of the width that the configuration says, else of that which the shape told implies. */
    private Optional<QuantType> packedCodes(TensorSpec data, Expectation expectation) {
        if (!data.name().endsWith(WEIGHT + PACKED) || data.shape().rank() != 2) {
            return Optional.empty();
        }
        String name = data.name().substring(0, data.name().length() - PACKED.length());
        QuantType said = expectation.codes();
        if (said != null) {
            return Optional.of(said).filter(QuantType::isInteger);
        }
        Shape told = shapes.get(name + SHAPE);
        if (told == null || told.rank() != 2) {
            return Optional.empty();
        }
        return Stream.of(8, 4)
                .filter(bits -> wordsOf(told.dim(1), bits) == data.shape().dim(1))
                .findFirst()
                .flatMap(bits -> QuantType.integers(bits, lookup(name, "_zero_point") != null));
    }

    private @Nullable Granularity granularity(
            Named named, ScaleTensor scale, @Nullable ScaleTensor global, @Nullable Granularity expected) {
        if (global != null
                && !ScaleGranularity.oneForEachMatrix(
                        named.shape(), global.spec().shape())) {
            notes.add("'" + global.name() + "' of shape " + global.spec().shape() + " is not one number");
            return null;
        }
        Granularity told = ScaleGranularity.of(named.shape(), scale.spec().shape(), scale.number(), expected)
                .orElse(null);
        return named.codes() == QuantType.E2M1 && !isFourBit(told, scale.number()) ? null : told;
    }

    /**
     * Whether four-bit codes have such scales: two lie in a byte along the inputs, and formats have 16 with an E4M3 scale, 32 with a power of
     * two. Anything else means that they are packed in another way.
     */
    private static boolean isFourBit(@Nullable Granularity told, DType number) {
        return switch (told) {
            case Granularity.PerGroup(int axis, int size) -> axis == -1 && (number != DType.F8_E4M3FN || size == 16);
            case Granularity.Mx(int axis, int size) -> axis == -1 && size == 32;
            case Granularity.PerTensor _, Granularity.PerChannel _, Granularity.PerToken _, Granularity.PerBlock _ ->
                false;
            case null -> false;
        };
    }

    private static boolean sameCount(Shape a, Shape b) {
        return a.elementCount() == b.elementCount();
    }

    private Optional<QuantType> codes(TensorSpec data, Optional<ScaleTensor> scale, Expectation expectation) {
        DType dtype = data.dtype();
        boolean blockScales = scale.isPresent()
                && (scale.orElseThrow().number() == DType.F8_E4M3FN
                        || scale.orElseThrow().number() == DType.F8_E8M0);
        return switch (dtype) {
            case F8_E4M3FN -> Optional.of(QuantType.E4M3FN);
            case F8_E5M2 -> Optional.of(QuantType.E5M2);
            case F8_E4M3FNUZ -> Optional.of(QuantType.E4M3FNUZ);
            case F8_E5M2FNUZ -> Optional.of(QuantType.E5M2FNUZ);
            case F4_E2M1 -> Optional.of(QuantType.E2M1);
            case U8 -> {
                if (data.shape().rank() >= 2 && (data.name().endsWith(PACKED) || blockScales)) {
                    yield Optional.of(areBytes(data, scale) ? QuantType.E4M3FN : QuantType.E2M1);
                }
                QuantType said = expectation.codes();
                yield said != null && said.dtype().isFloat8() && scale.isPresent()
                        ? Optional.of(said)
                        : Optional.empty();
            }
            case I8 -> {
                if (scale.isEmpty() || data.shape().rank() < 2) {
                    yield Optional.empty();
                }
                if (blockScales) {
                    yield Optional.of(QuantType.E2M1);
                }
                TensorSpec zero = lookup(data.name() + "_zero_point");
                yield Optional.of(
                        zero != null && zero.dtype() == DType.I8 ? QuantType.INT8_ASYMMETRIC : QuantType.INT8);
            }
            case I32 -> scale.isEmpty() ? Optional.empty() : packedCodes(data, expectation);
            default -> Optional.empty();
        };
    }

    /** Whether bytes under powers of two are one code each, as there is a scale for every 32 of them, not for 16 pairs. */
    private static boolean areBytes(TensorSpec data, Optional<ScaleTensor> scale) {
        return !data.name().endsWith(PACKED)
                && scale.isPresent()
                && scale.orElseThrow().number() == DType.F8_E8M0
                && scale.orElseThrow().spec().shape().rank() >= 2
                && scale.orElseThrow().spec().shape().dim(-1)
                        == Math.ceilDiv(data.shape().dim(-1), 32L);
    }

    /** The shape with two codes to a byte counted as two; empty when it would overflow. */
    static Optional<Shape> logicalShape(TensorSpec data, QuantType codes) {
        if (codes != QuantType.E2M1 || data.dtype() == DType.F4_E2M1) {
            return Optional.of(data.shape());
        }
        long[] dims = data.shape().toArray();
        if (dims[dims.length - 1] > Long.MAX_VALUE / 2 || data.shape().elementCount() > Long.MAX_VALUE / 8) {
            return Optional.empty();
        }
        dims[dims.length - 1] *= 2;
        return Optional.of(Shape.of(dims));
    }

    private Optional<ScaleTensor> scale(String name) {
        for (String pattern : SCALE_NAMES) {
            TensorSpec spec = sibling(name, pattern);
            if (spec != null) {
                DType number = scaleNumber(spec);
                if (number != null) {
                    return Optional.of(new ScaleTensor(spec, number, ScaleTensor.Direction.MULTIPLIER));
                }
            }
        }
        return Optional.empty();
    }

    private @Nullable ScaleTensor globalScale(String name) {
        TensorSpec multiplier = lookup(name, "_scale_2");
        if (multiplier == null) {
            multiplier = lookup(name, "_weight_scale_2");
        }
        if (multiplier != null && isFloat(multiplier)) {
            return ScaleTensor.multiplier(multiplier);
        }
        TensorSpec divisor = lookup(name, "_global_scale");
        return divisor != null && isFloat(divisor)
                ? new ScaleTensor(divisor, divisor.dtype(), ScaleTensor.Direction.DIVISOR)
                : null;
    }

    private @Nullable ScaleTensor inputScale(String name) {
        boolean ofModule = name.endsWith(WEIGHT);
        String stem = ofModule ? StoredWeight.moduleOf(name) + "." : name + "_";
        for (String ending : INPUT_NAMES) {
            TensorSpec spec = ofModule && !lastParts.contains(ending) ? null : lookup(stem + ending);
            if (spec != null && isFloat(spec)) {
                return ending.endsWith("global_scale")
                        ? new ScaleTensor(spec, spec.dtype(), ScaleTensor.Direction.DIVISOR)
                        : ScaleTensor.multiplier(spec);
            }
        }
        return null;
    }

    private @Nullable TensorSpec sibling(String name, String pattern) {
        if (pattern.startsWith("W")) {
            return lookup(name, pattern.substring(1));
        }
        return name.endsWith(WEIGHT) ? lookup(StoredWeight.moduleOf(name) + pattern.substring(1)) : null;
    }

    /** What the elements of a tensor are when it holds scales; null when it cannot. */
    static @Nullable DType scaleNumber(TensorSpec spec) {
        return switch (spec.dtype()) {
            case F32, BF16, F16, F8_E8M0, F8_E4M3FN -> spec.dtype();
            case U8 -> DType.F8_E8M0;
            default -> null;
        };
    }

    private static boolean isFloat(TensorSpec spec) {
        return spec.dtype() == DType.F32 || spec.dtype() == DType.BF16 || spec.dtype() == DType.F16;
    }

    private static boolean endsWithAny(String name, List<String> endings) {
        for (String ending : endings) {
            if (name.endsWith(ending)) {
                return true;
            }
        }
        return false;
    }
}
