package dev.octet.quant.layout;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.cast.Words;
import dev.octet.quant.layout.InputForms.Found;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.OperandSpec;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.scale.ScaleRule;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * The layout of the compressed-tensors library, which llm-compressor writes and vLLM, SGLang and transformers (with that library) read.
 * The only one that says per-channel scales with dynamic activations in a way that all of them understand.
 *
 * <p>For module {@code m} with a weight of {@code [out, in]}:
 *
 * <pre>
 * fp8              m.weight F8_E4M3   m.weight_scale [1]
 * fp8-dynamic      m.weight F8_E4M3   m.weight_scale [out, 1]
 * fp8-weight-only  as fp8-dynamic
 * fp8-block        m.weight F8_E4M3   m.weight_scale [ceil(out/128), ceil(in/128)]
 * mxfp8            m.weight F8_E4M3   m.weight_scale U8 [out, in/32], 2^(byte - 127)
 * nvfp4            m.weight_packed U8 [out, in/2]   m.weight_scale F8_E4M3 [out, in/16]   m.weight_global_scale F32 [1], a divisor
 * int8             m.weight I8        m.weight_scale [out, 1]
 * int8-asymmetric  m.weight_packed I32 [out, in/4]   m.weight_scale [out, 1]   m.weight_zero_point I32 [out/4, 1]   m.weight_shape I64 [2]
 * int4             m.weight_packed I32 [out, in/8]   m.weight_scale [out, in/128]   m.weight_shape I64 [2]
 * int4-asymmetric  as int4, with m.weight_zero_point I32 [out/8, in/128]
 * static inputs    m.input_scale [1]; nvfp4: m.input_global_scale F32 [1], a divisor
 * KV cache         attention.k_scale F32 [1]   attention.v_scale F32 [1]; announced as kv_cache_scheme
 *                  for each head: F32 [key-value heads, 1, 1], strategy attn_head
 * attention        the same, with attention.q_scale F32 [1] or [heads, 1, 1]; a group for the class of attention, without weights, too
 * </pre>
 *
 * <p>Sources: compressed-tensors at ac8e2ba, {@code quantization/quant_scheme.py} (what presets hold),
 * {@code quantization/lifecycle/{initialize,apply}.py} (shapes; what a group for attention may hold), {@code compressors/{naive_quantized,mxfp8,nvfp4}/base.py} (names).
 *
 * <p>Blocks may overhang the edges of a weight for vLLM. The library itself forgets the configuration when it unpacks (as transformers does
 * without a GPU): it has rows / rows of scales for the height of a block, and takes a single column of blocks for channels
 * ({@code quantization/lifecycle/forward.py}, {@code dequantize}).
 *
 * <p>{@code int8-asymmetric} and {@code int4} leave activations alone, and engines know weights of integers alone in one format only,
 * {@code pack-quantized} ({@code compressors/pack_quantized}): codes plus 128, of four bits plus 8, lie in I32, the earlier in the lower bits, along the rows of a
 * weight and down the columns of zero points.
 */
final class CompressedTensorsLayout implements Layout {
    static final String NAME = "compressed-tensors";

    private static final String PACKED = "_packed";

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public String summary() {
        return "vLLM, SGLang, transformers with the compressed-tensors library";
    }

    @Override
    public Optional<String> unsupported(Recipe recipe, LayoutOptions options) {
        return Schemes.senseless(recipe, options);
    }

    @Override
    public Optional<OperandSpec> scheme(Recipe recipe, LayoutOptions options) {
        return unsupported(recipe, options).isPresent()
                ? Optional.empty()
                : Optional.of(Schemes.of(recipe, options, ScaleRule.Exponent.COMPRESSED_TENSORS));
    }

    /**
     * The model's own, as llm-compressor has it: transformers gives a weight that it unpacks the type of its scales, and where the
     * architecture's names are translated while it loads (Qwen2.5-VL, Gemma 3 with images, DINOv2) the weight keeps it, so that F32 scales meet
     * BF16 activations and the product is refused.
     */
    @Override
    public DType scaleType(DType model) {
        return model;
    }

    @Override
    public Optional<String> refusal(OperandSpec scheme, Shape shape) {
        if (shape.rank() > 2) {
            return Optional.of("readers of compressed-tensors look for one module per expert, not for a tensor of all");
        }
        Optional<String> refusal =
                Schemes.refusal(scheme, shape); // blocks may overhang: they are padded to compute and cropped to store
        if (refusal.isPresent() || !inWords(scheme.type())) {
            return refusal;
        }
        int across = Words.of(scheme.type().bits()).inWord();
        int down = scheme.type().hasZeroPoint() ? across : 1; // zero points lie in words down the outputs
        return shape.dim(-1) % across == 0 && shape.dim(-2) % down == 0
                ? refusal
                : Optional.of(shape.dim(-2) + " x " + shape.dim(-1) + " is not a multiple of " + down + " x " + across
                        + ", which vLLM packs into words");
    }

