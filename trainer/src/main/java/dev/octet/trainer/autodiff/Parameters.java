package dev.octet.trainer.autodiff;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.tensor.CodedTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.OperandType;
import java.lang.foreign.Arena;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * The parameters of a graph. ONNX does not mark them: {@link ParameterUses} recognises them by their use. Scalars, rotation tables, masks
 * and running statistics are not parameters.
 */
public final class Parameters {
    private final Map<String, Parameter> byName;

    private Parameters(Map<String, Parameter> byName) {
        this.byName = byName;
    }

    /** The parameters of a canonical graph, with concrete or open shapes, in the order of its constants. */
    public static Parameters of(Graph graph) {
        ParameterUses uses = new ParameterUses(graph);
        Map<String, Parameter> found = new LinkedHashMap<>();
        graph.initializers()
                .forEach((name, constant) -> constant.tensor()
                        .filter(t -> !constant.metadata().containsKey(Initializer.BUFFER))
                        .ifPresent(t -> {
                            Optional<Parameter.Use> use = uses.of(name, t);
                            use.ifPresent(u -> found.put(name, new Parameter(name, t, u)));
                        }));
        return new Parameters(found);
    }

    /**
     * These and other constants of a graph, whatever their use: parameters of an adapter.
     *
     * @param names each a constant of {@code graph}
     */
    public Parameters with(Graph graph, Set<String> names) {
        Map<String, Parameter> all = new LinkedHashMap<>(byName);
        for (String name : names) {
            Initializer constant = Objects.requireNonNull(graph.initializers().get(name), name);
            all.computeIfAbsent(name, n -> new Parameter(n, constant.tensor().orElseThrow(), Parameter.Use.WEIGHT));
        }
        return new Parameters(all);
    }

    /** All parameters, in the order of the graph's constants. */
    public Collection<Parameter> all() {
        return List.copyOf(byName.values());
    }

    /** Their names, in the same order. */
    public Set<String> names() {
        return new LinkedHashSet<>(byName.keySet());
    }

    /** Total number of elements. */
    public long elements() {
        return byName.values().stream()
                .mapToLong(p -> p.tensor().shape().elementCount())
                .sum();
    }

    /**
     * The parameter of this name.
     *
     * @throws InvalidOptionException when there is no such parameter
     */
    public Parameter get(String name) {
        Parameter p = byName.get(name);
        if (p == null) {
            throw new InvalidOptionException(
                    "'" + name + "' is not a parameter of the model", byName.size() + " parameters", nearest(name));
        }
        return p;
    }

    /**
     * Names of the parameters to train: those that match a pattern of {@code only} (all, when it is empty) and no pattern of {@code
     * freeze}. A pattern may match anywhere in the name.
     *
     * @throws InvalidOptionException when a pattern matches no parameter, or no parameter is left
     */
    public Set<String> trained(List<Pattern> freeze, List<Pattern> only) {
        freeze.forEach(p -> requireMatch("freeze", p));
        only.forEach(p -> requireMatch("train_only", p));
        Set<String> trained = new LinkedHashSet<>();
        for (String name : byName.keySet()) {
            if ((only.isEmpty() || anyFound(only, name)) && !anyFound(freeze, name)) {
                trained.add(name);
            }
        }
        if (trained.isEmpty()) {
            throw new InvalidOptionException(
                    byName.isEmpty() ? "the model has no parameters" : "all parameters are frozen",
                    byName.size() + " parameters, freeze " + freeze + ", train_only " + only,
                    byName.isEmpty() ? "train a model with weights" : "leave some parameters unfrozen");
        }
        return trained;
    }

    private static boolean anyFound(List<Pattern> patterns, String name) {
        return patterns.stream().anyMatch(p -> p.matcher(name).find());
    }

    private void requireMatch(String option, Pattern pattern) {
        if (byName.keySet().stream().noneMatch(n -> pattern.matcher(n).find())) {
            throw new InvalidOptionException(
                    "pattern '" + pattern + "' matches no parameter",
                    "option " + option + ", " + byName.size() + " parameters",
                    nearest(pattern.pattern()));
        }
    }

    /** The three names that share the longest substring with {@code asked}. */
    private String nearest(String asked) {
        Function<String, Integer> common = name -> longestCommon(asked, name);
        String names = byName.keySet().stream()
                .sorted(Comparator.comparing(common).reversed().thenComparing(n -> n))
                .limit(3)
                .collect(Collectors.joining(", "));
        return names.isEmpty() ? "the model has no parameters" : "nearest names: " + names;
    }

    private static int longestCommon(String a, String b) {
        int longest = 0;
        int[] before = new int[b.length() + 1];
        for (int i = 0; i < a.length(); i++) {
            int[] row = new int[b.length() + 1];
            for (int j = 0; j < b.length(); j++) {
                row[j + 1] = a.charAt(i) == b.charAt(j) ? before[j] + 1 : 0;
                longest = Math.max(longest, row[j + 1]);
            }
            before = row;
        }
        return longest;
    }

    /** These without some. */
    public Parameters without(Collection<String> names) {
        Map<String, Parameter> rest = new LinkedHashMap<>(byName);
        rest.keySet().removeAll(Set.copyOf(names));
        return new Parameters(rest);
    }

    /** All elements of a coded tensor as F32. */
    public static Tensor decoded(CodedTensor coded) {
        Tensor dense = Tensor.allocate(Arena.ofAuto(), coded.spec());
        long cols = coded.spec().shape().dim(-1);
        coded.read(0, coded.spec().shape().elementCount() / Math.max(1, cols), dense.bytes());
        return dense;
    }

    /** The F32 master of a parameter; widened into {@code arena} if it is stored in a narrower type. */
    public static Tensor master(Parameter parameter, Arena arena) {
        Tensor t = parameter.tensor();
        if (t.dtype() == DType.F32) {
            return t.withName(parameter.name());
        }
        Shape shape = t.shape();
        Tensor wide = Tensor.allocate(arena, new TensorSpec(parameter.name(), DType.F32, shape));
        CpuTensor from = new CpuTensor(new OperandType(t.dtype(), shape), t.bytes());
        CpuTensor to = new CpuTensor(new OperandType(DType.F32, shape), wide.bytes());
        float[] tile = new float[2048];
        for (long i = 0; i < shape.elementCount(); i += tile.length) {
            int n = (int) Math.min(tile.length, shape.elementCount() - i);
            from.read(i, tile, 0, n);
            to.write(i, tile, 0, n);
        }
        return wide;
    }
}
