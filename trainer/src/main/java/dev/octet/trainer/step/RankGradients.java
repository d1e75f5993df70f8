package dev.octet.trainer.step;

import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.precision.MsampPolicy;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.reduction.GradientReduction;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * Ranks that train together, simulated in one process: of N consecutive micro-batches each is one rank's. Their gradients are averaged as FP8 codes, and the mean is put where the
 * sum of all micro-batches would be.
 */
final class RankGradients {
    private final MsampPolicy policy;
    private final PersistentBuffers memory;
    private final Map<String, Value> gradients;
    /** Of each parameter what each rank has so far. */
    private final Map<String, List<float[]>> ranks = new TreeMap<>();

    private final int rounds;
    private int taken;

    /**
     * For one step.
     *
     * @param gradients of the parameters whose gradients are sent in FP8, F32
     * @param microBatches a multiple of the ranks
     */
    RankGradients(MsampPolicy policy, PersistentBuffers memory, Map<String, Value> gradients, int microBatches) {
        this.policy = policy;
        this.memory = memory;
        this.gradients = gradients;
        this.rounds = microBatches / policy.ranks().count();
    }

    /** Takes the gradients of the micro-batch that was just computed. */
    void take() {
        int count = policy.ranks().count();
        int rank = taken % count;
        gradients.forEach((name, value) -> {
            // the loss was divided by all micro-batches; a rank's own mean is over its own
            float[] gradient = memory.readGradient(name, count);
            memory.memory().zero(value);
            List<float[]> all = ranks.computeIfAbsent(name, _ -> new ArrayList<>());
            if (all.size() <= rank) {
                all.add(gradient);
            } else {
                float[] sum = all.get(rank);
                for (int i = 0; i < sum.length; i++) {
                    sum[i] += gradient[i];
                }
            }
        });
        taken++;
        if (taken % count == 0) {
            boolean last = taken / count == rounds;
            ranks.forEach((name, all) -> ranks.put(name, last ? mean(all) : between(all)));
            if (last) {
                ranks.forEach((name, all) -> write(gradients.get(name), all.getFirst()));
            }
        }
    }

    private List<float[]> between(List<float[]> all) {
        GradientReduction reduction = policy.ranks().reduction();
        return reduction.reducesEachTime()
                ? copies(mean(all).getFirst(), all.size())
                : reduction.kept(all, policy.recipe().rule());
    }

    private static List<float[]> copies(float[] mean, int count) {
        List<float[]> all = new ArrayList<>();
        for (int r = 0; r < count; r++) {
            all.add(mean.clone());
        }
        return all;
    }

    private List<float[]> mean(List<float[]> all) {
        float[] numbers = policy.ranks()
                .reduction()
                .mean(all, ones(all.size()), policy.recipe().rule(), 1)
                .gradient()
                .numbers();
        boolean finite = true;
        for (float[] gradient : all) {
            for (float g : gradient) {
                finite &= Float.isFinite(g);
            }
        }
        if (!finite) {
            numbers[0] = Float.NaN; // saturated codes would hide the overflow
        }
        return List.of(numbers);
    }

    private static float[] ones(int count) {
        float[] ones = new float[count];
        Arrays.fill(ones, 1);
        return ones;
    }

    private void write(Value value, float[] numbers) {
        try (Arena arena = Arena.ofConfined()) {
            Shape shape = value.type().shape();
            memory.memory().write(value, Tensor.ofFloats(arena, value.name(), shape, numbers).bytes());
        }
    }
}
