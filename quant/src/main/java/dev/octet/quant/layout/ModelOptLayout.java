package dev.octet.quant.layout;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.MissingNode;
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
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * NVIDIA ModelOpt's unified Hugging Face layout, which TensorRT-LLM and vLLM read. What is quantised stands in
 * {@code hf_quant_config.json}, and once more in {@code config.json}; TensorRT-LLM prefers the first and warns when they differ.
 *
 * <pre>
 * fp8          FP8                        m.weight_scale F32 []             m.input_scale F32 []; both always
 * fp8-dynamic  FP8_PER_CHANNEL_PER_TOKEN  m.weight_scale F32 [out]
 * fp8-block    fp8_pb_wo                  m.weight_scale F32 [out/128, 1, in/128, 1]
 * mxfp8        MXFP8                      m.weight_scale U8 [out, in/32], 2^(byte - 127)
 * nvfp4        NVFP4                      m.weight U8 [out, in/2]   m.weight_scale F8_E4M3 [out, in/16]   m.weight_scale_2 F32 [], a
 *              multiplier   m.input_scale F32 []; W4A16_NVFP4 without the latter
 * KV cache                                attention.k_proj.k_scale F32 []   attention.v_proj.v_scale F32 []
 * </pre>
 *
 * <p>Sources: Model-Optimizer {@code modelopt/torch/export/{quant_utils,convert_hf_config}.py}; vLLM
 * {@code model_executor/layers/quantization/modelopt.py} at 00155cd, which for FP8 never looks whether there is an {@code input_scale}
 * and computes with garbage when there is none.
 */
final class ModelOptLayout implements Layout {
    static final String NAME = "modelopt";

    /** The algorithm of a checkpoint whose modules have several. */
    private static final String MIXED = "MIXED_PRECISION";

    private static final List<String> MIXED_ALGORITHMS = List.of("FP8", "MXFP8", "NVFP4", "W4A16_NVFP4");

    /** The file next to {@code config.json}. */
    static final String QUANT_CONFIG = "hf_quant_config.json";

    /**
     * Readers know the layout by the name of its producer; the version is that of the Model-Optimizer whose files these are like.
     */
    private static final String PRODUCER = "modelopt";

    private static final String PRODUCER_VERSION = "0.39.0";

    @Override
    public String name() {
        return NAME;
    }

    @Override
    public String summary() {
        return "TensorRT-LLM, vLLM; with hf_quant_config.json";
    }

