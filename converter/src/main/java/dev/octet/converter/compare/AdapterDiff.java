package dev.octet.converter.compare;

import java.util.List;

/**
 * The result of comparing two adapters. The first one counts as exact.
 *
 * @param a path of the first
 * @param b path of the second
 * @param method of both
 * @param keys of the configurations that differ
 * @param parts every pair, worst first
 * @param relative over all parts: root of the summed squares of the differences, divided by that of the first adapter's changes
 * @param uncomparable parts that both have and that cannot be compared, with the reason
 * @param onlyA what only the first has
 * @param onlyB what only the second has
 * @param sameBytes whether all tensors have the same names, types, shapes and bytes
 */
public record AdapterDiff(
        String a,
        String b,
        String method,
        List<Key> keys,
        List<Part> parts,
        double relative,
        List<ModelDiff.Uncomparable> uncomparable,
        List<String> onlyA,
        List<String> onlyB,
        boolean sameBytes) {
    /**
     * Relative difference up to which two deltas count as the same: their sums are of doubles, and other factors of the same product are
     * rounded to F32.
     */
    public static final double SAME = 1e-6;

    public AdapterDiff {
        keys = List.copyOf(keys);
        parts = List.copyOf(parts);
        uncomparable = List.copyOf(uncomparable);
        onlyA = List.copyOf(onlyA);
        onlyB = List.copyOf(onlyB);
    }

    /** A key of {@code adapter_config.json} with two values, as JSON; empty where it is missing. */
    public record Key(String name, String a, String b) {}

    /**
     * What both adapters do to one module.
     *
     * @param name path of the module, or of a parameter that was trained whole
     * @param what {@code delta}: the product with its scaling; {@code factors}: IA3; that of DoRA; or the kind of tensor
     * @param relative |b - a| / |a| by Frobenius; 0 where both are equal, infinite where only a is zero. Of {@code factors}, |a| is the
     *     distance from one
     * @param cosine between both; NaN where one is zero
     * @param normA of the first one's change
     * @param normB of the second one's change
     */
    public record Part(String name, String what, double relative, double cosine, double normA, double normB) {}

    /** Whether both change a model in the same way, with whatever factors. */
    public boolean sameChange() {
        return uncomparable.isEmpty()
                && onlyA.isEmpty()
                && onlyB.isEmpty()
                && parts.stream().allMatch(p -> p.relative() <= SAME);
    }

    /** Whether configurations and tensors are the same. */
    public boolean identical() {
        return sameBytes && keys.isEmpty();
    }

    /** Largest relative difference; infinite when something could not be compared. */
    public double worst() {
        return uncomparable.isEmpty()
                ? parts.stream().mapToDouble(Part::relative).max().orElse(0)
                : Double.POSITIVE_INFINITY;
    }

    /** Share of what the first adapter changes that was compared, 0..1. */
    public double matched() {
        int all = parts.size() + uncomparable.size() + onlyA.size();
        return all == 0 ? 1 : (double) parts.size() / all;
    }
}
