package dev.octet.converter.compare;

import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * How the two files say that their weights were rounded.
 *
 * @param a of the first, {@code gptq} or {@code nearest}; empty when it does not say
 * @param b of the second
 */
record DeclaredRounding(Optional<String> a, Optional<String> b) {
    /** The entry of a file's metadata. */
    static final String KEY = "octet.rounding";

    /** Of two opened models. */
    static DeclaredRounding of(WeightSource first, WeightSource second) {
        return new DeclaredRounding(first.rounding(), second.rounding());
    }

    /** Whether the weights of side {@code a} or {@code b} were rounded so that each error makes up for those before it. */
    boolean isCompensated(String side) {
        return (side.equals("a") ? a : b).filter("gptq"::equals).isPresent();
    }

    /** A sentence for each side that explains why its tensors are further than one rounding from the other's. */
    List<String> notes(List<TensorDiff> tensors) {
        return List.of("a", "b").stream()
                .flatMap(side -> note(side, tensors).stream())
                .toList();
    }

    private static Optional<String> note(String side, List<TensorDiff> tensors) {
        List<TensorDiff> moved = tensors.stream()
                .filter(t ->
                        t.rounding().isCompensated() && side.equals(t.rounding().side()))
                .toList();
        long clipped = moved.stream().mapToLong(t -> t.nearness().clipped()).sum();
        int count = moved.size();
        String one = side.toUpperCase(Locale.ROOT);
        String other = side.equals("a") ? "B" : "A";
        return count == 0
                ? Optional.empty()
                : Optional.of(
                        one + " was rounded with GPTQ (" + KEY + "), which moves weights further than one rounding"
                                + " from " + other + " to make up for each other's errors: " + count
                                + (count == 1 ? " tensor" : " tensors")
                                + (clipped == 0 ? "" : ", " + clipped + " elements clipped"));
    }
}
