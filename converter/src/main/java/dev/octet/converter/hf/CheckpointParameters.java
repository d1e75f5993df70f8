package dev.octet.converter.hf;

import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/**
 * The tensors of a checkpoint, asked for by the names that transformers gives parameters today. Files may spell them otherwise: without
 * the body's prefix, or with the {@code gamma} and {@code beta} of old BERT. A parameter that is missing, has another shape or is not a
 * float is remembered, and {@link #check} reports all of them together.
 */
final class CheckpointParameters {
    private static final Pattern NUMBER = Pattern.compile("(?<=\\.)\\d+(?=\\.)");
    private static final Pattern EXPERT = Pattern.compile("(?<=experts\\.(expert_)?)\\d+(?=\\.)");
    private static final int MAX_LINES = 40;

    private final Map<String, Initializer> tensors;
    private final String prefix;
    private final String where;
    private final Arena arena;
    private final Map<String, Initializer> used = new LinkedHashMap<>();
    private final Set<String> missing = new LinkedHashSet<>();
    private final Set<String> wrong = new LinkedHashSet<>();
    private final Set<String> misshapen = new LinkedHashSet<>();
    private final Set<String> accounted = new LinkedHashSet<>();
    private final Map<String, Shape> asked = new LinkedHashMap<>();
    private final Map<String, Blueprint.Whole> wholes = new LinkedHashMap<>();

    /**
     * @param prefix see {@link Architecture#prefix}
     * @param where the checkpoint, for messages
     * @param arena owns placeholders for what is missing
     */
    CheckpointParameters(Map<String, Initializer> tensors, String prefix, String where, Arena arena) {
        this.tensors = new LinkedHashMap<>(tensors);
        this.prefix = prefix;
        this.where = where;
        this.arena = arena;
    }

    /**
     * Part of a tensor, by the name it gets as a constant of its own.
     *
     * @param shape of the part
     */
    record Part(String name, Shape shape) {}

    /**
     * Takes a tensor apart, where the file has it: its parts, one behind another, are then found under their own names.
     *
     * @param shape that it must have
     * @throws UnsupportedModelException when it is in codes
     */
    void cut(String parameter, Shape shape, List<Part> parts) {
        wholes.put(
                parameter,
                new Blueprint.Whole(shape, parts.stream().map(Part::name).toList(), false));
        Initializer found = find(parameter);
        if (found == null) {
            return;
        }
        TensorSpec spec = specOf(found);
        if (!spec.shape().equals(shape)) {
            misshapen.add(found.name());
            wrong.add(found.name() + " has shape " + spec.shape() + ", the configuration asks for " + shape);
            return;
        }
        Tensor whole = found.tensor()
                .orElseThrow(() -> new UnsupportedModelException(
                        "'" + found.name() + "' has the codes of several experts in one tensor, which have no graph",
                        where,
                        "open the model that it was quantised from"));
        tensors.remove(found.name());
        boolean bare = !found.name().equals(parameter); // a file without the body's prefix
        long at = 0;
        for (int i = 0; i < parts.size(); i++) {
            Part part = parts.get(i);
            String name = bare ? part.name().substring(prefix.length()) : part.name();
            TensorSpec own = new TensorSpec(name, spec.dtype(), part.shape());
            Initializer constant = Initializer.of(new Tensor(own, whole.bytes().asSlice(at, own.byteSize())));
            tensors.put(name, constant.withPart(found.name(), i, shape));
            at += own.byteSize();
        }
    }

    /** Takes note that files have this tensor, and not the parts that {@link #cut} makes of it. */
    void keepWhole(String parameter) {
        wholes.computeIfPresent(parameter, (_, w) -> new Blueprint.Whole(w.shape(), w.parts(), true));
    }

    /** The tensors that were taken apart, whether they are there or not. */
    Map<String, Blueprint.Whole> wholes() {
        return wholes;
    }

    /** Whether the file has a tensor for this parameter. */
    boolean has(String parameter) {
        return find(parameter) != null;
    }

    /** The tensor of a parameter; an empty placeholder where it is missing, which {@link #check} then reports. */
    Initializer get(String parameter, long... shape) {
        Shape wanted = Shape.of(shape);
        asked.put(parameter, wanted);
        Initializer found = find(parameter);
        if (found == null) {
            missing.add(parameter);
            return placeholder(parameter);
        }
        TensorSpec is = specOf(found);
        if (!is.shape().equals(wanted)) {
            misshapen.add(found.name());
            wrong.add(found.name() + " has shape " + is.shape() + ", the configuration asks for " + wanted);
            return placeholder(parameter);
        }
        if (is.dtype() != DType.F32 && is.dtype() != DType.BF16 && is.dtype() != DType.F16) {
            misshapen.add(found.name());
            wrong.add(found.name() + " has elements of type " + is.dtype()
                    + ", which are not floats that a graph computes with");
            return placeholder(parameter);
        }
        used.put(found.name(), found);
        return found;
    }

    private static TensorSpec specOf(Initializer constant) {
        return constant.spec().orElseThrow(() -> new IllegalArgumentException(constant.name() + " has no numbers"));
    }

    private Initializer placeholder(String parameter) {
        return Initializer.of(Tensor.allocate(arena, new TensorSpec(parameter, DType.F32, Shape.of(0))));
    }

    private @Nullable Initializer find(String parameter) {
        for (String name : spellings(parameter)) {
            Initializer t = tensors.get(name);
            if (t != null) {
                return t;
            }
        }
        return null;
    }

