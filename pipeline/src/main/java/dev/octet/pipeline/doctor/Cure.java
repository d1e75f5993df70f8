package dev.octet.pipeline.doctor;

import static java.util.Objects.requireNonNull;

import dev.octet.quant.recipe.LinearTensor;
import dev.octet.quant.recipe.Product;
import dev.octet.quant.recipe.ProductOperand;
import dev.octet.trainer.observe.TransformerEngineName;
import dev.octet.trainer.precision.Fp8Layer;
import dev.octet.trainer.precision.Fp8Policy;
import dev.octet.trainer.precision.Fp8Settings;
import dev.octet.trainer.precision.Fp8Settings.LayerOverride;
import dev.octet.trainer.precision.OperandChange;
import dev.octet.trainer.yaml.Section;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

/**
 * A cure in the words of three tools.
 *
 * @param precision the section {@code precision:} of the run's configuration with the cure in it, as YAML
 * @param teDebug a debug file of Transformer Engine (nvdlfw-inspect): {@code DisableQuantizationGEMM}, {@code PerTensorScaling}
 * @param torchaoModules names of modules that torchao's {@code module_filter_fn} has to leave in high precision: it knows no products and no
 *     operands, and scales by the values of the step anyway
 * @param torchaoFilter such a function, in Python
 */
public record Cure(String precision, String teDebug, List<String> torchaoModules, String torchaoFilter) {
    private static final String INDENT = "  ";

    public Cure {
        torchaoModules = List.copyOf(torchaoModules);
    }

    /**
     * A cure of single operands.
     *
     * @param config the run's configuration
     * @param policy the run's
     * @param layers in FP8 by that policy
     * @param changes by the id of a Linear's node
     */
    public static Cure of(
            Section config,
            Fp8Policy policy,
            List<Fp8Layer> layers,
            Map<String, Map<ProductOperand, OperandChange>> changes) {
        List<Fp8Layer> changed =
                layers.stream().filter(l -> changes.containsKey(l.node())).toList();
        List<String> items = new ArrayList<>();
        grouped(config, policy.settings(), changed, changes).forEach((keys, group) -> items.add(item(keys, group)));
        for (Section old : config.section("precision").sections("layers")) {
            items.add("{" + flow(old) + "}");
        }
        String assignment = "precision.layers=[" + String.join(", ", items) + "]";
        List<String> modules = changed.stream()
                .filter(l -> requireNonNull(changes.get(l.node())).values().stream()
                        .anyMatch(c -> !(c instanceof OperandChange.Current)))
                .map(Fp8Layer::module)
                .toList();
        return new Cure(
                precision(config, List.of(assignment)), teDebug(changed, changes), modules, torchaoFilter(modules));
    }

    /**
     * A cure by a feature that is switched off.
     *
     * @param key in {@code precision:}
     * @param value that switches it off
     */
    public static Cure ofFeature(Section config, String key, String value) {
        return new Cure(precision(config, List.of("precision." + key + "=" + value)), "", List.of(), "");
    }

    private static String precision(Section config, List<String> assignments) {
        String section =
                config.with(assignments, "octet doctor").section("precision").yaml();
        return "precision:\n" + section.lines().map(l -> INDENT + l + "\n").collect(Collectors.joining());
    }

    /** Layers that the configuration has to say the same of, by what it has to say, in the words of {@code layers}. */
    private static Map<String, List<Fp8Layer>> grouped(
            Section config,
            Fp8Settings settings,
            List<Fp8Layer> changed,
            Map<String, Map<ProductOperand, OperandChange>> changes) {
        Map<String, List<Fp8Layer>> groups = new LinkedHashMap<>();
        for (Fp8Layer layer : changed) {
            groups.computeIfAbsent(
                            keys(config, settings, layer, requireNonNull(changes.get(layer.node()))),
                            _ -> new ArrayList<>())
                    .add(layer);
        }
        return groups;
    }

