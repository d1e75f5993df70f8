package dev.octet.converter.merge;

import dev.octet.converter.checkpoint.MergedWeights;
import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.peft.AdaptedModule;
import dev.octet.formats.peft.LoraConfig;
import dev.octet.formats.peft.PeftAdapter;
import dev.octet.formats.peft.PeftConfig;
import dev.octet.formats.peft.PeftRole;
import dev.octet.formats.peft.PeftType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.Blocks;
import dev.octet.quant.cast.Floats;
import dev.octet.quant.merge.Dora;
import dev.octet.quant.merge.LowRank;
import dev.octet.quant.merge.LowRank.Orientation;
import dev.octet.quant.merge.WeightDelta;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.SequencedMap;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * What adapters do to the weights of a base. Everything that can be known without reading the base is checked when it is made: names, shapes,
 * numbers, and whether several adapters add up. The factors of a weight are read when they are asked for.
 *
 * <p>Several adapters add up as PEFT's {@code add_weighted_adapter(combination_type="cat")} adds them: the sum of their products, each times
 * its weight.
 */
public final class AdapterDeltas implements MergedWeights {
    private static final int SHOWN = 3;

    private final SequencedMap<String, List<Part>> parts;
    private final Direction direction;
    private final List<String> notes;
    private final BaseWeights base;

    /** Whether adapters go into the weights or out of them. */
    public enum Direction {
        /** Base to merged model. */
        MERGE,
        /** Merged model to base. */
        UNMERGE
    }

    /**
     * An adapter and its share.
     *
     * @param weight factor of its scaling; 1 for an adapter on its own
     */
    public record Weighted(PeftAdapter adapter, double weight) {}

    /** What one adapter does to one weight. */
    private record Part(
            Weighted source, Kind kind, Map<PeftRole, Tensor> tensors, String path, Orientation orientation) {
        String from() {
            return source.adapter().folder().toString();
        }
    }

    /** Ways to change a weight. */
    private enum Kind {
        LOW_RANK("a low-rank product"),
        DORA("DoRA"),
        FACTORS("IA3"),
        BIAS("the bias of a product"),
        REPLACED("a tensor of its own");

        private final String text;

        Kind(String text) {
            this.text = text;
        }
    }

    private AdapterDeltas(BaseWeights base, Direction direction) {
        this.base = base;
        this.direction = direction;
        this.parts = new LinkedHashMap<>();
        this.notes = new ArrayList<>();
    }

    /**
     * Brings adapters to a base.
     *
     * @throws UnsupportedModelException when a method has no merged weight
     * @throws MalformedModelException when an adapter contradicts itself
     * @throws InvalidDataException when it does not fit the base, holds NaN or infinity, or changes nothing
     * @throws InvalidOptionException when several adapters do not add up, or one cannot be taken back
     */
    public static AdapterDeltas of(BaseWeights base, List<Weighted> adapters, Direction direction) {
        AdapterDeltas deltas = new AdapterDeltas(base, direction);
        adapters.forEach(deltas::add);
        deltas.requireAddable();
        deltas.requireChange();
        if (direction == Direction.UNMERGE) {
            deltas.requireInverse();
        }
        return deltas;
    }

    @Override
    public Set<String> names() {
        return Collections.unmodifiableSet(parts.keySet());
    }

    /** What the user should know. */
    public List<String> notes() {
        return List.copyOf(notes);
    }

    private void add(Weighted source) {
        PeftAdapter adapter = source.adapter();
        requireMergeable(adapter);
        requireFinite(adapter);
        List<String> missing = new ArrayList<>();
        adapter.modules().forEach((path, module) -> addModule(source, module, missing));
        adapter.saved().forEach((path, tensor) -> replace(source, path, PeftRole.SAVED, tensor, missing));
        if (!missing.isEmpty()) {
            throw new InvalidDataException(
                    "the base has no " + some(missing) + ", which the adapter changes",
                    adapter.folder() + " for " + base.where() + trainedOn(adapter),
                    hint(missing));
        }
        if (adapter.modules().isEmpty() && adapter.saved().isEmpty()) {
            throw new InvalidDataException(
                    "the adapter changes no weight: it has no tensors for any module",
                    adapter.folder().toString(),
                    "check target_modules in adapter_config.json, and that training saved the adapter");
        }
        noteBase(adapter);
    }

