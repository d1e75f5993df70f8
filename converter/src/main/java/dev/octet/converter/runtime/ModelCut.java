package dev.octet.converter.runtime;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphEdit;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Cuts a model into pieces that run in sequence, each on the results of the piece before. Independent of the architecture.
 *
 * <p>Nodes that depend on a weight and on the inputs form the <em>chain</em>, in the graph's order; a cut is a position in it. Values that
 * cross a cut must be carried. All other values are cheap and recomputed in each piece that needs them: those that depend only on the
 * inputs (masks, positions, rotary tables) or only on constants. Cuts are placed where the fewest values cross: in a transformer, only the
 * residual stream crosses between attention and MLP.
 */
final class ModelCut {
    /** A cut that more values cross is not made, even if the piece gets large. */
    private static final int MAX_CARRIED = 4;

    /** Operators that give different values when recomputed. */
    private static final Set<String> RANDOM = Set.of(
            "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial");

    private final GraphModel model;
    private final Set<String> wanted;
    private final List<Node> chain = new ArrayList<>();
    private final Set<String> chainValues = new HashSet<>();
    /** Weights that the node at a position reads, directly or through constants derived from them. */
    private final List<Set<String>> weights = new ArrayList<>();

    private final Map<String, Long> weightBytes = new HashMap<>();
    /** Values that cross the cut before a position, in the order they are computed. */
    private final List<List<String>> carried = new ArrayList<>();

    /** Bytes that are held for an observed value while its piece runs. */
    private final Map<String, Long> held;

    private ModelCut(GraphModel model, Set<String> wanted, Map<String, Long> held) {
        this.model = model;
        this.wanted = wanted;
        this.held = held;
    }

    /**
     * Analyses a model.
     *
     * @param wanted values to observe; nodes that they do not need are dropped
     * @throws InvalidDataException when the model lacks such a value
     */
    static ModelCut of(GraphModel model, Collection<String> wanted) {
        return of(model, wanted, Map.of());
    }

    /**
     * The same with memory for observed values, which counts as weights do.
     *
     * @param held bytes by value, of its second moment for example
     */
    static ModelCut of(GraphModel model, Collection<String> wanted, Map<String, Long> held) {
        GraphModel pruned = InstrumentedModel.withOutputs(model, wanted);
        GraphEdit edit = GraphEdit.of(pruned.graph());
        edit.removeUnreachable();
        ModelCut cut = new ModelCut(pruned.withGraph(edit.build()), new LinkedHashSet<>(wanted), held);
        cut.sort(edit);
        cut.findCrossing();
        return cut;
    }

    private void sort(GraphEdit edit) {
        Graph g = model.graph();
        Map<String, Set<String>> weightsOf = new HashMap<>();
        for (Initializer i : g.initializers().values()) {
            boolean weight = WeightInputs.isWeight(i);
            weightsOf.put(i.name(), weight ? Set.of(i.name()) : Set.of());
            if (weight) {
                Tensor t = i.tensor().orElseThrow();
                weightBytes.put(i.name(), WeightInputs.bytes(t, edit.consumers(i.name())));
            }
        }
        for (Node n : g.nodes()) {
            Set<String> read = new LinkedHashSet<>();
            boolean constant = !n.uses().isEmpty() || n.is("Constant");
            boolean chained = isRandom(n);
            for (String use : n.uses()) {
                constant &= weightsOf.containsKey(use);
                chained |= chainValues.contains(use);
                read.addAll(weightsOf.getOrDefault(use, Set.of()));
            }
            if (constant && !chained) {
                n.outputs().forEach(o -> weightsOf.put(o, read));
            } else if (chained || !read.isEmpty()) {
                chain.add(n);
                chainValues.addAll(n.outputs());
                weights.add(read);
            }
        }
        chainValues.remove("");
    }

    private static boolean isRandom(Node n) {
        // the third input of Dropout is the training mode
        return n.domain().isEmpty() && (RANDOM.contains(n.opType()) || (n.is("Dropout") && n.hasInput(2)));
    }

    private void findCrossing() {
        Map<String, Integer> computed = new LinkedHashMap<>();
        Map<String, Integer> lastRead = new HashMap<>();
        for (int i = 0; i < chain.size(); i++) {
            for (String use : chain.get(i).uses()) {
                if (chainValues.contains(use)) {
                    lastRead.put(use, i);
                }
            }
            for (String o : chain.get(i).outputs()) {
                computed.put(o, i);
            }
        }
        for (int p = 0; p <= chain.size(); p++) {
            carried.add(new ArrayList<>());
        }
        computed.forEach((value, at) -> {
            for (int p = at + 1; p <= lastRead.getOrDefault(value, -1); p++) {
                carried.get(p).add(value);
            }
        });
    }

    /** The position after the last node. */
    int end() {
        return chain.size();
    }

    /** The values that the piece at a position gets from the piece before. */
    List<String> carried(int position) {
        return carried.get(position);
    }

