package dev.octet.trainer.gemm;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.tensor.DType;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;

/**
 * Billions of multiply-adds per second, measured with one thread on this processor, by operand type and route. Routes that the instruction
 * set or the library lacks are missing.
 */
record Rates(Map<DType, Map<Route, Double>> giga) {
    /** Cost of widening, as a share of the product's time; measured with operands of 512 rows. */
    private static final double WIDENING = 0.08;

    Rates {
        giga = Map.copyOf(giga);
        if (rate(giga, DType.F32, Route.GEMM) <= 0) {
            throw new IllegalArgumentException("no rate of F32 in " + giga);
        }
    }

    private static double rate(Map<DType, Map<Route, Double>> giga, DType type, Route route) {
        return Objects.requireNonNull(giga.getOrDefault(type, Map.of()).getOrDefault(route, 0.0));
    }

    /** The rate of a route; for widened operands derived from F32. 0 for a missing route. */
    double of(DType type, Route route) {
        if (route == Route.WIDENED) {
            return rate(giga, DType.F32, Route.GEMM) / (1 + WIDENING);
        }
        return rate(giga, type, route);
    }

    /** The fastest route of a type. */
    Route best(DType type) {
        if (type == DType.F32) {
            // on x86 GEMM was never slower than the primitive or Java where both were measured
            return of(type, Route.JAVA) > of(type, Route.GEMM) ? Route.JAVA : Route.GEMM;
        }
        Route best = Route.WIDENED;
        for (Route route : Route.values()) {
            if (of(type, route) > of(type, best)) {
                best = route;
            }
        }
        return best;
    }

    /** For the header of a run: {@code BF16 native (5.1 times as fast as widened), F16 widened to F32 (native: 0.2 of the speed)}. */
    String text() {
        List<String> parts = new ArrayList<>();
        for (DType type : List.of(DType.BF16, DType.F16)) {
            double own = Math.max(of(type, Route.GEMM), of(type, Route.MATMUL));
            String times = String.format(Locale.ROOT, "%.2g", own / of(type, Route.WIDENED));
            String text = type + " ";
            if (best(type) != Route.WIDENED) {
                text += "native (" + times + " times as fast as widened)";
            } else if (own == 0) {
                text += "widened to F32 (no instructions for it)";
            } else {
                text += "widened to F32 (native: " + times + " of the speed)";
            }
            parts.add(text);
        }
        return String.join(", ", parts);
    }

    /** One line for each rate: {@code BF16 MATMUL 1250.5}. */
    String lines() {
        StringBuilder lines = new StringBuilder();
        for (DType type : List.of(DType.F32, DType.BF16, DType.F16)) {
            for (Route route : Route.values()) {
                double rate = rate(giga, type, route);
                if (rate > 0) {
                    lines.append(type)
                            .append(' ')
                            .append(route)
                            .append(' ')
                            .append(rate)
                            .append('\n');
                }
            }
        }
        return lines.toString();
    }

    /**
     * Parses the output of {@link #lines}.
     *
     * @throws UnavailableException when the text is malformed
     */
    static Rates parse(String lines, String where) {
        Map<DType, Map<Route, Double>> giga = new EnumMap<>(DType.class);
        try {
            for (String line : lines.lines().toList()) {
                String[] words = line.split(" ", 3);
                double rate = Double.parseDouble(words[2]);
                if (!(rate > 0 && rate < 1e9)) {
                    throw new IllegalArgumentException("the rate " + rate);
                }
                giga.computeIfAbsent(DType.valueOf(words[0]), t -> new EnumMap<>(Route.class))
                        .put(Route.valueOf(words[1]), rate);
            }
            return new Rates(giga);
        } catch (IllegalArgumentException | ArrayIndexOutOfBoundsException e) {
            throw new UnavailableException("malformed rates: " + e.getMessage(), where, "measure again", e);
        }
    }
}