    private static String trainedOn(PeftAdapter adapter) {
        return adapter.config().baseModel().map(b -> ", trained on " + b).orElse("");
    }

    private String hint(List<String> missing) {
        boolean head = missing.stream().anyMatch(m -> m.endsWith("lm_head.weight"));
        return head
                ? "if the head shares the embedding's weight, merging would change both: untie them first"
                        + " (tie_word_embeddings: false, with a tensor lm_head.weight of its own); else give the"
                        + " adapter's own base"
                : "give the base that the adapter was trained on; `octet inspect` lists the names of both";
    }

    private static String some(List<String> names) {
        return String.join(", ", names.subList(0, Math.min(SHOWN, names.size())))
                + (names.size() > SHOWN ? " and " + (names.size() - SHOWN) + " more" : "");
    }

    /** Folders are called as people like, so another name is no proof of another base. */
    private void noteBase(PeftAdapter adapter) {
        String given = last(base.where());
        adapter.config()
                .baseModel()
                .filter(b -> !last(b).equals(given))
                .ifPresent(b -> notes.add(adapter.folder().getFileName() + " was trained on '" + b
                        + "'; names and shapes fit this base"));
    }

    private static String last(String path) {
        String trimmed = path.replaceAll("[/\\\\]+$", "");
        return trimmed.substring(Math.max(trimmed.lastIndexOf('/'), trimmed.lastIndexOf('\\')) + 1);
    }

    private static void requireMergeable(PeftAdapter adapter) {
        PeftConfig config = adapter.config();
        PeftType type = config.type();
        String why = type.isPrompt()
                ? "it adds virtual tokens to the input, which no weight of the base can hold"
                : type == PeftType.BOTTLENECK
                        ? "it adds layers with a nonlinearity between the base's, which no weight of the base can hold"
                        : null;
        if (why != null) {
            throw new UnsupportedModelException(
                    "an adapter of " + type + " cannot be merged: " + why,
                    config.where(),
                    "keep the adapter apart: serve it next to the base");
        }
        if (type == PeftType.LORA && !config.lora().foreignKeys().isEmpty()) {
            throw new UnsupportedModelException(
                    "Octet does not know what "
                            + String.join(", ", config.lora().foreignKeys()) + " computes",
                    config.where(),
                    "merge the adapter with the program that trained it");
        }
        boolean tokens = adapter.modules().values().stream()
                .anyMatch(m -> m.tensor(PeftRole.TOKENS).isPresent());
        if (tokens) {
            throw new UnsupportedModelException(
                    "Octet does not merge vectors of single tokens (trainable_token_indices)",
                    config.where(),
                    "merge the adapter with PEFT");
        }
    }

    private static void requireFinite(PeftAdapter adapter) {
        adapter.tensors().forEach((key, tensor) -> {
            DType type = tensor.dtype();
            if (type != DType.F32 && type != DType.BF16 && type != DType.F16) {
                throw new UnsupportedModelException(
                        "elements of type " + type + " are not floats of an adapter",
                        adapter.folder() + ", tensor '" + key + "'",
                        "save the adapter as F32, BF16 or F16");
            }
            for (long i = 0; i < tensor.shape().elementCount(); i++) {
                float value = Floats.get(type, tensor.bytes(), i);
                if (!Float.isFinite(value)) {
                    throw new InvalidDataException(
                            "the adapter holds " + value,
                            adapter.folder() + ", tensor '" + key + "', element " + i,
                            "its training diverged: take an earlier checkpoint of it");
                }
            }
        });
    }

