package dev.octet.trainer.config;

import dev.octet.formats.error.Nearest;
import dev.octet.quant.recipe.Product;
import dev.octet.trainer.observe.CastStatistic;
import dev.octet.trainer.observe.Feature;
import dev.octet.trainer.observe.ObservedTensor;
import dev.octet.trainer.observe.StepGate;
import dev.octet.trainer.observe.TensorStatistic;
import dev.octet.trainer.yaml.Section;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Reads the features of a debug section, with the keys that Transformer Engine gives each of them. */
final class DebugFeatures {
    /** Reads a feature: what it comes to for each of its tensors. */
    interface Reader {
        /** Reads it from its keys. */
        List<Feature> read(Section s);
    }

    /** All features by name, current names first. */
    static final Map<String, Reader> READERS = readers();

    private static final Map<String, String> EARLIER_NAMES =
            Map.of("DisableFP8GEMM", "DisableQuantizationGEMM", "DisableFP8Layer", "DisableQuantizationLayer");

    private static final String TENSOR = "tensor";
    private static final String TENSORS = "tensors";
    private static final String TENSORS_STRUCT = "tensors_struct";
    private static final String GEMMS = "gemms";
    private static final String GEMMS_STRUCT = "gemms_struct";
    private static final String GEMM = "gemm";
    private static final String STATS = "stats";
    private static final String ENABLED = "enabled";

    private static final Map<String, Product> PRODUCTS = byName(Product.values());
    private static final Map<String, ObservedTensor> ALL_TENSORS = ObservedTensor.byLabel();
    private static final Map<String, ObservedTensor> OPERANDS = operands();

    private DebugFeatures() {}

    private static Map<String, Reader> readers() {
        Map<String, Reader> readers = new LinkedHashMap<>();
        readers.put("LogTensorStats", DebugFeatures::logTensorStats);
        readers.put("LogFp8TensorStats", DebugFeatures::logFp8TensorStats);
        readers.put("LogNvfp4TensorStats", DebugFeatures::logNvfp4TensorStats);
        readers.put("DumpTensors", DebugFeatures::dumpTensors);
        readers.put("FakeQuant", DebugFeatures::fakeQuant);
        readers.put("PerTensorScaling", DebugFeatures::perTensorScaling);
        readers.put("DisableQuantizationGEMM", DebugFeatures::disableGemm);
        readers.put("DisableQuantizationLayer", DebugFeatures::disableLayer);
        readers.put("DisableFP8GEMM", DebugFeatures::disableGemm);
        readers.put("DisableFP8Layer", DebugFeatures::disableLayer);
        return Collections.unmodifiableMap(readers);
    }

    private static <E extends Enum<E>> Map<String, E> byName(E[] values) {
        Map<String, E> all = new LinkedHashMap<>();
        Arrays.stream(values).forEach(v -> all.put(v.name().toLowerCase(Locale.ROOT), v));
        return all;
    }

    private static Map<String, ObservedTensor> operands() {
        Map<String, ObservedTensor> operands = new LinkedHashMap<>(ObservedTensor.byLabel());
        operands.values().removeIf(t -> t.operand().isEmpty());
        return operands;
    }

    /** What a deprecated feature is called now; empty for others. */
    static Optional<String> newName(String feature) {
        return Optional.ofNullable(EARLIER_NAMES.get(feature));
    }

    /**
     * A tensor of a feature.
     *
     * @param sections where its keys may be: its own item, that of its product, the feature; the first that has one counts
     */
    private record TensorKeys(ObservedTensor tensor, List<Section> sections) {
        /** The section whose value of a key counts. */
        Section with(String key) {
            Section found = null;
            for (Section s : sections) {
                if (s.has(key) && found == null) { // asked of all of them: the key is known there, too
                    found = s;
                }
            }
            return found == null ? sections.getLast() : found;
        }

        StepGate gate() {
            long freq = with("freq").whole("freq", 1, 1, Long.MAX_VALUE);
            Section list = with("start_end_list");
            List<List<Long>> pairs = list.pairs("start_end_list", 0);
            long start = with("start_step").whole("start_step", 0, 0, Long.MAX_VALUE);
            long end = with("end_step").whole("end_step", -1, -1, Long.MAX_VALUE);
            List<StepGate.Range> ranges = pairs.isEmpty()
                    ? List.of(range(with("end_step"), "end_step", start, end == -1 ? Long.MAX_VALUE : end))
                    : pairs.stream()
                            .map(p -> range(list, "start_end_list", p.getFirst(), p.getLast()))
                            .toList();
            return new StepGate(freq, ranges);
        }

        private static StepGate.Range range(Section s, String key, long first, long last) {
            if (first > last) {
                throw s.error(key, "steps from " + first + " to " + last + " are none", "write the first step first");
            }
            return new StepGate.Range(first, last);
        }
    }

