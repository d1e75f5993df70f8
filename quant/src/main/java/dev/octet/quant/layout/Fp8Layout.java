package dev.octet.quant.layout;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.block.Granularity;
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
 * {@code quant_method: "fp8"}: the layout of DeepSeek-V3, which vLLM, SGLang, TensorRT-LLM and transformers read.
 *
 * <pre>
 * fp8-block   m.weight F8_E4M3 [out, in]      m.weight_scale_inv F32 [out/128, in/128]; a multiplier, whatever its name says
 *             experts.x F8_E4M3 [e, out, in]  experts.x_scale_inv F32 [e, out/128, in/128]; transformers
 * fp8         m.weight F8_E4M3 [out, in]      m.weight_scale F32 [1]   static inputs: m.input_scale F32 [1]; vLLM and SGLang only,
 *             transformers calls the same two {@code weight_scale_inv} and {@code activation_scale} and, but for a warning, loads codes
 *             without their scales when it does not find these
 * </pre>
 *
 * <p>Fused experts have the names of the parameters of transformers' {@code FP8Experts}, which it makes where there is a GPU for FP8. Where it
 * dequantises while loading (5.18, {@code quantizers/quantizer_finegrained_fp8.py}) it folds in only {@code weight_scale_inv}, and experts
 * in a tensor of all lose their scales with a mere warning: files with a module for each expert, which transformers saves, do not.
 *
 * <p>Scales of a KV cache are {@code attention.k_scale} and {@code attention.v_scale}, F32 [1]. No key of the configuration announces them: vLLM
 * takes them when it is started with {@code --kv-cache-dtype fp8} ({@code model_executor/layers/quantization/kv_cache.py}).
 *
 * <p>Powers of two stay in F32 and {@code scale_fmt: "ue8m0"} says so, as in DeepSeek-V3.1: every reader takes these.
 *
 * <p>Sizes must be multiples of 128, as transformers has rows / rows of scales for the height of a block
 * ({@code integrations/finegrained_fp8.py}, {@code Fp8Dequantize}, 5.18).
 */
final class Fp8Layout implements Layout {
    static final String NAME = "fp8";

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public String summary() {
        return "DeepSeek's blocks: vLLM, SGLang, TensorRT-LLM, transformers; per tensor: vLLM and SGLang";
    }

    @Override
    public Optional<String> unsupported(Recipe recipe, LayoutOptions options) {
        Granularity granularity = recipe.weight().granularity();
        boolean sayable = recipe.weight().type() == QuantType.E4M3FN
                && recipe.input() != null
                && (granularity instanceof Granularity.PerTensor || granularity instanceof Granularity.PerBlock);
        if (!sayable) {
            return Optional.of("layout fp8 knows one scale per weight (fp8) or per 128 x 128 block (fp8-block), not "
                    + recipe.name() + "; compressed-tensors does");
        }
        if (options.scales() != DType.F32) {
            return Optional.of("readers of layout fp8 expect scales as F32, not as " + options.scales());
        }
        return Schemes.senseless(recipe, options);
    }

    @Override
    public Optional<OperandSpec> scheme(Recipe recipe, LayoutOptions options) {
        return unsupported(recipe, options).isPresent()
                ? Optional.empty()
                : Optional.of(Schemes.of(recipe, options, ScaleRule.Exponent.CEIL));
    }

    @Override
    public Optional<String> refusal(OperandSpec scheme, Shape shape) {
        if (shape.rank() > 3 || (shape.rank() == 3 && scheme.perTensor())) {
            return Optional.of("no consumer reads one scale for a weight of shape " + shape);
        }
        return Schemes.refusal(scheme, shape).or(() -> Schemes.overhang(scheme.granularity(), shape));
    }

    @Override
    public StoredWeight place(String name, Shape shape, OperandSpec scheme, LayoutOptions options) {
        TensorSpec scale = scheme.perTensor()
                ? new TensorSpec(name + "_scale", scheme.scaleType(), Shape.of(1))
                : new TensorSpec(
                        name + "_scale_inv",
                        scheme.scaleType(),
                        scheme.granularity().scaleShape(shape));
        ScaleTensor input = options.staticInputs()
                ? ScaleTensor.multiplier(
                        new TensorSpec(StoredWeight.moduleOf(name) + ".input_scale", DType.F32, Shape.of(1)))
                : null;
        return new StoredWeight(
                name,
                shape,
                scheme.type(),
                scheme.granularity(),
                new TensorSpec(name, scheme.type().dtype(), shape),
                ScaleTensor.multiplier(scale),
                null,
                null,
                input,
                null,
                null);
    }

