package dev.octet.pipeline.plan;

import dev.octet.formats.error.InvalidOptionException;
import dev.octet.formats.error.Nearest;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Stream;

/**
 * What of a mesh is given; the rest is searched.
 *
 * @param numbers by key, see {@link #KEYS}
 * @param recompute whether layers are computed again; empty where that is searched
 */
public record MeshRules(Map<String, Integer> numbers, Optional<Boolean> recompute) {
    /** Nothing is given. */
    public static final MeshRules NONE = new MeshRules(Map.of(), Optional.empty());

    /** Keys that take a number. */
    public static final List<String> KEYS = List.of("data", "tensor", "pipeline", "chunks", "zero", "micro_batch");

    private static final String RECOMPUTE = "recompute";

    public MeshRules {
        numbers = Map.copyOf(numbers);
    }

    /**
     * Reads {@code tensor=8,pipeline=4,zero=1}.
     *
     * @param where for messages
     * @throws InvalidOptionException for an unknown key, or a number out of range
     */
    public static MeshRules parse(String text, String where) {
        Map<String, Integer> numbers = new TreeMap<>();
        Optional<Boolean> recompute = Optional.empty();
        for (String part : text.split(",", -1)) {
            String[] sides = part.strip().split("=", 2);
            String key = sides[0];
            String value = sides.length < 2 ? "" : sides[1];
            if (key.equals(RECOMPUTE)) {
                if (!value.equals("all") && !value.equals("none")) {
                    throw new InvalidOptionException(
                            "recompute is '" + value + "'", where, "write recompute=all, or recompute=none");
                }
                recompute = Optional.of(value.equals("all"));
                continue;
            }
            if (!KEYS.contains(key)) {
                throw new InvalidOptionException(
                        "unknown key '" + key + "' of a mesh", where, Nearest.advice(key, keys()));
            }
            int least = key.equals("zero") ? 0 : 1;
            int most = key.equals("zero") ? 3 : 1_000_000;
            int number = value.matches("\\d{1,7}") ? Integer.parseInt(value) : -1;
            if (number < least || number > most) {
                throw new InvalidOptionException(
                        key + " is '" + value + "'", where, "give " + key + " a number from " + least + " to " + most);
            }
            numbers.put(key, number);
        }
        return new MeshRules(numbers, recompute);
    }

    private static List<String> keys() {
        return Stream.concat(KEYS.stream(), Stream.of(RECOMPUTE)).toList();
    }

    /** Whether a number may be taken for a key. */
    boolean allows(String key, int number) {
        return numbers.getOrDefault(key, number) == number;
    }

    /** Whether layers may be computed again, or not. */
    boolean allowsRecompute(boolean again) {
        return recompute.orElse(again) == again;
    }

    /** Whether nothing of it is given. */
    public boolean isEmpty() {
        return equals(NONE);
    }
}
