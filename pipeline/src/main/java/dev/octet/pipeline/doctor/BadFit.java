package dev.octet.pipeline.doctor;

import com.fasterxml.jackson.databind.JsonNode;
import dev.octet.trainer.config.GuardConfig;
import dev.octet.trainer.hook.Fp8Health;
import dev.octet.trainer.hook.StepLines;
import java.io.IOException;
import java.math.BigDecimal;
import java.math.MathContext;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * A tensor that did not fit its FP8 codes in a step, as {@link Fp8Health} measured it: more of it was clipped than {@link Fp8Health#MOST_CLIPPED}, or
 * more of it became 0 than {@link GuardConfig#USUAL_UNDERFLOWED} allows. It is evidence, not proof: training stands some tensors that underflow.
 *
 * @param tensor {@code model.layers.0.mlp.up_proj.input}
 * @param step in which it was measured
 * @param clipped share of its elements that were clipped, from 0 to 1
 * @param underflowed share of its elements that became 0, from 0 to 1
 */
public record BadFit(String tensor, long step, double clipped, double underflowed) {
    /** Steps on either side of the one that is asked for. */
    private static final long NEAR = 10;

    /** Tensors given, of many that do not fit. */
    private static final int MOST = 5;

    /** Clipping is the worse of the two: what is clipped is large. */
    private static final Comparator<BadFit> WORST_FIRST = Comparator.comparingDouble(BadFit::clipped)
            .thenComparingDouble(BadFit::underflowed)
            .reversed();

    /**
     * Tensors that did not fit around a step, worst first, at most five: within ten steps of it, or where nothing was measured so near, at the last
     * measurement before it. None where the run wrote no such file.
     *
     * @param run its folder
     * @param step where the loss departs
     * @throws IOException when the file cannot be read
     */
    public static List<BadFit> around(Path run, long step) throws IOException {
        TreeMap<Long, Map<String, BadFit>> bySteps = new TreeMap<>();
        StepLines.read(run.resolve(Fp8Health.NAME), line -> {
            long at = line.path("step").asLong();
            if (at <= step + NEAR && line.path("tensor").isTextual()) {
                // of many steps before it the last alone can matter
                bySteps.headMap(Math.min(at, step - NEAR), false).clear();
                bySteps.computeIfAbsent(at, _ -> new HashMap<>())
                        .put(line.path("tensor").textValue(), of(at, line));
            }
        });
        Long last = bySteps.floorKey(step);
        boolean isNear = bySteps.ceilingKey(step - NEAR) != null;
        Map<String, BadFit> worst = new TreeMap<>();
        bySteps.tailMap(isNear || last == null ? step - NEAR : last, true)
                .values()
                .forEach(tensors -> tensors.values().stream()
                        .filter(BadFit::isBad)
                        .forEach(f -> worst.merge(f.tensor, f, (a, b) -> WORST_FIRST.compare(a, b) <= 0 ? a : b)));
        return worst.values().stream().sorted(WORST_FIRST).limit(MOST).toList();
    }

    private static BadFit of(long step, JsonNode line) {
        return new BadFit(line.path("tensor").textValue(), step, share(line, "clipped"), share(line, "underflowed"));
    }

    private static double share(JsonNode line, String key) {
        double share = line.path(key).asDouble(0) / line.path("elements").asDouble(0);
        return share >= 0 && share <= 1 ? share : 0;
    }

    private boolean isBad() {
        return clipped > Fp8Health.MOST_CLIPPED || underflowed > GuardConfig.USUAL_UNDERFLOWED.demote();
    }

    /** In words: {@code at step 30 62 % of model.layers.0.mlp.up_proj.input underflowed}. */
    public String sentence() {
        boolean isClipped = clipped > Fp8Health.MOST_CLIPPED;
        BigDecimal percent = BigDecimal.valueOf(100 * (isClipped ? clipped : underflowed))
                .round(new MathContext(2))
                .stripTrailingZeros();
        return "at step " + step + " " + percent.toPlainString() + " % of " + tensor
                + (isClipped ? " was clipped" : " underflowed");
    }
}