    /** All that an item says but for the layers it is for: what an earlier item said of the layer, and the changes on top. */
    private static String keys(
            Section config, Fp8Settings settings, Fp8Layer layer, Map<ProductOperand, OperandChange> changes) {
        Map<ProductOperand, OperandChange> all = new TreeMap<>(settings.operands());
        Set<Product> products = settings.highPrecision();
        List<String> keys = new ArrayList<>();
        Optional<LayerOverride> earlier = settings.overrides().stream()
                .filter(o -> o.layers().matcher(layer.node()).find()
                        || o.layers().matcher(layer.weight()).find())
                .findFirst();
        if (earlier.isPresent()) {
            LayerOverride override = earlier.get();
            all = new TreeMap<>(override.operands());
            products = override.highPrecision() == null ? products : override.highPrecision();
            Section old = config.section("precision")
                    .sections("layers")
                    .get(settings.overrides().indexOf(override));
            old.yaml()
                    .lines()
                    .filter(l -> !l.matches("(match|high_precision|current|fp8): .*"))
                    .forEach(keys::add);
        }
        for (Product product : products) {
            for (ProductOperand operand : ProductOperand.of(product)) {
                all.put(operand, new OperandChange.Unquantised());
            }
        }
        all.putAll(changes);
        Set<ProductOperand> kept = new TreeSet<>();
        Set<ProductOperand> current = new TreeSet<>();
        boolean fake = false;
        for (Map.Entry<ProductOperand, OperandChange> e : all.entrySet()) {
            switch (e.getValue()) {
                case OperandChange.Unquantised _ -> kept.add(e.getKey());
                case OperandChange.Current _ -> current.add(e.getKey());
                case OperandChange.Fake _ -> fake = true;
            }
        }
        if (kept.containsAll(ProductOperand.ALL)) {
            return "fp8: false";
        }
        if (!kept.isEmpty()) {
            keys.add("high_precision: [" + String.join(", ", names(kept)) + "]");
        }
        if (!current.isEmpty()) {
            keys.add("current: [" + String.join(", ", names(current)) + "]");
        }
        if (fake) {
            keys.removeIf(k -> k.startsWith("fake_quantize:"));
            keys.add("fake_quantize: true");
        }
        return String.join(", ", keys);
    }

    /** Operands, both of a product as the product. */
    private static List<String> names(Set<ProductOperand> operands) {
        List<String> names = new ArrayList<>();
        for (Product product : Product.values()) {
            List<ProductOperand> of = ProductOperand.of(product);
            if (operands.containsAll(of)) {
                names.add(product.name().toLowerCase(Locale.ROOT));
            } else {
                of.stream().filter(operands::contains).forEach(o -> names.add(o.toString()));
            }
        }
        return names;
    }

    private static String item(String keys, List<Fp8Layer> layers) {
        String pattern = pattern(layers.stream().map(Fp8Layer::node).toList());
        return "{match: '" + pattern.replace("'", "''") + "', " + keys + "}";
    }

    /** A regular expression for exactly these names, in Java and in Python. */
    static String pattern(List<String> names) {
        List<String> escaped = names.stream()
                .map(n -> n.replaceAll("[\\\\^$.|?*+()\\[\\]{}]", "\\\\$0"))
                .toList();
        return "^" + (escaped.size() == 1 ? escaped.getFirst() : "(" + String.join("|", escaped) + ")") + "$";
    }

    private static String flow(Section section) {
        return section.yaml().lines().collect(Collectors.joining(", "));
    }