    private void addModule(Weighted source, AdaptedModule module, List<String> missing) {
        Map<PeftRole, Tensor> tensors = module.tensors();
        for (Map.Entry<PeftRole, Tensor> e : tensors.entrySet()) {
            String path = module.path();
            switch (e.getKey()) {
                case LORA_A -> lora(source, module, PeftRole.LORA_A, PeftRole.LORA_B, missing);
                case LORA_EMBEDDING_A ->
                    lora(source, module, PeftRole.LORA_EMBEDDING_A, PeftRole.LORA_EMBEDDING_B, missing);
                case LORA_B_BIAS -> bias(source, path, e.getValue(), missing);
                case IA3 -> ia3(source, path, e.getValue(), missing);
                case NORM_WEIGHT, BASE_WEIGHT -> replace(source, path + ".weight", e.getKey(), e.getValue(), missing);
                case NORM_BIAS, BASE_BIAS -> replace(source, path + ".bias", e.getKey(), e.getValue(), missing);
                case LORA_B, LORA_EMBEDDING_B, LORA_MAGNITUDE -> {
                    boolean alone =
                            !tensors.containsKey(PeftRole.LORA_A) && !tensors.containsKey(PeftRole.LORA_EMBEDDING_A);
                    if (alone) {
                        throw incomplete(source, path, e.getKey().suffix(), PeftRole.LORA_A.suffix());
                    }
                }
                case TOKENS, DOWN_WEIGHT, DOWN_BIAS, UP_WEIGHT, UP_BIAS, PROMPT, SAVED ->
                    throw new UnsupportedModelException(
                            "a tensor of role " + e.getKey() + " cannot be merged",
                            source.adapter().folder() + ", module '" + path + "'",
                            "keep the adapter apart: serve it next to the base");
            }
        }
    }

    private static MalformedModelException incomplete(Weighted source, String path, String has, String lacks) {
        return new MalformedModelException(
                "module '" + path + "' has " + has + " but no " + lacks,
                source.adapter().folder().toString(),
                "save the adapter again; half of a product is nothing");
    }

    private void lora(Weighted source, AdaptedModule module, PeftRole roleA, PeftRole roleB, List<String> missing) {
        LoraConfig config = source.adapter().config().lora();
        Tensor a = module.tensors().get(roleA);
        Tensor b = module.tensors().get(roleB);
        if (a == null || b == null) {
            throw incomplete(source, module.path(), roleA.suffix(), roleB.suffix());
        }
        if (a.shape().rank() != 2 || b.shape().rank() != 2) {
            throw new UnsupportedModelException(
                    "factors of shape " + a.shape() + " and " + b.shape() + " are those of a convolution",
                    source.adapter().folder() + ", module '" + module.path() + "'",
                    "Octet merges products of Linears, Conv1Ds, embeddings and experts; merge this one with PEFT");
        }
        Optional<String> name = base.find(module.path() + ".weight");
        if (name.isEmpty()) {
            name = parameter(source, config, module.path(), a.shape(), b.shape());
        }
        if (name.isEmpty()) {
            missing.add(module.path() + ".weight");
            return;
        }
        Shape weight = base.shape(name.get());
        String where = source.adapter().folder() + ", module '" + module.path() + "'";
        if (weight.rank() < 2) {
            throw new InvalidDataException(
                    "the adapter targets a vector: weight " + name.get() + " of shape " + weight + " is a norm's",
                    where,
                    "a product of two factors changes matrices; train norms with LN tuning or modules_to_save");
        }
        requireRank(config, module.path(), a.shape(), b.shape(), weight, where);
        Orientation orientation = roleA == PeftRole.LORA_EMBEDDING_A
                ? Orientation.IN_OUT
                : orientation(config, name.get(), weight, a.shape(), b.shape(), where);
        boolean embedding = roleA == PeftRole.LORA_EMBEDDING_A;
        if (embedding && !fits(weight, a.shape(), b.shape(), orientation)) {
            throw other(name.get(), weight, a.shape(), b.shape(), where);
        }
        Tensor magnitude = module.tensors().get(PeftRole.LORA_MAGNITUDE);
        if (config.useDora() && magnitude == null) {
            throw incomplete(source, module.path(), roleA.suffix(), PeftRole.LORA_MAGNITUDE.suffix());
        }
        Kind kind = magnitude == null ? Kind.LOW_RANK : Kind.DORA;
        long outputs = orientation == Orientation.OUT_IN ? weight.dim(-2) : weight.dim(-1);
        if (magnitude != null && magnitude.shape().elementCount() != outputs) {
            throw new InvalidDataException(
                    magnitude.shape().elementCount() + " magnitudes for " + outputs + " outputs of " + name.get(),
                    where,
                    "give the base that the adapter was trained on");
        }
        Map<PeftRole, Tensor> tensors = new LinkedHashMap<>();
        tensors.put(PeftRole.LORA_A, a);
        tensors.put(PeftRole.LORA_B, b);
        if (magnitude != null) {
            tensors.put(PeftRole.LORA_MAGNITUDE, magnitude);
        }
        put(name.get(), new Part(source, kind, tensors, module.path(), orientation));
    }