    /** Weights that engines know without quantised activations: of integers, packed into words. */
    private static boolean inWords(QuantType codes) {
        return codes.hasZeroPoint() || codes == QuantType.INT4;
    }

    @Override
    public StoredWeight place(String name, Shape shape, OperandSpec scheme, LayoutOptions options) {
        boolean words = inWords(scheme.type());
        boolean packed = scheme.type() == QuantType.E2M1;
        TensorSpec data = words
                ? new TensorSpec(
                        name + PACKED,
                        DType.I32,
                        Shape.of(shape.dim(0), Words.of(scheme.type().bits()).words(shape.dim(1))))
                : Schemes.codes(packed ? name + PACKED : name, scheme, shape);
        Shape scaleShape = switch (scheme.granularity()) {
            case Granularity.PerTensor() -> Shape.of(1);
            case Granularity.PerChannel _ -> Shape.of(shape.dim(-2), 1);
            case Granularity.PerBlock _, Granularity.PerGroup _, Granularity.Mx _, Granularity.PerToken _ ->
                scheme.granularity().scaleShape(shape);
        };
        TensorSpec zeroPoint = scheme.type().hasZeroPoint()
                ? new TensorSpec(
                        name + "_zero_point",
                        DType.I32,
                        Shape.of(Words.of(scheme.type().bits()).words(scaleShape.dim(0)), scaleShape.dim(1)))
                : null;
        return new StoredWeight(
                name,
                shape,
                scheme.type(),
                scheme.granularity(),
                data,
                Schemes.scales(name + "_scale", scheme, scaleShape),
                scheme.twoLevels() ? divisor(name + "_global_scale") : null,
                zeroPoint,
                options.staticInputs() ? inputScale(name, scheme, options) : null,
                words ? new TensorSpec(name + "_shape", DType.I64, Shape.of(shape.rank())) : null,
                null);
    }

    private static ScaleTensor inputScale(String name, OperandSpec scheme, LayoutOptions options) {
        String module = StoredWeight.moduleOf(name);
        return scheme.twoLevels()
                ? divisor(module + ".input_global_scale")
                : ScaleTensor.multiplier(new TensorSpec(module + ".input_scale", options.scales(), Shape.of(1)));
    }

    private static ScaleTensor divisor(String name) {
        return new ScaleTensor(new TensorSpec(name, DType.F32, Shape.of(1)), DType.F32, ScaleTensor.Direction.DIVISOR);
    }

    @Override
    public Optional<String> unsupported(AttentionScheme scheme) {
        return Optional.empty();
    }

    @Override
    public TensorSpec attentionScale(String attention, AttentionInput input, int heads) {
        TensorSpec one = Schemes.attentionScale(attention, input);
        return heads == 0 ? one : new TensorSpec(one.name(), one.dtype(), Shape.of(heads, 1, 1));
    }

    @Override
    public boolean configuresCache() {
        return true;
    }

    @Override
    public boolean mixes() {
        return true;
    }

    /**
     * One group for {@code Linear} as a class; with several recipes, a group for each that names its modules, because vLLM looks for the class
     * of a fused module before it looks for the modules it is made of ({@code compressed_tensors/utils.py}, {@code find_matched_target}), so
     * that a group of the class would take modules of the others. The format of the whole then is {@code mixed-precision}.
     */
    @Override
    public Map<String, ObjectNode> configure(ObjectNode config, LayoutContents contents) {
        ObjectNode quantization = config.objectNode();
        ObjectNode groups = quantization.putObject("config_groups");
        Map<Recipe, List<StoredWeight>> byRecipe = contents.others().isEmpty() ? Map.of() : contents.byRecipe();
        if (byRecipe.size() < 2) {
            addGroup(groups, config, contents.recipe(), contents.options()).add("Linear");
            quantization.put("format", format(contents.recipe()));
        } else {
            byRecipe.forEach((recipe, weights) -> {
                ArrayNode targets = addGroup(groups, config, recipe, contents.options());
                weights.forEach(w -> targets.add(w.module()));
            });
            quantization.put("format", "mixed-precision");
        }
        contents.attentionClasses().forEach(c -> addAttention(groups, c, contents.attention()));
        quantization.putNull("global_compression_ratio");
        ArrayNode ignore = quantization.putArray("ignore");
        addKept(ignore, contents);
        if (contents.hasCacheScales()) {
            quantization.set("kv_cache_scheme", attention(config.objectNode(), contents.attention()));
        } else {
            quantization.putNull("kv_cache_scheme");
        }
        quantization.put("quant_method", NAME);
        quantization.put("quantization_status", "compressed");
        config.remove("compression_config"); // an older name of the same
        config.set("quantization_config", quantization);
        return Map.of();
    }

