package dev.octet.trainer.replay;

import static java.util.Objects.requireNonNull;

import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.data.MicroBatch;
import dev.octet.trainer.hook.Gradients;
import dev.octet.trainer.precision.Fp8Layer;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.step.StepResult;
import dev.octet.trainer.step.TrainingSession;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeMap;

/**
 * Runs an excerpt again and again, each time in a session of its own, and compares gradients and updates with those of another. Equal
 * variants give equal replays, in any order.
 *
 * <p>Gradients of replays that others are compared with stay in memory: at most {@link #MAX_ELEMENTS} elements of each parameter, evenly
 * spread, for each step.
 */
final class Replays {
    /** Elements of a parameter that are compared. Of that many, an error of 1 % is measured to about 0.002 %. */
    static final int MAX_ELEMENTS = 1 << 18;

    private final Excerpt excerpt;
    private final Map<String, Trace> kept = new HashMap<>();

    Replays(Excerpt excerpt) {
        this.excerpt = excerpt;
    }

    /** What a replay leaves: a sample of each step's gradients, and of the updates of all steps. */
    private record Trace(
            List<Double> losses,
            List<Double> norms,
            List<Map<String, float[]>> gradients,
            Map<String, float[]> updates,
            String nonFinite,
            double seconds) {}

    /** Steps of each replay. */
    int steps() {
        return excerpt.steps();
    }

    /** Forgets a variant's gradients. */
    void forget(Variant variant) {
        kept.remove(variant.key());
    }

    /**
     * Runs a variant and compares it with another, which is run only once.
     *
     * @param key of the result
     */
    Replay compare(String key, Variant variant, Variant with) {
        Trace reference = kept.get(with.key());
        if (reference == null) {
            reference = run(with);
            kept.put(with.key(), reference);
        }
        Trace trace = variant.key().equals(with.key()) ? reference : run(variant);
        List<Map<String, Difference>> gradients = new ArrayList<>();
        for (int i = 0; i < trace.gradients().size(); i++) {
            gradients.add(
                    differences(trace.gradients().get(i), reference.gradients().get(i)));
        }
        return new Replay(
                key,
                trace.losses(),
                trace.norms(),
                gradients,
                differences(trace.updates(), reference.updates()),
                trace.nonFinite(),
                trace.seconds());
    }

    private Trace run(Variant variant) {
        long start = System.nanoTime();
        List<Double> losses = new ArrayList<>();
        List<Double> norms = new ArrayList<>();
        List<Map<String, float[]>> gradients = new ArrayList<>();
        Map<String, float[]> updates = new TreeMap<>();
        String nonFinite = "";
        try (TrainingSession session = session(variant);
                Arena arena = Arena.ofConfined()) {
            for (int i = 0; i < excerpt.steps(); i++) {
                Map<String, float[]> seen = new TreeMap<>();
                StepResult result =
                        session.step(batches(i, variant, arena), excerpt.rates().get(i), g -> read(g, seen), false);
                losses.add(result.loss());
                norms.add(result.gradNorm());
                gradients.add(seen);
                if (nonFinite.isEmpty() && result.skipped()) {
                    nonFinite = "step " + (excerpt.firstStep() + i) + ": " + where(result);
                }
            }
            Map<String, Tensor> after = session.parameterViews(arena);
            for (String name : gradients.getFirst().keySet()) {
                updates.put(
                        name,
                        update(
                                requireNonNull(after.get(name)),
                                requireNonNull(excerpt.parameters().get(name))));
            }
        }
        return new Trace(losses, norms, gradients, updates, nonFinite, (System.nanoTime() - start) / 1e9);
    }

    private static String where(StepResult result) {
        return result.where().isEmpty() ? result.nonFinite() : result.nonFinite() + ", first in " + result.where();
    }

    private TrainingSession session(Variant variant) {
        TrainingSession session = excerpt.session(variant.policy());
        if (variant.shake() != 0) {
            session.restore(shaken(excerpt.parameters(), variant.shake()), Map.of(), excerpt.scale());
        }
        return session;
    }

    /** Vectors among the parameters with random changes, the same for the same names. */
    private static Map<String, Tensor> shaken(Map<String, Tensor> parameters, double shake) {
        Map<String, Tensor> shaken = new TreeMap<>();
        parameters.forEach((name, tensor) -> {
            if (tensor.shape().rank() == 1) {
                shaken.put(name, shaken(tensor, shake));
            }
        });
        return shaken;
    }