    /**
     * A parameter of {@code target_parameters}, for example the stacked weights of experts: the adapter has only the path of the module, so
     * the one whose shape fits is meant. Wrappers that PEFT nests for further parameters of the module add {@code .base_layer} to the path.
     */
    private Optional<String> parameter(Weighted source, LoraConfig config, String path, Shape a, Shape b) {
        String module = path;
        while (module.endsWith(".base_layer")) {
            module = module.substring(0, module.length() - ".base_layer".length());
        }
        List<String> fitting = new ArrayList<>();
        for (String target : config.targetParameters()) {
            String parameter = module + "." + target.substring(target.lastIndexOf('.') + 1);
            Optional<String> name = base.find(parameter).filter(n -> {
                Shape weight = base.shape(n);
                return parameter.endsWith(target)
                        && weight.rank() >= 2
                        && (fits(weight, a, b, Orientation.OUT_IN) || fits(weight, a, b, Orientation.IN_OUT));
            });
            name.filter(n -> !fitting.contains(n)).ifPresent(fitting::add);
        }
        if (fitting.size() > 1) {
            throw new UnsupportedModelException(
                    "factors of shape " + a + " and " + b + " fit " + String.join(" and ", fitting),
                    source.adapter().folder() + ", module '" + path + "'",
                    "merge the adapter with PEFT, which knows the order of the parameters");
        }
        return fitting.stream().findFirst();
    }

    private static long experts(Shape weight) {
        return weight.rank() == 3 ? weight.dim(0) : 1;
    }

    private static boolean fits(Shape weight, Shape a, Shape b, Orientation orientation) {
        long in = orientation == Orientation.OUT_IN ? weight.dim(-1) : weight.dim(-2);
        long out = orientation == Orientation.OUT_IN ? weight.dim(-2) : weight.dim(-1);
        return a.dim(1) == in && b.dim(0) == out && a.dim(0) == b.dim(1) && a.dim(0) % experts(weight) == 0;
    }

    private Orientation orientation(LoraConfig config, String name, Shape weight, Shape a, Shape b, String where) {
        boolean transposed = config.fanInFanOut() || base.isConv1d().test(name);
        Orientation said = transposed ? Orientation.IN_OUT : Orientation.OUT_IN;
        Orientation other = transposed ? Orientation.OUT_IN : Orientation.IN_OUT;
        if (fits(weight, a, b, said)) {
            return said;
        }
        if (fits(weight, a, b, other)) { // PEFT corrects fan_in_fan_out by the class of the module, too
            return other;
        }
        throw other(name, weight, a, b, where);
    }

    private static InvalidDataException other(String name, Shape weight, Shape a, Shape b, String where) {
        return new InvalidDataException(
                "factors A " + a + " and B " + b + " do not fit weight " + name + " of shape " + weight,
                where,
                "give the base that the adapter was trained on");
    }

    private static void requireRank(LoraConfig config, String path, Shape a, Shape b, Shape weight, String where) {
        long rank = a.dim(0) / experts(weight);
        long smaller = Math.min(weight.dim(-1), weight.dim(-2));
        if (rank > smaller) {
            throw new InvalidDataException(
                    "rank " + rank + " is larger than a dimension of the weight, " + weight,
                    where,
                    "no product of this size needs more than rank " + smaller + "; train with a smaller r");
        }
        if (rank != config.rank(path)) {
            throw new MalformedModelException(
                    "factors A " + a + " and B " + b + " have rank " + rank + ", and the configuration says "
                            + config.rank(path),
                    where,
                    "put the adapter's own adapter_config.json next to its tensors; the scaling depends on r");
        }
    }

    private void bias(Weighted source, String path, Tensor tensor, List<String> missing) {
        String bias = path + ".bias";
        Optional<String> name = base.find(bias);
        if (name.isEmpty()) {
            missing.add(bias);
            return;
        }
        requireSameSize(source, name.get(), tensor);
        put(name.get(), new Part(source, Kind.BIAS, Map.of(PeftRole.LORA_B_BIAS, tensor), path, Orientation.OUT_IN));
    }

