package dev.octet.converter.plan;

import java.util.List;

/** What happens to one layer. A refusal is a value with its reason, not an error. */
public sealed interface Decision {
    /** The node's id in the canonical graph; what {@code --keep} patterns are matched against. */
    String node();

    LayerKind kind();

    /**
     * The layer becomes an FP8 operator.
     *
     * @param input the value it reads; Linears with the same input share one activation scale
     * @param output the value it makes, the same before and after
     * @param weight the Linear's weight; empty for a normalisation, whose weights stay as they are (no consumer has FP8 ones)
     * @param measured of a product of attention, the operands whose scales come from statistics; empty for other kinds
     * @param note how, in words
     */
    record Converted(
            String node, LayerKind kind, String input, String output, String weight, List<String> measured, String note)
            implements Decision {
        public Converted {
            measured = List.copyOf(measured);
        }

        /** A layer of one input. */
        public Converted(String node, LayerKind kind, String input, String output, String weight, String note) {
            this(node, kind, input, output, weight, List.of(), note);
        }
    }

    /** The layer stays as it is. */
    record Kept(String node, LayerKind kind, String reason) implements Decision {}
}