    private static Tensor shaken(Tensor vector, double shake) {
        SplittableRandom random = new SplittableRandom(vector.name().hashCode());
        float[] elements = vector.toFloats();
        for (int i = 0; i < elements.length; i++) {
            elements[i] *= (float) (1 + shake * (2 * random.nextDouble() - 1));
        }
        return Tensor.ofFloats(Arena.ofAuto(), vector.name(), vector.shape(), elements);
    }

    /**
     * State of scales after one step of a policy, whose weights and moments are thrown away: delayed scaling begins with scales of 1, which
     * say nothing of the run.
     */
    Map<String, Tensor> warmedScales(PrecisionPolicy policy, String prefix, Arena arena) {
        Map<String, Tensor> scales = new TreeMap<>();
        try (TrainingSession session = excerpt.session(policy)) {
            session.step(excerpt.batches().getFirst(), 0, null, false);
            session.state(arena).forEach((name, tensor) -> {
                if (name.startsWith(prefix)) {
                    scales.put(name, tensor);
                }
            });
        }
        return scales;
    }

    /** Layers that a policy computes in FP8, in the graph's order. */
    List<Fp8Layer> layers(PrecisionPolicy policy) {
        try (TrainingSession session = excerpt.session(policy)) {
            return session.fp8(excerpt.batches().getFirst().getFirst()).layers();
        }
    }

    private List<MicroBatch> batches(int step, Variant variant, Arena arena) {
        List<MicroBatch> batches = excerpt.batches().get(step);
        return variant.reversed()
                ? batches.stream().map(b -> reversed(b, arena)).toList()
                : batches;
    }

    /** The same samples, last to first: axis 0 of every tensor. */
    private static MicroBatch reversed(MicroBatch batch, Arena arena) {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        batch.tensors().forEach((name, t) -> tensors.put(name, t.shape().rank() == 0 ? t : reversed(t, arena)));
        return new MicroBatch(batch.number(), batch.rows().reversed(), tensors);
    }

    private static Tensor reversed(Tensor tensor, Arena arena) {
        Tensor result = Tensor.allocate(arena, tensor.spec());
        long rows = tensor.shape().dim(0);
        long bytes = rows == 0 ? 0 : tensor.bytes().byteSize() / rows;
        for (long row = 0; row < rows; row++) {
            MemorySegment.copy(tensor.bytes(), row * bytes, result.bytes(), (rows - 1 - row) * bytes, bytes);
        }
        return result;
    }

    private static void read(Gradients gradients, Map<String, float[]> into) {
        for (String name : gradients.names()) {
            float[] all = gradients.read(name);
            int stride = stride(all.length);
            float[] sample = new float[Math.ceilDiv(all.length, stride)];
            for (int i = 0; i < sample.length; i++) {
                sample[i] = all[i * stride];
            }
            into.put(name, sample);
        }
    }

    private static float[] update(Tensor after, Tensor before) {
        long elements = before.shape().elementCount();
        int stride = stride(elements);
        float[] sample = new float[Math.toIntExact(Math.ceilDiv(elements, stride))];
        for (int i = 0; i < sample.length; i++) {
            long at = (long) i * stride;
            sample[i] =
                    after.bytes().getAtIndex(Tensor.F32_LE, at) - before.bytes().getAtIndex(Tensor.F32_LE, at);
        }
        return sample;
    }

    /** Distance between compared elements: a prime, so that columns of a matrix are met evenly. */
    static int stride(long elements) {
        int stride = Math.toIntExact(Math.ceilDiv(Math.max(1, elements), MAX_ELEMENTS));
        while (stride > 1 && !BigInteger.valueOf(stride).isProbablePrime(50)) {
            stride++;
        }
        return stride;
    }

    private static Map<String, Difference> differences(Map<String, float[]> of, Map<String, float[]> reference) {
        Map<String, Difference> all = new TreeMap<>();
        Set<String> names = reference.keySet();
        for (String name : names) {
            float[] x = of.get(name);
            float[] r = reference.get(name);
            if (x != null && r != null) {
                all.put(name, Difference.of(x, r));
            }
        }
        return all;
    }
}
