package dev.octet.trainer.step;

import dev.octet.trainer.collective.Collectives;
import dev.octet.trainer.collective.RankReduction;
import dev.octet.trainer.cut.TensorCut;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.observe.ObservedTensor;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

/**
 * The Linears that tensor-parallel ranks share, and what each has of their tensors: a part of the columns or rows of the weight, with it a part of what reads or makes
 * these, all of the rest, or summands of it.
 */
public final class SharedLayers {
    private final Collectives tensor;
    private final Set<String> byColumns;
    /** With the nodes that have their results. */
    private final Map<String, String> byRows;

    private final Map<String, String> results = new HashMap<>();

    /** Elements of the results of Linears, as each rank has summands of them. */
    private final Map<String, Long> summands = new HashMap<>();

    /** What each rank has. */
    private enum Held {
        /** The same. */
        ALL,
        /** Other elements. */
        PART,
        /** What ranks add up. */
        SUMMAND
    }

    /**
     * @param cut empty where ranks share no layers
     * @param tensor the ranks that share them
     */
    public SharedLayers(Optional<TensorCut> cut, Collectives tensor) {
        this.tensor = tensor;
        this.byRows = cut.map(TensorCut::summed).orElse(Map.of());
        byRows.forEach((linear, result) -> results.put(result, linear));
        this.byColumns = cut.map(c -> Set.copyOf(c.shared())).orElse(Set.of());
    }

    /** The Linear whose result a node has: itself, or one whose results ranks add up. */
    String linear(String node) {
        return results.getOrDefault(node, node);
    }

    /** Whether a Linear's own step makes but a summand of its result; then it is noted of how many elements. */
    boolean isSummed(String node, long elements) {
        boolean is = byRows.containsKey(node);
        if (is) {
            summands.put(node, elements);
        }
        return is;
    }

    /**
     * Completes what this rank has of a tensor: summands become the sum. The ranks that share a layer call it together.
     *
     * @param node of the Linear
     * @return whether this rank speaks of it, which of a tensor that all have alike the first one does
     */
    boolean complete(String node, ObservedTensor of, CpuTensor own) {
        return switch (held(node, of, own.count())) {
            case PART -> true;
            case ALL -> tensor.isFirst();
            case SUMMAND -> {
                tensor.allReduce(own.bytes(), own.dtype(), RankReduction.SUM);
                yield tensor.isFirst();
            }
        };
    }

    private Held held(String node, ObservedTensor of, long elements) {
        long whole = summands.getOrDefault(node, 0L);
        if (byRows.containsKey(node)) {
            return switch (of) {
                case ACTIVATION, WEIGHT, DGRAD, WGRAD -> Held.PART;
                case GRADIENT -> Held.ALL;
                case OUTPUT -> elements < whole ? Held.PART : Held.ALL; // of some positions, or of all
            };
        }
        if (byColumns.contains(node)) {
            return switch (of) {
                case WEIGHT, GRADIENT, OUTPUT, WGRAD -> Held.PART;
                case ACTIVATION -> Held.ALL;
                case DGRAD -> Held.SUMMAND;
            };
        }
        return Held.ALL;
    }
}