    /** Bytes of the weights that nodes between two positions read, and of what is held for the values observed there. */
    long bytes(int from, int to) {
        Set<String> read = new HashSet<>();
        for (int i = from; i < to; i++) {
            read.addAll(weights.get(i));
        }
        long bytes =
                read.stream().mapToLong(w -> weightBytes.getOrDefault(w, 0L)).sum();
        if (!held.isEmpty()) {
            for (String value : wanted(from, to)) {
                bytes += held.getOrDefault(value, 0L);
            }
        }
        return bytes;
    }

    /**
     * The ends of the pieces from a position on, the last at {@link #end()}. Adjacent pieces are joined while their weights fit the budget;
     * a piece that exceeds the budget cannot be cut further.
     */
    List<Integer> ends(int from, long budgetBytes) {
        List<Integer> ends = new ArrayList<>();
        split(from, end(), budgetBytes, ends);
        return ends;
    }

    private void split(int from, int to, long budget, List<Integer> ends) {
        List<Integer> cuts = bytes(from, to) <= budget ? List.of() : bestCuts(from, to);
        if (cuts.isEmpty()) {
            ends.add(to);
            return;
        }
        List<Integer> stops = new ArrayList<>(cuts);
        stops.add(to);
        int start = from;
        for (int i = 0; i < stops.size(); i++) {
            int stop = stops.get(i);
            if (i + 1 < stops.size() && bytes(start, stops.get(i + 1)) <= budget) {
                continue; // the next piece fits in too
            }
            split(start, stop, budget, ends);
            start = stop;
        }
    }

    /** Positions in a range where the fewest values cross, one between any two nodes that read weights. */
    private List<Integer> bestCuts(int from, int to) {
        BitSet reads = new BitSet();
        for (int i = from; i < to; i++) {
            reads.set(i, !weights.get(i).isEmpty());
        }
        int first = reads.nextSetBit(from);
        int last = reads.previousSetBit(to - 1);
        int fewest = MAX_CARRIED + 1;
        for (int p = first + 1; p <= last; p++) {
            fewest = Math.min(fewest, carried.get(p).size());
        }
        List<Integer> cuts = new ArrayList<>();
        for (int p = first + 1; fewest <= MAX_CARRIED && p <= last; p++) {
            if (carried.get(p).size() != fewest) {
                continue;
            }
            if (!cuts.isEmpty() && reads.nextSetBit(cuts.getLast()) >= p) {
                cuts.removeLast(); // no weight is read in between: the later cut is as good
            }
            cuts.add(p);
        }
        return cuts;
    }

    /** The observed values that the piece between two positions computes. */
    Set<String> wanted(int from, int to) {
        Set<String> here = new LinkedHashSet<>();
        for (int i = from; i < to; i++) {
            here.addAll(chain.get(i).outputs());
        }
        Set<String> found = new LinkedHashSet<>(wanted);
        found.removeIf(w -> chainValues.contains(w) ? !here.contains(w) : from > 0);
        return found;
    }

    /**
     * The piece between two positions as a model. Its outputs are {@link #wanted(int, int)} and the carried values.
     *
     * @param types observed types of the values carried in
     */
    GraphModel piece(int from, int to, Map<String, DType> types) {
        Graph g = model.graph();
        Set<Node> others = Collections.newSetFromMap(new IdentityHashMap<>());
        others.addAll(chain.subList(0, from));
        others.addAll(chain.subList(to, end()));
        Set<String> in = new LinkedHashSet<>(carried(from));
        Map<String, ValueInfo> infos = new LinkedHashMap<>(g.valueInfos());
        infos.keySet().removeAll(in);
        List<ValueInfo> inputs = new ArrayList<>(g.inputs());
        GraphEdit known = GraphEdit.of(g);
        in.forEach(v -> inputs.add(new ValueInfo(v, typed(known.type(v), types.get(v)))));
        List<ValueInfo> outputs = new ArrayList<>();
        Set<String> out = wanted(from, to);
        out.addAll(carried(to));
        out.removeAll(in); // values that only pass through exist already
        out.forEach(v -> outputs.add(new ValueInfo(v, known.type(v))));
        GraphEdit edit = GraphEdit.of(new Graph(
                g.name(),
                g.nodes().stream().filter(n -> !others.contains(n)).toList(),
                g.initializers(),
                inputs,
                outputs,
                infos,
                g.doc(),
                g.metadata(),
                g.unknown()));
        edit.removeUnreachable();
        Set<String> used = new HashSet<>(out); // an input may be observed
        edit.nodes().forEach(n -> used.addAll(n.uses()));
        edit.setInputs(inputs.stream().filter(i -> used.contains(i.name())).toList());
        return model.withGraph(edit.build());
    }

    private static ValueType typed(@Nullable ValueType known, @Nullable DType actual) {
        List<Dim> dims = known instanceof ValueType.TensorType t ? t.dims() : null;
        return new ValueType.TensorType(actual, dims);
    }
}