    /** Adds a group without targets; returns these. */
    private static ArrayNode addGroup(ObjectNode groups, ObjectNode maker, Recipe recipe, LayoutOptions options) {
        ObjectNode group = groups.putObject("group_" + groups.size());
        group.put("format", format(recipe));
        ObjectNode inputs = inputs(maker.objectNode(), recipe, options);
        group.set("input_activations", inputs == null ? maker.nullNode() : inputs);
        group.putNull("output_activations");
        ArrayNode targets = group.putArray("targets");
        group.set("weights", operand(maker.objectNode(), recipe.weight(), false));
        return targets;
    }

    /**
     * Adds a group for the modules of a class that attends. vLLM takes its scales from the file by their names, and leaves out a group whose only
     * target ends in {@code Attention} ({@code compressed_tensors.py}, {@code from_config}); any other it would take for one of weights.
     */
    private static void addAttention(ObjectNode groups, String attentionClass, AttentionScheme scheme) {
        ObjectNode group = groups.putObject("group_" + groups.size());
        group.put("format", "dense");
        attention(group.putObject("input_activations"), scheme);
        group.putNull("output_activations");
        group.putArray("targets").add(attentionClass);
        group.putNull("weights");
    }

    private static ObjectNode attention(ObjectNode node, AttentionScheme scheme) {
        return arguments(node, true, 8, scheme.perHead() ? "attn_head" : "tensor", 0, false, true);
    }

    /** vLLM asks for the experts of a fused module one by one, by names that the file does not have: {@code experts.0.gate_proj}. */
    private static void addKept(ArrayNode ignore, LayoutContents contents) {
        for (String module : contents.keptModules()) {
            ignore.add(LayoutContents.expression(module).map(e -> "re:" + e).orElse(module));
            if (!contents.keptLinears().contains(module)) {
                ignore.add("re:" + module.replace(".", "\\.") + "\\..*");
            }
        }
    }

    private static String format(Recipe recipe) {
        OperandSpec weight = recipe.weight();
        if (weight.type().isInteger()) {
            return inWords(weight.type()) ? "pack-quantized" : "int-quantized";
        }
        if (weight.type() == QuantType.E2M1) {
            return "nvfp4-pack-quantized";
        }
        if (weight.granularity() instanceof Granularity.Mx) {
            return "mxfp8-quantized";
        }
        return recipe.input() == null ? "naive-quantized" : "float-quantized";
    }

    private static @Nullable ObjectNode inputs(ObjectNode node, Recipe recipe, LayoutOptions options) {
        OperandSpec input = recipe.input();
        if (input == null) {
            return null;
        }
        if (input.type() == QuantType.E2M1) {
            // Block scales of activations are found at run time, under a global one that must be in the file; without
            // it W4A16.
            if (!options.staticInputs()) {
                return null;
            }
            operand(node, input, false);
            node.put("dynamic", "local");
            return node;
        }
        if (options.staticInputs()) {
            return perTensor(node, !input.type().isInteger());
        }
        return operand(node, input, true);
    }

    private static ObjectNode perTensor(ObjectNode node, boolean isFloat) {
        return arguments(node, isFloat, 8, "tensor", 0, false, true);
    }

    private static ObjectNode operand(ObjectNode node, OperandSpec operand, boolean dynamic) {
        QuantType codes = operand.type();
        boolean isFloat = !codes.isInteger();
        boolean symmetric = !codes.hasZeroPoint();
        int bits = codes.bits();
        switch (operand.granularity()) {
            case Granularity.PerTensor() -> arguments(node, isFloat, bits, "tensor", 0, dynamic, symmetric);
            case Granularity.PerToken() -> arguments(node, isFloat, bits, "token", 0, dynamic, symmetric);
            case Granularity.PerChannel _ -> arguments(node, isFloat, bits, "channel", 0, dynamic, symmetric);
            case Granularity.PerGroup(int _, int size) -> {
                boolean nvfp4 = codes == QuantType.E2M1;
                arguments(node, isFloat, bits, nvfp4 ? "tensor_group" : "group", size, dynamic, symmetric);
                if (nvfp4) {
                    node.put("scale_dtype", "torch.float8_e4m3fn");
                }
            }
            case Granularity.Mx(int _, int size) -> {
                arguments(node, isFloat, bits, "group", size, dynamic, symmetric);
                node.put("scale_dtype", "torch.uint8");
            }
            case Granularity.PerBlock(int rows, int cols) -> {
                arguments(node, isFloat, bits, "block", 0, dynamic, symmetric);
                node.putArray("block_structure").add(rows).add(cols);
            }
        }
        return node;
    }