    @Override
    public TensorSpec attentionScale(String attention, AttentionInput input, int heads) {
        return Schemes.attentionScale(attention, input);
    }

    @Override
    public boolean configuresCache() {
        return false;
    }

    @Override
    public Map<String, ObjectNode> configure(ObjectNode config, LayoutContents contents) {
        ObjectNode quantization = config.objectNode();
        quantization.put("activation_scheme", contents.options().staticInputs() ? "static" : "dynamic");
        quantization.put("fmt", "e4m3");
        addKept(quantization, contents);
        quantization.put("quant_method", NAME);
        if (contents.recipe().weight().granularity() instanceof Granularity.PerBlock(int rows, int cols)) {
            if (contents.options().powerOfTwoScales()) {
                quantization.put("scale_fmt", "ue8m0");
            }
            quantization.putArray("weight_block_size").add(rows).add(cols);
        } else {
            quantization.putNull("weight_block_size"); // for transformers absence means 128 x 128
        }
        config.remove("compression_config");
        config.set("quantization_config", quantization);
        return Map.of();
    }

    /**
     * {@code modules_to_not_convert}, which all read. transformers takes each for a regular expression at the start of a path, and for
     * the end of one, so that {@code a.gate} would also skip {@code a.gate_proj}; where a name is part of that of a quantised module in
     * such a way, it gets a {@code $}, and vLLM, which compares names, its own list.
     */
    private static void addKept(ObjectNode quantization, LayoutContents contents) {
        List<String> quantized =
                contents.quantized().stream().map(StoredWeight::module).toList();
        boolean ambiguous = false;
        ArrayNode patterns = quantization.arrayNode();
        for (String kept : contents.keptModules()) {
            boolean skipsOthers = quantized.stream().anyMatch(q -> q.startsWith(kept) || q.endsWith(kept));
            patterns.add(LayoutContents.expression(kept).orElse(skipsOthers ? kept + "$" : kept));
            ambiguous |= skipsOthers;
        }
        if (ambiguous) {
            ArrayNode names = quantization.putArray("ignored_layers");
            contents.keptModules().stream().filter(k -> !k.contains("*")).forEach(names::add);
        }
        quantization.set("modules_to_not_convert", patterns);
    }

    @Override
    public Optional<StoredCheckpoint> recognise(Headers headers) {
        Optional<ObjectNode> quantization = Configs.quantization(headers.config())
                .filter(q -> Configs.method(q).equals(NAME) || Configs.method(q).equals("mxfp8"));
        if (quantization.isEmpty()) {
            return Optional.empty();
        }
        Granularity blocks = blocks(quantization.orElseThrow().path("weight_block_size"));
        WeightFinder.Expectation expectation = new WeightFinder.Expectation(blocks, QuantType.E4M3FN);
        List<String> notes = new ArrayList<>();
        return Optional.of(new WeightFinder(headers, _ -> expectation, notes).find(NAME));
    }

    private static @Nullable Granularity blocks(JsonNode size) {
        int rows = size.path(0).asInt(0);
        int cols = size.path(1).asInt(0);
        if (size.size() != 2 || rows < 1 || cols < 1) {
            return null;
        }
        return rows == 1 ? new Granularity.PerGroup(-1, cols) : new Granularity.PerBlock(rows, cols);
    }

    /**
     * By {@code activation_scheme} and the width of a block. Without blocks activations get one scale for each token, as in vLLM
     * ({@code model_executor/layers/quantization/fp8.py}).
     */
    @Override
    public Function<StoredWeight, Found> inputs(@Nullable ObjectNode quantization, @Nullable ObjectNode quantConfig) {
        return weight -> inputs(quantization, weight);
    }

    private static Found inputs(@Nullable ObjectNode quantization, StoredWeight weight) {
        if (quantization == null) {
            return Found.ofScale(weight);
        }
        if (quantization.path("activation_scheme").asText("dynamic").equals("static")) {
            return Found.statically(weight);
        }
        return switch (weight.granularity()) {
            case Granularity.PerBlock(int _, int cols) -> Found.group(cols);
            case Granularity.PerGroup(int _, int size) -> Found.group(size);
            case Granularity.Mx _ -> Found.MICROSCALED;
            case Granularity.PerTensor _, Granularity.PerChannel _, Granularity.PerToken _ -> Found.PER_TOKEN;
        };
    }
}