    /**
     * Reads each tensor that {@code tensors} or {@code tensors_struct} names in a section.
     *
     * @param sections where its other keys may be
     */
    private static <T> List<T> eachTensor(
            Section s, List<Section> sections, Map<String, ObservedTensor> valid, Function<TensorKeys, T> reader) {
        requireOne(s, TENSORS, TENSORS_STRUCT);
        List<T> all = new ArrayList<>();
        Set<ObservedTensor> seen = EnumSet.noneOf(ObservedTensor.class);
        if (s.has(TENSORS)) {
            for (String name : s.texts(TENSORS)) {
                ObservedTensor tensor = valid(s, TENSORS, name, valid, TENSOR);
                requireOnce(s, TENSORS, seen.add(tensor), name);
                all.add(reader.apply(new TensorKeys(tensor, sections)));
            }
            return all;
        }
        for (Section entry : s.sections(TENSORS_STRUCT)) {
            all.add(entry.read(e -> {
                refuseEnabled(e, TENSORS_STRUCT);
                String name = e.requiredText(TENSOR);
                ObservedTensor tensor = valid(e, TENSOR, name, valid, TENSOR);
                requireOnce(e, TENSOR, seen.add(tensor), name);
                List<Section> more = new ArrayList<>(List.of(e));
                more.addAll(sections);
                return reader.apply(new TensorKeys(tensor, more));
            }));
        }
        return all;
    }

    private static void requireOne(Section s, String list, String struct) {
        if (s.has(list) == s.has(struct)) {
            throw s.error(
                    s.has(list) ? struct : list,
                    s.has(list)
                            ? list + " and " + struct + " are both given"
                            : "neither " + list + " nor " + struct + " is given",
                    "give one of them");
        }
    }

    private static void requireOnce(Section s, String key, boolean first, String name) {
        if (!first) {
            throw s.error(key, "'" + name + "' is given twice", "keep one of them");
        }
    }

    private static void refuseEnabled(Section s, String struct) {
        if (s.has(ENABLED)) {
            throw s.error(ENABLED, "an item of " + struct + " has no " + ENABLED, "leave the item out, or the key");
        }
    }

    private static <T> T valid(Section s, String key, String name, Map<String, T> valid, String noun) {
        T value = valid.get(name);
        if (value == null) {
            throw s.error(key, "unknown " + noun + " '" + name + "'", advice(name, valid.keySet()));
        }
        return value;
    }

    private static String advice(String name, Collection<String> valid) {
        List<String> near = Nearest.names(name, valid);
        return near.isEmpty() ? "valid: " + String.join(", ", valid) : "did you mean " + String.join(", ", near) + "?";
    }

    private static List<Feature> logTensorStats(Section s) {
        return eachTensor(s, List.of(s), ALL_TENSORS, t -> {
            Section stats = t.with(STATS);
            requireStats(stats);
            // of the activation and the weight, products read the transpose, too
            boolean both = t.tensor() == ObservedTensor.ACTIVATION || t.tensor() == ObservedTensor.WEIGHT;
            return new Feature.LogTensorStats(
                    t.tensor(),
                    stats.each(STATS, name -> tensorStatistic(stats, name, both), m -> blockwise(m, both)),
                    t.gate());
        });
    }

    private static TensorStatistic tensorStatistic(Section s, String name, boolean both) {
        if (name.equals(TensorStatistic.MaxBlockwiseDynamicRange.KEY)) {
            return new TensorStatistic.MaxBlockwiseDynamicRange(32, 1, both);
        }
        TensorStatistic known = TensorStatistic.OfAll.byLabel().get(name);
        if (known == null) {
            List<String> all = new ArrayList<>(TensorStatistic.OfAll.byLabel().keySet());
            all.add(TensorStatistic.MaxBlockwiseDynamicRange.KEY);
            String other = CastStatistic.byLabel().containsKey(name) ? "; it is one of LogFp8TensorStats" : "";
            throw s.error(STATS, "unknown statistic '" + name + "'" + other, advice(name, all));
        }
        return known;
    }

    private static TensorStatistic blockwise(Section m, boolean both) {
        String key = TensorStatistic.MaxBlockwiseDynamicRange.KEY;
        return m.section(key)
                .read(b -> new TensorStatistic.MaxBlockwiseDynamicRange(
                        (int) b.whole("block_size", 32, 1, 1 << 20), (int) b.whole("dims", 1, 1, 2), both));
    }

    private static void requireStats(Section s) {
        if (!s.has(STATS)) {
            throw s.error(STATS, "the key " + STATS + " is missing", "add " + STATS + ": [...]");
        }
    }

    private static <T> List<T> named(Section s, Map<String, T> valid) {
        requireStats(s);
        return s.texts(STATS).stream()
                .map(name -> valid(s, STATS, name, valid, "statistic"))
                .toList();
    }

    private static List<Feature> logFp8TensorStats(Section s) {
        Map<String, CastStatistic> valid = CastStatistic.byLabel();
        return eachTensor(
                s,
                List.of(s),
                OPERANDS,
                t -> new Feature.LogFp8TensorStats(t.tensor(), named(t.with(STATS), valid), t.gate()));
    }