    private void ia3(Weighted source, String path, Tensor tensor, List<String> missing) {
        Optional<String> name = base.find(path + ".weight");
        if (name.isEmpty()) {
            missing.add(path + ".weight");
            return;
        }
        Shape weight = base.shape(name.get());
        boolean input = source.adapter().config().ia3().isFeedforward(path);
        boolean transposed =
                source.adapter().config().ia3().fanInFanOut() || base.isConv1d().test(name.get());
        long expected = weight.rank() < 2 ? -1 : input == transposed ? weight.dim(-2) : weight.dim(-1);
        if (tensor.shape().elementCount() != expected) {
            throw new InvalidDataException(
                    tensor.shape().elementCount() + " factors do not fit weight " + name.get() + " of shape " + weight,
                    source.adapter().folder() + ", module '" + path + "'",
                    "give the base that the adapter was trained on, and its own feedforward_modules");
        }
        // factors of inputs run along the columns of [out, in]
        Orientation along = input == transposed ? Orientation.OUT_IN : Orientation.IN_OUT;
        put(name.get(), new Part(source, Kind.FACTORS, Map.of(PeftRole.IA3, tensor), path, along));
        if (!input) {
            base.find(path + ".bias")
                    .ifPresent(bias -> put(
                            bias,
                            new Part(source, Kind.FACTORS, Map.of(PeftRole.IA3, tensor), path, Orientation.IN_OUT)));
        }
    }

    private void replace(Weighted source, String path, PeftRole role, Tensor tensor, List<String> missing) {
        Optional<String> name = base.find(path);
        if (name.isEmpty()) {
            missing.add(path);
            return;
        }
        requireSameSize(source, name.get(), tensor);
        put(name.get(), new Part(source, Kind.REPLACED, Map.of(role, tensor), path, Orientation.OUT_IN));
    }

    private void requireSameSize(Weighted source, String name, Tensor tensor) {
        if (!tensor.shape().equals(base.shape(name))) {
            throw new InvalidDataException(
                    "the adapter's tensor has shape " + tensor.shape() + ", that of the base " + base.shape(name),
                    source.adapter().folder() + ", tensor '" + name + "'",
                    "give the base that the adapter was trained on; one with a resized vocabulary needs its own"
                            + " embeddings");
        }
    }

    private void put(String name, Part part) {
        parts.computeIfAbsent(name, _ -> new ArrayList<>()).add(part);
    }

    /** Products add up; all else is alone on its weight, and whole. */
    @SuppressWarnings("ReferenceEquality") // the same part, not an equal one
    private void requireAddable() {
        parts.forEach((name, all) -> {
            Part first = all.getFirst();
            for (Part part : all) {
                boolean adds = part.kind() == Kind.LOW_RANK || part.kind() == Kind.BIAS;
                if (!adds && part.source().weight() != 1) {
                    throw new InvalidOptionException(
                            "a weight of " + part.source().weight() + " has no meaning for " + part.kind().text
                                    + ", which is not a sum",
                            part.from() + ", tensor '" + name + "'",
                            "merge this adapter with weight 1, or train it as LoRA");
                }
                boolean ofOne = part.source() == first.source();
                boolean both = adds && (first.kind() == part.kind());
                if (part != first && !ofOne && !both) {
                    throw new InvalidOptionException(
                            "two adapters change " + name + " in ways that do not add up: " + first.kind().text
                                    + " and " + part.kind().text,
                            first.from() + " and " + part.from(),
                            "merge one of them, or train one of them on top of the other merged");
                }
                if (both && first.orientation() != part.orientation()) {
                    throw new InvalidOptionException(
                            "two adapters take " + name + " for [out, in] and for [in, out] (fan_in_fan_out)",
                            first.from() + " and " + part.from(),
                            "correct fan_in_fan_out in one adapter_config.json");
                }
            }
        });
    }

    private void requireChange() {
        for (List<Part> all : parts.values()) {
            for (Part part : all) {
                if (!isIdentity(part)) {
                    return;
                }
            }
        }
        throw new InvalidDataException(
                "the merge would change nothing: every product is zero (B as it is before training) or factor one",
                String.join(
                        ", ",
                        new LinkedHashSet<>(parts.values().stream()
                                .flatMap(List::stream)
                                .map(Part::from)
                                .toList())),
                "give an adapter that was trained, and weights other than 0");
    }

