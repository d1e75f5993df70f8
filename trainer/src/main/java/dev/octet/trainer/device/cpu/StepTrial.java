package dev.octet.trainer.device.cpu;

import dev.octet.trainer.activation.StepCost;
import dev.octet.trainer.device.StepFrame;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuKernel;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.Ops;
import dev.octet.trainer.op.experts.GroupedLinear;
import dev.octet.trainer.op.fp8.Fp8GroupedLinear;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * What steps take on this machine, tried before a run. Of steps that differ in nothing but their values one is run, on memory of its own, with the others in turn as in a program: results are as near to
 * the processor as there, and every kind of step meets the same moments of a machine that does other things as well. What it takes is the lower quartile after kernels are compiled.
 *
 * <p>Not tried, and reckoned by {@link CpuRates}: steps that would take longer than a second or more memory than there is to try in, and products of experts, whose rows only a router knows.
 */
public final class StepTrial {
    private static final double LONGEST = 1;
    private static final int LEAST_ROUNDS = 3;
    private static final int SETTLED_ROUNDS = 20;
    private static final int MOST_ROUNDS = 2000;

    /**
     * What is tried.
     *
     * @param states what the steps start from, F32 elements of each; a single number fills the tensor
     */
    record Steps(List<Step> steps, Map<Value, List<Float>> states) {}

    /** Steps that take the same time. */
    private record Kind(Op op, boolean backward, List<List<@Nullable OperandType>> operands, Set<Integer> accumulated) {
        static Kind of(Step s) {
            return new Kind(
                    s.op(),
                    s.backward(),
                    List.of(types(s.inputs()), types(s.outputs()), types(s.upstream()), types(s.gradients())),
                    s.accumulated());
        }

        private static List<@Nullable OperandType> types(List<@Nullable Value> values) {
            List<@Nullable OperandType> types = new ArrayList<>();
            for (Value v : values) {
                types.add(v == null ? null : v.type());
            }
            return types;
        }
    }

    private final CpuRates rates;
    private final Map<Kind, Double> seconds = new HashMap<>();
    private final double products;

    private StepTrial(CpuRates rates, List<Tried> tried) {
        this.rates = rates;
        double flops = 0;
        double taken = 0;
        for (Tried t : tried) {
            seconds.put(t.kind, t.quartile());
            if (StepCost.isProduct(t.step)) {
                flops += StepCost.of(t.step).flops();
                taken += t.quartile();
            }
        }
        products = flops > 0 && taken > 0 ? flops / taken : rates.products();
    }

    /**
     * Tries steps.
     *
     * @param mostBytes of memory to try in
     * @param seconds for it; every kind of step is run three times at least
     */
    static StepTrial of(CpuContext cpu, CpuRates rates, Steps work, long mostBytes, double seconds) {
        Map<Kind, Step> kinds = new LinkedHashMap<>();
        work.steps().stream().filter(s -> isTried(s, rates)).forEach(s -> kinds.putIfAbsent(Kind.of(s), s));
        try (Arena arena = Arena.ofShared()) {
            Map<Value, CpuTensor> tensors = new HashMap<>();
            long left = mostBytes;
            List<Tried> tried = new ArrayList<>();
            for (Map.Entry<Kind, Step> e : kinds.entrySet()) {
                long bytes = e.getValue().operands().stream()
                        .distinct()
                        .filter(v -> !tensors.containsKey(v))
                        .mapToLong(v -> v.type().byteSize())
                        .sum();
                if (bytes <= left) {
                    left -= bytes;
                    tried.add(new Tried(
                            e.getKey(),
                            e.getValue(),
                            v -> tensors.computeIfAbsent(
                                    v, o -> tensor(arena, o, work.states().get(o)))));
                }
            }
            run(cpu, tried, seconds);
            return new StepTrial(rates, tried);
        }
    }

    private static void run(CpuContext cpu, List<Tried> tried, double seconds) {
        long start = System.nanoTime();
        double taken = 0;
        for (int round = 0; !isEnough(round, taken / seconds); round++) {
            tried.forEach(t -> t.run(cpu));
            taken = (System.nanoTime() - start) / 1e9;
        }
    }