    private static List<Feature> logNvfp4TensorStats(Section s) {
        Map<String, CastStatistic.Measure> valid = CastStatistic.Measure.byLabel();
        valid.values().retainAll(EnumSet.of(CastStatistic.Measure.UNDERFLOWS, CastStatistic.Measure.MSE));
        return eachTensor(
                s,
                List.of(s),
                OPERANDS,
                t -> new Feature.LogNvfp4TensorStats(t.tensor(), named(t.with(STATS), valid), t.gate()));
    }

    private static List<Feature> dumpTensors(Section s) {
        return eachTensor(s, List.of(s), ALL_TENSORS, t -> {
            boolean high = flag(t, "high_precision_tensor");
            boolean quantised = flag(t, "quantized_tensor");
            if (!high && !quantised) {
                throw t.sections()
                        .getFirst()
                        .error(
                                "high_precision_tensor",
                                "neither high_precision_tensor nor quantized_tensor is true: there is nothing to write",
                                "set one of them to true");
            }
            return new Feature.DumpTensors(t.tensor(), high, quantised, t.gate());
        });
    }

    private static boolean flag(TensorKeys t, String key) {
        return t.with(key).choice(key, DebugConfig.FLAGS, false);
    }

    /**
     * Reads each product that {@code gemms} or {@code gemms_struct} names.
     *
     * @param reader of a product and the sections where its keys may be
     */
    private static <T> List<T> eachGemm(Section s, BiFunction<Product, List<Section>, List<T>> reader) {
        requireOne(s, GEMMS, GEMMS_STRUCT);
        List<T> all = new ArrayList<>();
        Set<Product> seen = EnumSet.noneOf(Product.class);
        if (s.has(GEMMS)) {
            for (String name : s.texts(GEMMS)) {
                Product product = valid(s, GEMMS, name, PRODUCTS, GEMM);
                requireOnce(s, GEMMS, seen.add(product), name);
                all.addAll(reader.apply(product, List.of(s)));
            }
            return all;
        }
        for (Section entry : s.sections(GEMMS_STRUCT)) {
            all.addAll(entry.read(e -> {
                refuseEnabled(e, GEMMS_STRUCT);
                String name = e.requiredText(GEMM);
                Product product = valid(e, GEMM, name, PRODUCTS, GEMM);
                requireOnce(e, GEMM, seen.add(product), name);
                return reader.apply(product, List.of(e, s));
            }));
        }
        return all;
    }

    private static List<Feature> disableGemm(Section s) {
        List<Product> products = eachGemm(s, (product, _) -> List.of(product));
        if (products.isEmpty()) {
            throw s.error(GEMMS, "no gemms are named", "valid: " + String.join(", ", PRODUCTS.keySet()));
        }
        return List.of(new Feature.DisableQuantization(EnumSet.copyOf(products)));
    }

    private static List<Feature> disableLayer(Section s) {
        return List.of(new Feature.DisableQuantization(EnumSet.allOf(Product.class)));
    }

    private static List<Feature> perTensorScaling(Section s) {
        return eachGemm(
                s,
                (product, sections) -> ofGemm(
                        product,
                        sections,
                        OPERANDS,
                        t -> new Feature.PerTensorScaling(
                                product, t.tensor().operand().orElseThrow())));
    }

    private static List<Feature> fakeQuant(Section s) {
        Map<String, Feature.Format> formats = new LinkedHashMap<>();
        Arrays.stream(Feature.Format.values()).forEach(f -> formats.put(f.name(), f));
        String format = "quant_format";
        return eachGemm(
                s,
                (product, sections) -> ofGemm(
                        product,
                        sections,
                        ALL_TENSORS,
                        t -> new Feature.FakeQuant(
                                product, t.tensor(), t.with(format).requiredChoice(format, formats))));
    }

    /** What the tensors of a product come to: of those named for several products, those that this one reads or makes. */
    private static List<Feature> ofGemm(
            Product product,
            List<Section> sections,
            Map<String, ObservedTensor> valid,
            Function<TensorKeys, Feature> reader) {
        boolean own = sections.getFirst().has(TENSORS) || sections.getFirst().has(TENSORS_STRUCT);
        Section from = own ? sections.getFirst() : sections.getLast();
        List<Feature> all = eachTensor(from, sections, valid, t -> {
                    Feature read = reader.apply(t); // also of a tensor of other products: its keys are known then
                    return t.tensor().belongsTo(product) ? Stream.of(read) : Stream.<Feature>empty();
                })
                .stream()
                .flatMap(read -> read)
                .toList();
        if (all.isEmpty()) {
            throw from.error(
                    TENSORS,
                    "none of the tensors belongs to " + product.name().toLowerCase(Locale.ROOT),
                    "valid: "
                            + valid.values().stream()
                                    .filter(t -> t.belongsTo(product))
                                    .map(ObservedTensor::label)
                                    .collect(Collectors.joining(", ")));
        }
        return all;
    }
}