    private static String teDebug(List<Fp8Layer> layers, Map<String, Map<ProductOperand, OperandChange>> changes) {
        Map<String, List<String>> sections = new LinkedHashMap<>();
        for (Fp8Layer layer : layers) {
            sections.computeIfAbsent(features(requireNonNull(changes.get(layer.node()))), _ -> new ArrayList<>())
                    .add(layer.module());
        }
        StringBuilder text = new StringBuilder();
        Set<String> named = new HashSet<>();
        int i = 0;
        for (Map.Entry<String, List<String>> section : sections.entrySet()) {
            text.append("octet_doctor_")
                    .append(++i)
                    .append(":\n")
                    .append(INDENT)
                    .append("enabled: true\n");
            text.append(INDENT).append("layers:\n");
            text.append(INDENT.repeat(2))
                    .append("layer_name_regex_pattern: '")
                    .append(pattern(teNames(section.getValue(), named)).replace("'", "''"))
                    .append("'\n");
            text.append(INDENT).append("transformer_engine:\n").append(section.getKey());
        }
        return text.toString();
    }

    /**
     * Modules by their names in the checkpoint and by Transformer Engine's. One of its modules may be several in the checkpoint (query, key and
     * value); it is in the first section that has one of them, as a layer can be in one section only.
     *
     * @param named Transformer Engine's names so far, which are added to
     */
    private static List<String> teNames(List<String> modules, Set<String> named) {
        Set<String> names = new LinkedHashSet<>(modules);
        for (String module : modules) {
            for (TransformerEngineName te : TransformerEngineName.of(module)) {
                te.full().stream().filter(named::add).forEach(names::add);
            }
        }
        return List.copyOf(names);
    }

    /** Features for a layer. Transformer Engine takes a product out of FP8 as a whole, and scales tensors of a product one by one. */
    private static String features(Map<ProductOperand, OperandChange> changes) {
        Set<Product> disabled = EnumSet.noneOf(Product.class);
        Map<Product, List<String>> scaled = new TreeMap<>();
        changes.forEach((operand, change) -> {
            if (change instanceof OperandChange.Current) {
                scaled.computeIfAbsent(operand.product(), _ -> new ArrayList<>())
                        .add(teName(operand.tensor()));
            } else {
                disabled.add(operand.product());
            }
        });
        scaled.keySet().removeAll(disabled);
        StringBuilder text = new StringBuilder();
        if (!disabled.isEmpty()) {
            text.append(INDENT.repeat(2)).append("DisableQuantizationGEMM:\n");
            text.append(INDENT.repeat(3)).append("enabled: true\n");
            text.append(INDENT.repeat(3))
                    .append("gemms: [")
                    .append(disabled.stream().map(Cure::lower).collect(Collectors.joining(", ")))
                    .append("]\n");
        }
        if (!scaled.isEmpty()) {
            text.append(INDENT.repeat(2)).append("PerTensorScaling:\n");
            text.append(INDENT.repeat(3)).append("enabled: true\n");
            text.append(INDENT.repeat(3)).append("gemms_struct:\n");
            scaled.forEach((product, tensors) -> text.append(INDENT.repeat(4))
                    .append("- gemm: ")
                    .append(lower(product))
                    .append('\n')
                    .append(INDENT.repeat(5))
                    .append("tensors: [")
                    .append(String.join(", ", tensors))
                    .append("]\n"));
        }
        return text.toString();
    }

    private static String lower(Product product) {
        return product.name().toLowerCase(Locale.ROOT);
    }

    private static String teName(LinearTensor tensor) {
        return switch (tensor) {
            case INPUT -> "activation";
            case WEIGHT -> "weight";
            case GRAD_OUTPUT -> "gradient";
        };
    }

    private static String torchaoFilter(List<String> modules) {
        String names = modules.stream().map(m -> "    " + quoted(m) + ",\n").collect(Collectors.joining());
        return """
            # For torchao.float8.convert_to_float8_training(model, module_filter_fn=module_filter_fn).
            # torchao scales by the values of the step and takes modules as a whole.
            HIGH_PRECISION = {
            %s}


            def module_filter_fn(module, fqn):
                return fqn not in HIGH_PRECISION
            """.formatted(modules.isEmpty() ? "" : names).replace("{\n}", "set()");
    }

    private static String quoted(String name) {
        return "\"" + name.replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }
}