    private List<String> spellings(String parameter) {
        List<String> names = new ArrayList<>(List.of(parameter));
        if (!prefix.isEmpty() && parameter.startsWith(prefix)) {
            names.add(parameter.substring(prefix.length()));
        }
        if (parameter.contains("LayerNorm.")) {
            List.copyOf(names).forEach(n -> names.add(old(n)));
        }
        return names;
    }

    /** transformers/conversion_mapping.py: {@code LayerNorm.gamma} was renamed to {@code LayerNorm.weight}, {@code beta} to {@code bias}. */
    private static String old(String name) {
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
    }

    /** The tensors that the graph reads, by their names in the file. */
    Map<String, Initializer> used() {
        return used;
    }

    /** Shapes of all parameters that were asked for, whether they are there or not. */
    Map<String, Shape> asked() {
        return asked;
    }

    /** Takes note that the model does not read this parameter although the file may have it. */
    void account(String parameter) {
        Initializer found = find(parameter);
        if (found != null) {
            accounted.add(found.name());
        }
    }

    /** The constant of a parameter without asking for it; null where there is none. */
    @Nullable
    Initializer constant(String parameter) {
        return find(parameter);
    }

    /** The dense tensor of a parameter without asking for it; null where there is none, or where it is coded. */
    @Nullable
    Tensor peek(String parameter) {
        Initializer found = find(parameter);
        return found == null ? null : found.tensor().orElse(null);
    }

    /**
     * Compares what was asked for with what is there.
     *
     * @param ignored tensors that may be there without being read
     * @return names of tensors that are there and not read, as {@code ignored} allows
     * @throws MalformedModelException naming all missing, extra and misshapen tensors
     */
    List<String> check(List<Pattern> ignored) {
        Differences found = differences(ignored);
        if (found.count() > 0) {
            throw new MalformedModelException(
                    "the tensors do not fit config.json: " + found.text(MAX_LINES),
                    where,
                    "see that config.json and the tensors are of the same model; keys like num_hidden_layers decide"
                            + " which there must be");
        }
        return found.unread();
    }

    /**
     * What was asked for beside what is there.
     *
     * @param unread tensors that are there and not read, as allowed
     * @param missing parameters that are not there
     * @param extra tensors that no one asked for
     * @param wrong what is wrong with others
     * @param right number of parameters that are as they should be
     */
    record Differences(List<String> unread, List<String> missing, List<String> extra, List<String> wrong, int right) {
        int count() {
            return missing.size() + extra.size() + wrong.size();
        }

        /** All of them, {@code limit} of each kind. */
        String text(int limit) {
            List<String> problems = new ArrayList<>();
            add(problems, "missing", missing, limit);
            add(problems, "not in this architecture", extra, limit);
            if (!wrong.isEmpty()) {
                problems.add(String.join("; ", wrong.stream().limit(limit).toList())
                        + (wrong.size() > limit ? "; and " + (wrong.size() - limit) + " more" : ""));
            }
            return String.join("; ", problems);
        }
    }

    /** @param ignored tensors that may be there without being read */
    Differences differences(List<Pattern> ignored) {
        List<String> unread = new ArrayList<>();
        List<String> extra = new ArrayList<>();
        for (String name : tensors.keySet()) {
            if (used.containsKey(name) || misshapen.contains(name)) {
                continue;
            }
            boolean allowed = accounted.contains(name)
                    || ignored.stream().anyMatch(p -> p.matcher(name).find());
            (allowed ? unread : extra).add(name);
        }
        return new Differences(unread, List.copyOf(missing), extra, List.copyOf(wrong), used.size());
    }

    private static void add(List<String> problems, String what, Iterable<String> names, int limit) {
        List<String> lines = compact(names);
        if (!lines.isEmpty()) {
            problems.add(what + ": " + lines.stream().limit(limit).collect(Collectors.joining(", "))
                    + (lines.size() > limit ? " and " + (lines.size() - limit) + " more" : ""));
        }
    }

    /**
     * Names that differ in the number of an expert, or of a layer, on one line: {@code layers.{0-31}.mlp.weight},
     * {@code layers.3.mlp.experts.{4-7}.up_proj.weight}.
     */
    static List<String> compact(Iterable<String> names) {
        return compact(compact(names, EXPERT), NUMBER);
    }

    private static List<String> compact(Iterable<String> names, Pattern of) {
        Map<String, List<Long>> numbers = new TreeMap<>();
        for (String name : names) {
            Matcher m = of.matcher(name);
            if (m.find() && m.end() - m.start() < 10) {
                String pattern = name.substring(0, m.start()) + "{}" + name.substring(m.end());
                numbers.computeIfAbsent(pattern, p -> new ArrayList<>()).add(Long.parseLong(m.group()));
            } else {
                numbers.computeIfAbsent(name, p -> new ArrayList<>());
            }
        }
        List<String> lines = new ArrayList<>();
        numbers.forEach((pattern, n) -> lines.add(n.isEmpty() ? pattern : pattern.replace("{}", ranges(n))));
        return lines;
    }

    private static String ranges(List<Long> numbers) {
        if (numbers.size() == 1) {
            return numbers.getFirst().toString();
        }
        List<Long> sorted = numbers.stream().sorted().distinct().toList();
        List<String> parts = new ArrayList<>();
        for (int i = 0; i < sorted.size(); ) {
            int j = i;
            while (j + 1 < sorted.size() && sorted.get(j + 1) == sorted.get(j) + 1) {
                j++;
            }
            parts.add(i == j ? sorted.get(i).toString() : sorted.get(i) + "-" + sorted.get(j));
            i = j + 1;
        }
        return "{" + String.join(",", parts) + "}";
    }
}