    @Override
    public Optional<String> unsupported(Recipe recipe, LayoutOptions options) {
        Granularity granularity = recipe.weight().granularity();
        if (recipe.weight().type().isInteger() || recipe.input() == null) {
            return Optional.of("readers of layout modelopt do not know " + recipe.name() + "; compressed-tensors does");
        }
        if (options.scales() != DType.F32) {
            return Optional.of("readers of layout modelopt expect scales as F32, not as " + options.scales());
        }
        if (granularity instanceof Granularity.PerTensor && !options.staticInputs()) {
            return Optional.of("fp8 in layout modelopt needs statistics: vLLM always reads a static input scale there;"
                    + " fp8-dynamic needs none");
        }
        if (granularity instanceof Granularity.PerChannel && options.staticInputs()) {
            return Optional.of("readers of layout modelopt take activations of " + recipe.name()
                    + " per token at run time; leave the statistics away");
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
        if (shape.rank() > 2) {
            return Optional.of("readers of layout modelopt look for one module per expert, not for a tensor of all");
        }
        return Schemes.refusal(scheme, shape).or(() -> Schemes.overhang(scheme.granularity(), shape));
    }

    @Override
    public StoredWeight place(String name, Shape shape, OperandSpec scheme, LayoutOptions options) {
        Shape scaleShape = switch (scheme.granularity()) {
            case Granularity.PerBlock _ -> {
                Shape grid = scheme.granularity().scaleShape(shape);
                yield Shape.of(grid.dim(0), 1, grid.dim(1), 1);
            }
            case Granularity.PerTensor _,
                    Granularity.PerChannel _,
                    Granularity.PerGroup _,
                    Granularity.Mx _,
                    Granularity.PerToken _ -> scheme.granularity().scaleShape(shape);
        };
        return new StoredWeight(
                name,
                shape,
                scheme.type(),
                scheme.granularity(),
                Schemes.codes(name, scheme, shape),
                Schemes.scales(name + "_scale", scheme, scaleShape),
                scheme.twoLevels() ? scalar(name + "_scale_2") : null,
                null,
                options.staticInputs() ? scalar(StoredWeight.moduleOf(name) + ".input_scale") : null,
                null,
                null);
    }

    private static ScaleTensor scalar(String name) {
        return ScaleTensor.multiplier(new TensorSpec(name, DType.F32, Shape.SCALAR));
    }

    @Override
    public TensorSpec attentionScale(String attention, AttentionInput input, int heads) {
        return new TensorSpec(
                attention + "." + input.label() + "_proj." + input.label() + "_scale", DType.F32, Shape.SCALAR);
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
     * Those that vLLM knows as algorithms of a module ({@code ModelOptMixedPrecisionConfig}); it takes the module of any other for one that is not
     * quantised, and its codes for values.
     */
    @Override
    public Optional<String> unmixable(Recipe recipe, LayoutOptions options) {
        return MIXED_ALGORITHMS.contains(algorithm(recipe, options))
                ? Optional.empty()
                : Optional.of("readers of MIXED_PRECISION in layout modelopt know no modules of "
                        + algorithm(recipe, options) + " (" + recipe.ownName() + "), only of "
                        + String.join(", ", MIXED_ALGORITHMS));
    }

    /**
     * With several recipes the algorithm of the whole is {@code MIXED_PRECISION} and {@code quantized_layers} has that of each module (vLLM,
     * {@code ModelOptMixedPrecisionConfig}).
     */
    @Override
    public Map<String, ObjectNode> configure(ObjectNode config, LayoutContents contents) {
        Map<Recipe, List<StoredWeight>> byRecipe = contents.others().isEmpty() ? Map.of() : contents.byRecipe();
        if (byRecipe.size() > 1) {
            return configureMixed(config, contents, byRecipe);
        }
        String algorithm = algorithm(contents.recipe(), contents.options());
        ArrayNode excluded = excluded(config.arrayNode(), contents);
        config.remove("compression_config"); // an older name of what follows
        config.set("quantization_config", flat(config, algorithm, excluded, contents.hasCacheScales()));
        return Map.of(QUANT_CONFIG, nested(config, algorithm, excluded.deepCopy(), contents.hasCacheScales()));
    }

    private static Map<String, ObjectNode> configureMixed(
            ObjectNode config, LayoutContents contents, Map<Recipe, List<StoredWeight>> byRecipe) {
        ArrayNode excluded = excluded(config.arrayNode(), contents);
        ObjectNode layers = config.objectNode();
        ObjectNode flat = flat(config, MIXED, excluded, contents.hasCacheScales());
        ObjectNode groups = config.objectNode();
        byRecipe.forEach((recipe, weights) -> {
            String algorithm = algorithm(recipe, contents.options());
            ArrayNode targets = addGroup(groups, algorithm);
            for (StoredWeight weight : weights) {
                addAlgorithm(layers.putObject(weight.module()), algorithm);
                targets.add(weight.module());
            }
        });
        flat.set("config_groups", groups);
        flat.set("quantized_layers", layers);
        config.remove("compression_config");
        config.set("quantization_config", flat);
        ObjectNode nested = nested(config, MIXED, excluded.deepCopy(), contents.hasCacheScales());
        ((ObjectNode) nested.path("quantization")).set("quantized_layers", layers.deepCopy());
        return Map.of(QUANT_CONFIG, nested);
    }

    private static void addAlgorithm(ObjectNode node, String algorithm) {
        node.put("quant_algo", algorithm);
        int groupSize = groupSize(algorithm);
        if (groupSize > 0) {
            node.put("group_size", groupSize);
        }
    }

    private static int groupSize(String algorithm) {
        return algorithm.equals("MXFP8") ? 32 : algorithm.endsWith("NVFP4") ? 16 : 0;
    }

    /** Adds a group without targets; returns these. */
    private static ArrayNode addGroup(ObjectNode groups, String algorithm) {
        ObjectNode group = groups.putObject("group_" + groups.size());
        boolean nvfp4 = algorithm.endsWith("NVFP4");
        if (!algorithm.startsWith("W4A16")) {
            addOperand(group.putObject("input_activations"), nvfp4);
        }
        addOperand(group.putObject("weights"), nvfp4);
        return group.putArray("targets");
    }

    /** {@code hf_quant_config.json}. vLLM asks for each of these keys with NVFP4 or MXFP8, be it null. */
    private static ObjectNode nested(ObjectNode maker, String algorithm, ArrayNode excluded, boolean kvScales) {
        ObjectNode file = maker.objectNode();
        addProducer(file);
        ObjectNode quantization = file.putObject("quantization");
        quantization.put("quant_algo", algorithm);
        quantization.put("kv_cache_quant_algo", kvScales ? "FP8" : null);
        int groupSize = groupSize(algorithm);
        if (groupSize > 0) {
            quantization.put("group_size", groupSize);
        }
        quantization.set("exclude_modules", excluded);
        return file;
    }

    /** The same as ModelOpt writes it into {@code config.json}: with groups for some algorithms, without for others. */
    private static ObjectNode flat(ObjectNode maker, String algorithm, ArrayNode excluded, boolean kvScales) {
        ObjectNode flat = maker.objectNode();
        boolean nvfp4 = algorithm.endsWith("NVFP4");
        if (nvfp4 || algorithm.equals("FP8")) {
            addGroup(flat.putObject("config_groups"), algorithm).add("Linear");
        }
        flat.set("ignore", excluded);
        flat.put("quant_algo", algorithm);
        if (kvScales) {
            addOperand(flat.putObject("kv_cache_scheme"), false);
        }
        addProducer(flat);
        flat.put("quant_method", NAME);
        return flat;
    }

    private static void addOperand(ObjectNode node, boolean nvfp4) {
        node.put("dynamic", false).put("num_bits", nvfp4 ? 4 : 8).put("type", "float");
        if (nvfp4) {
            node.put("group_size", 16);
        }
    }

    private static void addProducer(ObjectNode node) {
        node.putObject("producer").put("name", PRODUCER).put("version", PRODUCER_VERSION);
    }

    private static String algorithm(Recipe recipe, LayoutOptions options) {
        return switch (recipe.weight().granularity()) {
            case Granularity.PerTensor() -> "FP8";
            case Granularity.PerChannel _ -> "FP8_PER_CHANNEL_PER_TOKEN";
            case Granularity.PerBlock _ -> "fp8_pb_wo"; // lower case: TensorRT-LLM looks for exactly this
            case Granularity.Mx _ -> "MXFP8";
            case Granularity.PerGroup _ -> options.staticInputs() ? "NVFP4" : "W4A16_NVFP4";
            case Granularity.PerToken() ->
                throw new IllegalArgumentException(recipe.name() + " is not one of layout modelopt");
        };
    }

    /**
     * {@code exclude_modules}. vLLM skips every module that an entry is a part of, so that {@code a.gate} would also skip
     * {@code a.gate_proj}; where a name is part of that of a quantised module, its last letter stands in brackets, which by the rules of
     * {@code fnmatch}, that all readers apply too, means the same name and no other.
     */
    private static ArrayNode excluded(ArrayNode excluded, LayoutContents contents) {
        List<String> quantized =
                contents.quantized().stream().map(StoredWeight::module).toList();
        for (String kept : contents.keptModules()) {
            boolean skipsOthers = !kept.isEmpty() && quantized.stream().anyMatch(q -> q.contains(kept));
            int last = kept.length() - 1;
            excluded.add(skipsOthers ? kept.substring(0, last) + "[" + kept.charAt(last) + "]" : kept);
        }
        return excluded;
    }

    @Override
    public Optional<StoredCheckpoint> recognise(Headers headers) {
        ObjectNode quantConfig = headers.quantConfig();
        Optional<ObjectNode> nested = quantConfig == null
                ? Optional.empty()
                : Configs.object(quantConfig.path("quantization")).filter(q -> q.has("quant_algo"));
        Optional<ObjectNode> found = nested.or(() -> Configs.quantization(headers.config())
                .filter(q -> Configs.method(q).startsWith(NAME)));
        if (found.isEmpty()) {
            return Optional.empty();
        }
        ObjectNode quantization = found.orElseThrow();
        String all = quantization.path("quant_algo").asText("");
        JsonNode each = quantization.path("quantized_layers");
        List<String> notes = new ArrayList<>();
        return Optional.of(new WeightFinder(
                        headers,
                        weight -> expectation(each.path(StoredWeight.moduleOf(weight))
                                .path("quant_algo")
                                .asText(all)),
                        notes)
                .find(NAME));
    }

    private static WeightFinder.Expectation expectation(String algorithm) {
        return switch (algorithm.toUpperCase(Locale.ROOT)) {
            case "FP8" -> new WeightFinder.Expectation(new Granularity.PerTensor(), QuantType.E4M3FN);
            case "FP8_PER_CHANNEL_PER_TOKEN" ->
                new WeightFinder.Expectation(new Granularity.PerChannel(-2), QuantType.E4M3FN);
            case "FP8_PB_WO" -> new WeightFinder.Expectation(new Granularity.PerBlock(128, 128), QuantType.E4M3FN);
            case "MXFP8" -> new WeightFinder.Expectation(new Granularity.Mx(32), QuantType.E4M3FN);
            default -> WeightFinder.Expectation.NONE; // names and types of NVFP4 say all
        };
    }

    /**
     * By {@code quant_algo}. Activations of {@code fp8_pb_wo} get one scale for 128 inputs, whatever "weight only" there says, as in vLLM
     * ({@code model_executor/layers/quantization/modelopt.py}).
     */
    @Override
    public Function<StoredWeight, Found> inputs(@Nullable ObjectNode quantization, @Nullable ObjectNode quantConfig) {
        String algorithm = algorithm(quantization, quantConfig);
        JsonNode inFile = quantConfig == null
                ? MissingNode.getInstance()
                : quantConfig.path("quantization").path("quantized_layers");
        JsonNode layers = inFile.isObject() || quantization == null ? inFile : quantization.path("quantized_layers");
        return weight -> inputs(
                layers.path(weight.module())
                        .path("quant_algo")
                        .asText(algorithm)
                        .toUpperCase(Locale.ROOT),
                weight);
    }

    private static Found inputs(String algorithm, StoredWeight weight) {
        return switch (algorithm) {
            case "FP8" -> Found.statically(weight);
            case "FP8_PER_CHANNEL_PER_TOKEN" -> Found.PER_TOKEN;
            case "FP8_PB_WO" -> Found.group(128);
            case "MXFP8" -> Found.MICROSCALED;
            case "NVFP4" -> Found.fourBits(weight);
            case "W4A16_NVFP4" -> Found.PLAIN;
            default ->
                weight.inputScale() == null
                        ? Found.unknown("inputs of " + (algorithm.isEmpty() ? "an unknown quant_algo" : algorithm)
                                + " are left as they are")
                        : Found.STATIC;
        };
    }

    private static String algorithm(@Nullable ObjectNode quantization, @Nullable ObjectNode quantConfig) {
        String outside = quantConfig == null
                ? ""
                : quantConfig.path("quantization").path("quant_algo").asText("");
        String inside = quantization == null
                ? ""
                : quantization
                        .path("quant_algo")
                        .asText(quantization
                                .path("quantization")
                                .path("quant_algo")
                                .asText(""));
        return (outside.isEmpty() ? inside : outside).toUpperCase(Locale.ROOT);
    }
}