    /** All keys are those of {@code QuantizationArgs}, which refuses any other. */
    private static ObjectNode arguments(
            ObjectNode node,
            boolean isFloat,
            int bits,
            String strategy,
            int groupSize,
            boolean dynamic,
            boolean symmetric) {
        node.put("num_bits", bits);
        node.put("type", isFloat ? "float" : "int");
        node.put("strategy", strategy);
        if (groupSize > 0) {
            node.put("group_size", groupSize);
        } else {
            node.putNull("group_size");
        }
        node.put("symmetric", symmetric);
        node.put("dynamic", dynamic);
        if (!symmetric) {
            node.put("zp_dtype", "torch.int8");
        }
        return node;
    }

    @Override
    public Optional<StoredCheckpoint> recognise(Headers headers) {
        Optional<ObjectNode> quantization = Configs.quantization(headers.config())
                .filter(q -> Configs.method(q).equals(NAME));
        if (quantization.isEmpty()) {
            return Optional.empty();
        }
        CompressedTensorsConfig read = CompressedTensorsConfig.of(quantization.orElseThrow());
        List<String> notes = new ArrayList<>(read.notes());
        WeightFinder finder = new WeightFinder(
                headers,
                weight -> read.groupOf(StoredWeight.moduleOf(weight))
                        .map(CompressedTensorsConfig.Group::weights)
                        .map(a -> new WeightFinder.Expectation(
                                a.granularity().orElse(null), a.codes().orElse(null)))
                        .orElse(WeightFinder.Expectation.NONE),
                notes);
        return Optional.of(finder.find(
                NAME,
                w -> read.groupOf(w.module()).filter(g -> g.inputs() == null).isPresent()));
    }

    @Override
    public Function<StoredWeight, Found> inputs(@Nullable ObjectNode quantization, @Nullable ObjectNode quantConfig) {
        if (quantization == null || !Configs.method(quantization).equals(NAME)) {
            return Found::ofScale;
        }
        CompressedTensorsConfig config = CompressedTensorsConfig.of(quantization);
        return weight -> inputs(config, weight);
    }

    private static Found inputs(CompressedTensorsConfig config, StoredWeight weight) {
        Optional<CompressedTensorsConfig.Arguments> inputs =
                config.groupOf(weight.module()).flatMap(g -> Optional.ofNullable(g.inputs()));
        if (inputs.isEmpty()) {
            return Found.PLAIN;
        }
        CompressedTensorsConfig.Arguments a = inputs.orElseThrow();
        if (weight.codes() == QuantType.E2M1 && isFourBits(a)) {
            return Found.fourBits(weight);
        }
        if (weight.codes().isInteger() && !a.isFloat() && a.bits() == 8 && a.symmetric()) {
            return !a.dynamic()
                    ? Found.integers(weight)
                    : a.strategy().equals("token") ? Found.INTEGERS_PER_TOKEN : unknown(a);
        }
        if (weight.codes().isInteger()
                && !a.isFloat()
                && a.bits() == 8
                && a.dynamic()
                && a.strategy().equals("token")) {
            return Found.AFFINE_PER_TOKEN;
        }
        if (!a.isFloat() || a.bits() != 8) {
            return Found.unknown("inputs of " + a.bits() + " bits are left as they are");
        }
        if (weight.granularity() instanceof Granularity.Mx) {
            return Found.MICROSCALED;
        }
        if (!a.dynamic()) {
            return Found.statically(weight);
        }
        return switch (a.strategy()) {
            case "tensor" -> Found.PER_TENSOR;
            case "token" -> Found.PER_TOKEN;
            case "group" -> Found.group(a.groupSize());
            default -> unknown(a);
        };
    }

    private static Found unknown(CompressedTensorsConfig.Arguments inputs) {
        return Found.unknown("inputs of strategy " + inputs.strategy() + " are left as they are");
    }

    /** NVFP4, not MXFP4, whose scales are powers of two for 32. */
    private static boolean isFourBits(CompressedTensorsConfig.Arguments inputs) {
        return inputs.isFloat()
                && inputs.bits() == 4
                && inputs.strategy().equals("tensor_group")
                && inputs.groupSize() == 16;
    }
}