    /** @param part of the time that was given; where rounds are long three times that are taken, for kernels to be compiled */
    private static boolean isEnough(int rounds, double part) {
        return rounds >= MOST_ROUNDS || (rounds >= LEAST_ROUNDS && part >= (rounds < SETTLED_ROUNDS ? 3 : 1));
    }

    private static boolean isTried(Step step, CpuRates rates) {
        return !step.isView()
                && !(step.op() instanceof GroupedLinear || step.op() instanceof Fp8GroupedLinear)
                && reckoned(step, rates, rates.products()) < LONGEST;
    }

    private static double reckoned(Step step, CpuRates rates, double products) {
        StepCost cost = StepCost.of(step);
        return StepCost.isProduct(step)
                ? cost.flops() / products
                : cost.bytes() / rates.bytes() + StepCost.casts(step) / rates.casts();
    }

    private static CpuTensor tensor(Arena arena, Value value, @Nullable List<Float> initial) {
        MemorySegment bytes = CpuMemory.zeros(arena, value.type().byteSize(), "value '" + value.name() + "'");
        CpuTensor tensor = new CpuTensor(value.type(), bytes);
        if (initial == null) {
            fill(tensor);
        } else if (!initial.equals(List.of(0f))) {
            CpuMemory.fill(tensor, initial);
        }
        return tensor;
    }

    /** Small numbers of both signs, scales of 1 in powers of two, and indices that every table has. */
    private static void fill(CpuTensor tensor) {
        MemorySegment bytes = tensor.bytes();
        switch (tensor.dtype()) {
            case BOOL -> bytes.fill((byte) 1);
            case F8_E8M0 -> bytes.fill((byte) 0x7F);
            case F32 -> noise(bytes, Float.BYTES);
            case BF16, F16 -> noise(bytes, Short.BYTES);
            case F8_E4M3FN, F8_E5M2, F4_E2M1 -> noise(bytes, 1);
            default -> {} // zeros
        }
    }

    /** Elements whose highest byte is 3C or BC, and random below: in F32 and BF16 0.008 to 0.03. */
    private static void noise(MemorySegment bytes, int width) {
        byte[] some = new byte[1 << 14];
        SplittableRandom random = new SplittableRandom(1);
        random.nextBytes(some);
        for (int i = width - 1; i < some.length; i += width) {
            some[i] = (byte) (0x3C | (some[i] & (width == 1 ? 0x83 : 0x80)));
        }
        for (long at = 0; at < bytes.byteSize(); at += some.length) {
            int count = (int) Math.min(some.length, bytes.byteSize() - at);
            MemorySegment.copy(some, 0, bytes, ValueLayout.JAVA_BYTE, at, count);
        }
    }

    /** What this machine does at large. */
    public CpuRates rates() {
        return rates;
    }

    /** Seconds that steps take one after the other. */
    public double seconds(Collection<Step> steps) {
        double sum = 0;
        for (Step s : steps) {
            if (!s.isView()) {
                Double known = seconds.get(Kind.of(s));
                sum += known == null ? reckoned(s, rates, products) : known;
            }
        }
        return sum;
    }

    /** A step that is run, and what it took each time. */
    private static final class Tried {
        private final Kind kind;
        private final Step step;
        private final CpuKernel<Op> kernel;
        private final StepFrame<CpuTensor> frame;
        private final List<Double> times = new ArrayList<>();

        Tried(Kind kind, Step step, Function<Value, CpuTensor> operand) {
            this.kind = kind;
            this.step = step;
            this.kernel = Ops.of(step.op()).cpu();
            this.frame = new StepFrame<>(step, operand);
        }

        void run(CpuContext cpu) {
            long start = System.nanoTime();
            if (step.backward()) {
                kernel.backward(step.op(), frame, cpu);
            } else {
                kernel.forward(step.op(), frame, cpu);
            }
            times.add((System.nanoTime() - start) / 1e9);
        }

        /** What a quarter of the later half took at most: other programs that get in the way make a step slower, and nothing makes it faster. */
        double quartile() {
            double[] later = times.subList(times.size() / 2, times.size()).stream()
                    .mapToDouble(t -> t)
                    .sorted()
                    .toArray();
            return later[later.length / 4];
        }
    }
}