    private static boolean isIdentity(Part part) {
        return switch (part.kind()) {
            case LOW_RANK ->
                part.source().weight() == 0
                        || isAll(0, tensor(part, PeftRole.LORA_B))
                        || isAll(0, tensor(part, PeftRole.LORA_A));
            case BIAS -> part.source().weight() == 0 || isAll(0, tensor(part, PeftRole.LORA_B_BIAS));
            case FACTORS -> isAll(1, tensor(part, PeftRole.IA3));
            case DORA, REPLACED -> false;
        };
    }

    private static boolean isAll(float value, Tensor tensor) {
        for (long i = 0; i < tensor.shape().elementCount(); i++) {
            if (Floats.get(tensor.dtype(), tensor.bytes(), i) != value) {
                return false;
            }
        }
        return true;
    }

    private void requireInverse() {
        parts.forEach((name, all) -> all.forEach(part -> {
            String lost = switch (part.kind()) {
                case DORA -> "the norms that the outputs had before";
                case REPLACED -> "the tensor that was there before";
                case LOW_RANK, BIAS, FACTORS -> null;
            };
            if (lost != null) {
                throw new InvalidOptionException(
                        part.kind().text + " cannot be taken back: the merged model has lost " + lost,
                        part.from() + ", tensor '" + name + "'",
                        "keep the base, or download it again");
            }
        }));
    }

    private static Tensor tensor(Part part, PeftRole role) {
        return Objects.requireNonNull(part.tensors().get(role));
    }

    @Override
    public WeightDelta delta(String name) {
        @Nullable List<Part> all = parts.get(name);
        if (all == null) {
            throw new IllegalArgumentException("no adapter changes '" + name + "'");
        }
        // a weight that an adapter saved whole is the one that its product was trained on
        List<WeightDelta> deltas = all.stream()
                .sorted((x, y) -> Boolean.compare(x.kind() != Kind.REPLACED, y.kind() != Kind.REPLACED))
                .map(p -> delta(name, p))
                .toList();
        WeightDelta delta = deltas.size() == 1 ? deltas.getFirst() : new WeightDelta.Sequence(deltas);
        return direction == Direction.MERGE ? delta : delta.inverse().orElseThrow();
    }

    private WeightDelta delta(String name, Part part) {
        Shape shape = base.shape(name);
        long rows = shape.rank() < 2 ? 1 : shape.elementCount() / Blocks.cols(shape);
        int cols = Math.toIntExact(shape.rank() == 0 ? 1 : shape.dim(-1));
        return switch (part.kind()) {
            case LOW_RANK -> product(shape, part);
            case DORA -> {
                float[] magnitude = floats(tensor(part, PeftRole.LORA_MAGNITUDE));
                LowRank product = product(shape, part);
                yield part.orientation() == Orientation.OUT_IN
                        ? Dora.ofRows(product, magnitude)
                        : Dora.ofColumns(product, magnitude, base.rows().apply(name));
            }
            case BIAS ->
                new WeightDelta.Added(floats(tensor(part, PeftRole.LORA_B_BIAS)), (float)
                        (scaling(part) * part.source().weight()));
            case FACTORS ->
                new WeightDelta.Factors(
                        floats(tensor(part, PeftRole.IA3)),
                        part.orientation() == Orientation.OUT_IN ? WeightDelta.Axis.ROW : WeightDelta.Axis.COLUMN,
                        rows,
                        cols);
            case REPLACED -> {
                Tensor tensor = part.tensors().values().iterator().next();
                yield new WeightDelta.Replaced((row, values) -> read(tensor, row, values), rows, cols);
            }
        };
    }

    private static double scaling(Part part) {
        return part.source().adapter().config().lora().scaling(part.path());
    }

    private static LowRank product(Shape weight, Part part) {
        return LowRank.of(
                floats(tensor(part, PeftRole.LORA_A)),
                floats(tensor(part, PeftRole.LORA_B)),
                weight,
                part.orientation(),
                (float) (scaling(part) * part.source().weight()));
    }

    private static void read(Tensor tensor, long row, float[] values) {
        for (int i = 0; i < values.length; i++) {
            values[i] = Floats.get(tensor.dtype(), tensor.bytes(), row * values.length + i);
        }
    }

    private static float[] floats(Tensor tensor) {
        float[] values = new float[Math.toIntExact(tensor.shape().elementCount())];
        read(tensor, 0, values);
        return values;
    }
}
