package dev.octet.trainer.op;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.device.cuda.HostGpu;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.device.cuda.TestNumbers;
import dev.octet.trainer.gemm.Gemms;
import dev.octet.trainer.gemm.ThreadTeam;
import dev.octet.trainer.kernel.CpuContext;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.MatrixProducts;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OperandType;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntPredicate;
import java.util.function.IntToDoubleFunction;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.TestFactory;

/**
 * What every operator must do: its reference gradient is the derivative of its reference forward (central differences in F64), and
 * the CPU twin computes what the reference does, in F32 and in BF16, with the same bits for any number of threads; and the CUDA twin
 * does, with the same bits in whatever order blocks and threads run.
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
public abstract class TwinTest {
    /** Step of the central differences: their error is about h² times the third derivative, and 1e-16 / h from rounding. */
    private static final double H = 1e-5;

    /**
     * One operator at one size.
     *
     * @param inputs values of the inputs, row-major; null where an optional one is absent
     * @param types of the inputs, as the operator was read with them
     */
    public record Case(String name, Op op, List<@Nullable OperandType> types, List<double @Nullable []> inputs) {
        /** Inputs drawn from a standard normal distribution, seeded by the case's name. */
        public static Case normal(String name, Op op, OperandType... types) {
            SplittableRandom random = new SplittableRandom(name.hashCode());
            List<double @Nullable []> inputs = new ArrayList<>();
            for (OperandType t : types) {
                inputs.add(random(t, random));
            }
            return new Case(name, op, List.of(types), inputs);
        }

        private static double[] random(OperandType type, SplittableRandom random) {
            double[] x = new double[(int) type.count()];
            for (int i = 0; i < x.length; i++) {
                double z = random.nextGaussian();
                // what F32 and BF16 both hold exactly, so that all twins see the same numbers
                x[i] = Float.intBitsToFloat(Float.floatToIntBits((float) z) & 0xFFFF0000);
                if (type.dtype() == DType.BOOL) {
                    x[i] = z < 0 ? 0 : 1;
                } else if (!type.dtype().isFloat()) {
                    x[i] = Math.rint(3 * z);
                }
            }
            return x;
        }
    }

    /** Sizes 1, odd, larger than a tile; every attribute that changes the arithmetic. F32. */
    protected abstract List<Case> cases();

    /** Largest |cpu - reference| relative to the largest |reference| of a tensor, in F32; sums of n terms may need more. */
    protected double tolerance(Case c) {
        return 2e-6;
    }

    /** Largest |numeric - reference| relative to the largest |reference| of a gradient; kinks and steep functions may need more. */
    protected double numericTolerance(Case c) {
        return 1e-6;
    }

    /**
     * Whether a case's kernels have neither transcendental functions nor products by the vendor's library. As nothing is contracted, they then
     * give the same bits on every GPU and in the emulation.
     */
    protected boolean isExactEverywhere(Case c) {
        return false;
    }

    /** The product the CPU twin works with. */
    protected MatrixProducts gemm() {
        return Gemms.best();
    }

    protected static OperandType f32(long... dims) {
        return new OperandType(DType.F32, Shape.of(dims));
    }

    @TestFactory
    Stream<DynamicTest> the_reference_gradient_is_the_derivative_of_the_forward() {
        return cases().stream().filter(c -> size(c) <= 600).map(c -> dynamicTest(c.name(), () -> checkNumeric(c)));
    }

    @Tag("twins")
    @TestFactory
    Stream<DynamicTest> the_cpu_twin_computes_what_the_reference_does() {
        return cases().stream().map(c -> dynamicTest(c.name(), () -> checkCpu(c)));
    }

    @Tag("twins")
    @TestFactory
    Stream<DynamicTest> any_number_of_threads_gives_the_same_bits() {
        return cases().stream()
                .map(c -> dynamicTest(c.name(), () -> {
                    List<double[]> one = runCpu(c, 1);
                    for (int threads : new int[] {2, 3}) {
                        List<double[]> more = runCpu(c, threads);
                        for (int i = 0; i < one.size(); i++) {
                            assertArrayEquals(one.get(i), more.get(i), 0.0);
                        }
                    }
                }));
    }

    @TestFactory
    Stream<DynamicTest> each_gradient_alone_has_the_same_bits_and_reads_only_what_was_kept() {
        return cases().stream()
                .map(c -> dynamicTest(c.name(), () -> {
                    List<double @Nullable []> all = cpuGradients(c, i -> wants(c, i), i -> false);
                    for (int i = 0; i < all.size(); i++) {
                        if (all.get(i) != null) {
                            int only = i;
                            assertArrayEquals(
                                    all.get(i),
                                    cpuGradients(c, k -> k == only, k -> false).get(i),
                                    0.0);
                        }
                    }
                }));
    }

    /** The kernels themselves, run on this processor, blocks and threads in one order and in the other. */
    @Tag("emulated")
    @TestFactory
    Stream<DynamicTest> the_cuda_twin_computes_what_the_reference_does() {
        assumeTrue(HostGpu.absence().isEmpty(), () -> HostGpu.absence().orElseThrow());
        List<Case> all = cases();
        AtomicInteger reached = new AtomicInteger();
        compileFromTheEnd(all, reached);
        return all.stream()
                .map(c -> dynamicTest(c.name(), () -> {
                    reached.incrementAndGet();
                    List<double[]> forward = runCuda(c, new HostGpu(HostGpu.Order.FORWARD));
                    List<double[]> backward = runCuda(c, new HostGpu(HostGpu.Order.BACKWARD));
                    assertSameBits(forward, backward, "depends on the order of threads");
                    check(c, forward);
                    checkCudaGradients(c, () -> new HostGpu(HostGpu.Order.FORWARD));
                }));
    }

    /** Runs the cases from the last on until the tests get there, so that two cores compile kernels: most of their time is that. */
    private void compileFromTheEnd(List<Case> all, AtomicInteger reached) {
        Thread.ofPlatform().daemon().start(() -> {
            for (int i = all.size() - 1; i > reached.get(); i--) {
                Case c = all.get(i);
                try {
                    runCuda(c, new HostGpu(HostGpu.Order.FORWARD));
                    cudaGradients(c, new HostGpu(HostGpu.Order.FORWARD), k -> wants(c, k), k -> false);
                } catch (RuntimeException | AssertionError e) {
                    return; // the test of the case says what is wrong
                }
            }
        });
    }

    /** The kernels on the GPU of this machine. */
    @Tag("gpu")
    @TestFactory
    Stream<DynamicTest> the_cuda_twin_on_the_gpu_computes_what_the_reference_does() {
        return cases().stream()
                .map(c -> dynamicTest(c.name(), () -> {
                    List<double[]> first = runCuda(c, TestGpus.shared());
                    assertSameBits(first, runCuda(c, TestGpus.shared()), "has other bits in a second run");
                    check(c, first);
                    checkCudaGradients(c, TestGpus::shared);
                }));
    }

    /** The strongest there is: what differs here is an error of the kernel, the compiler's use of it, or the emulation. */
    @Tag("gpu")
    @TestFactory
    Stream<DynamicTest> the_gpu_gives_the_bits_of_the_emulation_where_kernels_are_exact() {
        return cases().stream()
                .filter(this::isExactEverywhere)
                .map(c -> dynamicTest(
                        c.name(),
                        () -> assertSameBits(
                                runCuda(c, TestGpus.host()),
                                runCuda(c, TestGpus.shared()),
                                "has other bits than the emulation")));
    }

    /** What the test above rests on, as far as it shows without a GPU: one with many more multiprocessors. */
    @TestFactory
    Stream<DynamicTest> exact_kernels_give_the_same_bits_on_gpus_of_all_sizes() {
        return cases().stream()
                .filter(this::isExactEverywhere)
                .map(c -> dynamicTest(
                        c.name(),
                        () -> assertSameBits(
                                runCuda(c, TestGpus.host()),
                                runCuda(c, TestGpus.withMultiprocessors(TestGpus.host(), 132)),
                                "depends on the number of multiprocessors")));
    }

    private static void assertSameBits(List<double[]> first, List<double[]> second, String otherwise) {
        for (int k = 0; k < first.size(); k++) {
            assertArrayEquals(first.get(k), second.get(k), 0.0, "tensor " + k + " " + otherwise);
        }
    }

    /** Each gradient alone has the same bits and reads only what was kept; an accumulated one is added to what is there. */
    private void checkCudaGradients(Case c, Supplier<Gpu> gpus) {
        List<double @Nullable []> all = cudaGradients(c, gpus.get(), i -> wants(c, i), i -> false);
        boolean several = all.stream().filter(g -> g != null).count() > 1;
        for (int i = 0; i < all.size() && several; i++) {
            int only = i;
            if (all.get(i) != null) {
                assertArrayEquals(
                        all.get(i),
                        cudaGradients(c, gpus.get(), k -> k == only, k -> false).get(i),
                        0.0);
            }
        }
        if (IntStream.range(0, all.size()).anyMatch(c.op()::canAccumulate)) {
            List<double @Nullable []> added =
                    cudaGradients(c, gpus.get(), i -> wants(c, i), i -> c.op().canAccumulate(i));
            compareAccumulated(c, all, added);
        }
    }

    @Tag("twins")
    @TestFactory
    Stream<DynamicTest> an_accumulated_gradient_is_added_to_what_is_there() {
        return cases().stream()
                .map(c -> dynamicTest(c.name(), () -> {
                    List<double @Nullable []> written = cpuGradients(c, i -> wants(c, i), i -> false);
                    List<double @Nullable []> added = cpuGradients(c, i -> wants(c, i), i -> c.op().canAccumulate(i));
                    compareAccumulated(c, written, added);
                }));
    }

    private void compareAccumulated(Case c, List<double @Nullable []> written, List<double @Nullable []> added) {
        for (int i = 0; i < written.size(); i++) {
            double[] w = written.get(i);
            if (w != null && c.op().canAccumulate(i)) {
                double[] expected = weights(i, w.length);
                for (int k = 0; k < expected.length; k++) {
                    expected[k] += w[k];
                }
                double[] actual = requireNonNull(added.get(i));
                double step = lastPlace(requireNonNull(c.types().get(i)).dtype());
                compare("gradient of input " + i, k -> actual[k], expected, tolerance(c) + step, 1e-30);
            }
        }
    }

    /**
     * Gradients by input (of no length where none flows) when only output 0 has an upstream gradient: the CPU twin's. They must be near the reference's, as
     * those of the CUDA twin.
     *
     * @param upstream gradient of output 0
     */
    protected List<double[]> gradients(Op op, List<OperandType> types, List<double[]> inputs, double[] upstream) {
        List<double[]> outputs = outputs(op);
        List<double @Nullable []> expected = new ArrayList<>();
        for (int i = 0; i < inputs.size(); i++) {
            expected.add(op.isDifferentiable(i) ? new double[inputs.get(i).length] : null);
        }
        OpEntry<Op> entry = Ops.of(op);
        entry.reference().forward(op, new ReferenceOperands(inputs, outputs, List.of(), List.of()));
        entry.reference().backward(op, new ReferenceOperands(inputs, outputs, List.of(upstream), expected));
        checkCuda(op, types, inputs, upstream, expected);
        try (Arena arena = Arena.ofShared();
                ThreadTeam team = new ThreadTeam(1)) {
            CpuContext cpu = new CpuContext(team, gemm());
            List<@Nullable CpuTensor> x = new ArrayList<>();
            List<@Nullable CpuTensor> dx = new ArrayList<>();
            for (int i = 0; i < inputs.size(); i++) {
                x.add(tensor(arena, types.get(i), inputs.get(i)));
                dx.add(op.isDifferentiable(i) ? empty(arena, types.get(i)) : null);
            }
            List<@Nullable CpuTensor> y = new ArrayList<>();
            op.outputs().forEach(t -> y.add(empty(arena, t)));
            op.saved().forEach(t -> y.add(empty(arena, t)));
            CpuTensor dy = tensor(arena, op.outputs().getFirst(), upstream);
            entry.cpu().forward(op, new CpuOperands(x, y, List.of(), List.of(), i -> false), cpu);
            entry.cpu().backward(op, new CpuOperands(x, y, List.of(dy), dx, i -> false), cpu);
            List<double[]> got = new ArrayList<>();
            for (int i = 0; i < dx.size(); i++) {
                double[] e = expected.get(i);
                CpuTensor t = dx.get(i);
                got.add(t == null ? new double[0] : doubles(t));
                if (e != null) {
                    assertArrayEquals(e, got.get(i), 3e-5); // half a step of F32 near 1000, an exponent of ReduceTest
                }
            }
            return got;
        }
    }

    private static void checkCuda(
            Op op,
            List<OperandType> types,
            List<double[]> inputs,
            double[] upstream,
            List<double @Nullable []> expected) {
        CudaKernel<Op> twin = Ops.of(op).cuda();
        if (twin == null || HostGpu.absence().isPresent()) {
            return;
        }
        try (CudaOperands operands = new CudaOperands(new HostGpu(HostGpu.Order.FORWARD))) {
            List<@Nullable CudaTensor> x = new ArrayList<>();
            List<@Nullable CudaTensor> dx = new ArrayList<>();
            for (int i = 0; i < inputs.size(); i++) {
                x.add(operands.tensor(types.get(i), inputs.get(i)));
                dx.add(expected.get(i) == null ? null : operands.empty(types.get(i)));
            }
            List<@Nullable CudaTensor> y = new ArrayList<>();
            Stream.concat(op.outputs().stream(), op.saved().stream()).forEach(t -> y.add(operands.empty(t)));
            CudaTensor dy = operands.tensor(op.outputs().getFirst(), upstream);
            operands.run(cuda -> twin.forward(op, new Operands<>(x, y, List.of(), List.of(), i -> false), cuda));
            operands.run(cuda -> twin.backward(op, new Operands<>(x, y, List.of(dy), dx, i -> false), cuda));
            for (int i = 0; i < dx.size(); i++) {
                CudaTensor t = dx.get(i);
                if (t != null) {
                    assertArrayEquals(requireNonNull(expected.get(i)), operands.numbers(t), 3e-5);
                }
            }
        }
    }

    private static long size(Case c) {
        return c.types().stream().mapToLong(t -> t == null ? 0 : t.count()).sum();
    }

    private static double[] weights(int output, int n) {
        SplittableRandom random = new SplittableRandom(99 + output);
        double[] w = new double[n];
        for (int i = 0; i < n; i++) {
            w[i] = Float.intBitsToFloat(Float.floatToIntBits((float) random.nextGaussian()) & 0xFFFF0000);
        }
        return w;
    }

    private static List<double[]> outputs(Op op) {
        List<double[]> all = new ArrayList<>();
        Stream.concat(op.outputs().stream(), op.saved().stream()).forEach(t -> all.add(new double[(int) t.count()]));
        return all;
    }

    private static OperandType gradientType(Case c, int i) {
        return c.op().gradientType(i, requireNonNull(c.types().get(i)));
    }

    private static boolean wants(Case c, int i) {
        OperandType t = c.types().get(i);
        return t != null && t.dtype().isFloat() && c.op().isDifferentiable(i);
    }

    /** Forward by the reference; the result is sum(weights · outputs), whose gradient is what backward computes for upstream = weights. */
    private static double loss(Case c, List<double @Nullable []> inputs, List<double[]> outputs) {
        OpEntry<Op> entry = Ops.of(c.op());
        entry.reference().forward(c.op(), new ReferenceOperands(inputs, outputs, List.of(), List.of()));
        double sum = 0;
        for (int j = 0; j < c.op().outputs().size(); j++) {
            double[] w = weights(j, outputs.get(j).length);
            for (int i = 0; i < w.length; i++) {
                sum += w[i] * outputs.get(j)[i];
            }
        }
        return sum;
    }

    private static List<double @Nullable []> referenceGradients(Case c, List<double[]> outputs) {
        List<double[]> upstream = new ArrayList<>();
        for (int j = 0; j < c.op().outputs().size(); j++) {
            upstream.add(weights(j, outputs.get(j).length));
        }
        List<double @Nullable []> gradients = new ArrayList<>();
        for (int i = 0; i < c.inputs().size(); i++) {
            double[] x = c.inputs().get(i);
            gradients.add(x == null || !wants(c, i) ? null : new double[x.length]);
        }
        if (gradients.stream().allMatch(g -> g == null)) {
            return gradients;
        }
        Ops.of(c.op()).reference().backward(c.op(), new ReferenceOperands(c.inputs(), outputs, upstream, gradients));
        return gradients;
    }

    private void checkNumeric(Case c) {
        List<double[]> outputs = outputs(c.op());
        loss(c, c.inputs(), outputs);
        List<double @Nullable []> gradients = referenceGradients(c, outputs);
        for (int i = 0; i < gradients.size(); i++) {
            double[] g = gradients.get(i);
            double[] x = c.inputs().get(i);
            if (g != null && x != null) {
                int input = i;
                compare("gradient of input " + i, e -> numeric(c, input, e), g, numericTolerance(c), 1e-8);
                if (c.op().passesGradient(i)) {
                    assertArrayEquals(weights(0, g.length), g, "what passes its gradient on has that of output 0");
                }
            }
        }
    }

    private static double numeric(Case c, int input, int element) {
        List<double @Nullable []> moved = new ArrayList<>(c.inputs());
        double[] x = requireNonNull(c.inputs().get(input)).clone();
        moved.set(input, x);
        double h = H * Math.max(1, Math.abs(x[element]));
        double centre = x[element];
        x[element] = centre + h;
        double up = loss(c, moved, outputs(c.op()));
        x[element] = centre - h;
        double down = loss(c, moved, outputs(c.op()));
        return (up - down) / (2 * h);
    }

    private void checkCpu(Case c) {
        check(c, runCpu(c, 2));
    }

    /** Outputs and wanted gradients against the reference's. */
    private void check(Case c, List<double[]> got) {
        List<double[]> outputs = outputs(c.op());
        loss(c, c.inputs(), outputs);
        int nodeOutputs = c.op().outputs().size();
        List<double[]> expected = new ArrayList<>(outputs.subList(0, nodeOutputs));
        List<OperandType> types = new ArrayList<>(c.op().outputs());
        List<double @Nullable []> gradients = referenceGradients(c, outputs);
        for (int i = 0; i < gradients.size(); i++) {
            double[] g = gradients.get(i);
            if (g != null) {
                expected.add(g);
                types.add(requireNonNull(c.types().get(i)));
            }
        }
        assertEquals(expected.size(), got.size());
        for (int k = 0; k < got.size(); k++) {
            double[] actual = got.get(k);
            double step = lastPlace(types.get(k).dtype());
            if (k < nodeOutputs) {
                // an output is the exact one rounded: each element within one unit in its last place
                double[] e = expected.get(k);
                compare("tensor " + k, i -> without(actual[i], e[i], step), e, tolerance(c), 1e-30);
            } else {
                // a gradient may be made from outputs that were rounded: within one unit of the largest element
                compare("tensor " + k, i -> actual[i], expected.get(k), tolerance(c) + step, 1e-30);
            }
        }
    }

    /** One unit in the last place, relative to a number; 0 for F32, whose rounding tolerances allow for. */
    private static double lastPlace(DType type) {
        return switch (type) {
            case BF16 -> 0x1p-7;
            case F16 -> 0x1p-10;
            default -> 0;
        };
    }

    /** What is expected, when the actual number is within a relative step of it (or of the smallest F16); else the actual one. */
    private static double without(double actual, double expected, double step) {
        return step > 0 && Math.abs(actual - expected) <= Math.max(step * Math.abs(expected), 0x1p-24)
                ? expected
                : actual;
    }

    private static void compare(
            String what, IntToDoubleFunction actual, double[] expected, double tolerance, double floor) {
        double largest = floor;
        for (double e : expected) {
            largest = Math.max(largest, Double.isFinite(e) ? Math.abs(e) : 0);
        }
        for (int i = 0; i < expected.length; i++) {
            double a = actual.applyAsDouble(i);
            double e = expected[i];
            boolean same = Double.compare(a, e) == 0 || a == e;
            assertTrue(
                    same || Math.abs(a - e) <= tolerance * largest,
                    what + " [" + i + "]: " + a + ", expected " + e + ", largest " + largest);
        }
    }

    /** Gradients by input; null where not asked for. Backward gets no input or output that it does not say it reads. */
    private List<double @Nullable []> cpuGradients(Case c, IntPredicate asked, IntPredicate accumulated) {
        try (Arena arena = Arena.ofShared();
                ThreadTeam team = new ThreadTeam(1)) {
            CpuContext cpu = new CpuContext(team, gemm());
            List<@Nullable CpuTensor> inputs = new ArrayList<>();
            List<@Nullable CpuTensor> kept = new ArrayList<>();
            List<@Nullable CpuTensor> gradients = new ArrayList<>();
            for (int i = 0; i < c.inputs().size(); i++) {
                OperandType t = c.types().get(i);
                double[] x = c.inputs().get(i);
                CpuTensor input = t == null || x == null ? null : tensor(arena, t, x);
                inputs.add(input);
                kept.add(c.op().backwardReadsInput(i, asked) ? input : null);
                gradients.add(
                        t == null || !asked.test(i)
                                ? null
                                : accumulated.test(i)
                                        ? tensor(arena, gradientType(c, i), weights(i, (int) t.count()))
                                        : empty(arena, gradientType(c, i)));
            }
            List<@Nullable CpuTensor> outputs = new ArrayList<>();
            List<CpuTensor> upstream = new ArrayList<>();
            for (OperandType t : c.op().outputs()) {
                outputs.add(empty(arena, t));
                upstream.add(tensor(arena, t, weights(upstream.size(), (int) t.count())));
            }
            c.op().saved().forEach(t -> outputs.add(empty(arena, t)));
            OpEntry<Op> entry = Ops.of(c.op());
            entry.cpu().forward(c.op(), new CpuOperands(inputs, outputs, List.of(), List.of(), accumulated), cpu);
            for (int j = 0; j < c.op().outputs().size(); j++) {
                if (!c.op().backwardReadsOutput(j)) {
                    outputs.set(j, null);
                }
            }
            if (gradients.stream().anyMatch(g -> g != null)) {
                entry.cpu().backward(c.op(), new CpuOperands(kept, outputs, upstream, gradients, accumulated), cpu);
            }
            List<double @Nullable []> results = new ArrayList<>();
            gradients.forEach(g -> results.add(g == null ? null : doubles(g)));
            return results;
        }
    }

    /** As {@link #cpuGradients}. */
    private static List<double @Nullable []> cudaGradients(
            Case c, Gpu gpu, IntPredicate asked, IntPredicate accumulated) {
        try (CudaOperands operands = new CudaOperands(gpu)) {
            List<@Nullable CudaTensor> inputs = new ArrayList<>();
            List<@Nullable CudaTensor> kept = new ArrayList<>();
            List<@Nullable CudaTensor> gradients = new ArrayList<>();
            for (int i = 0; i < c.inputs().size(); i++) {
                OperandType t = c.types().get(i);
                double[] x = c.inputs().get(i);
                CudaTensor input = t == null || x == null ? null : operands.tensor(t, x);
                inputs.add(input);
                kept.add(c.op().backwardReadsInput(i, asked) ? input : null);
                gradients.add(
                        t == null || !asked.test(i)
                                ? null
                                : accumulated.test(i)
                                        ? operands.tensor(gradientType(c, i), weights(i, (int) t.count()))
                                        : operands.empty(gradientType(c, i)));
            }
            List<@Nullable CudaTensor> outputs = new ArrayList<>();
            List<CudaTensor> upstream = new ArrayList<>();
            for (OperandType t : c.op().outputs()) {
                outputs.add(operands.empty(t));
                upstream.add(operands.tensor(t, weights(upstream.size(), (int) t.count())));
            }
            c.op().saved().forEach(t -> outputs.add(operands.empty(t)));
            CudaKernel<Op> twin = Ops.of(c.op()).cuda();
            List<@Nullable CudaTensor> all = new ArrayList<>(outputs);
            operands.run(
                    cuda -> twin.forward(c.op(), new Operands<>(inputs, all, List.of(), List.of(), accumulated), cuda));
            for (int j = 0; j < c.op().outputs().size(); j++) {
                if (!c.op().backwardReadsOutput(j)) {
                    outputs.set(j, null);
                }
            }
            if (gradients.stream().anyMatch(g -> g != null)) {
                operands.run(cuda ->
                        twin.backward(c.op(), new Operands<>(kept, outputs, upstream, gradients, accumulated), cuda));
            }
            List<double @Nullable []> results = new ArrayList<>();
            gradients.forEach(g -> results.add(g == null ? null : operands.numbers(g)));
            return results;
        }
    }

    private static List<double[]> runCuda(Case c, Gpu gpu) {
        try (CudaOperands operands = new CudaOperands(gpu)) {
            List<@Nullable CudaTensor> inputs = new ArrayList<>();
            List<@Nullable CudaTensor> gradients = new ArrayList<>();
            for (int i = 0; i < c.inputs().size(); i++) {
                OperandType t = c.types().get(i);
                double[] x = c.inputs().get(i);
                inputs.add(t == null || x == null ? null : operands.tensor(t, x));
                gradients.add(t == null || !wants(c, i) ? null : operands.empty(gradientType(c, i)));
            }
            List<CudaTensor> outputs = new ArrayList<>();
            Stream.concat(c.op().outputs().stream(), c.op().saved().stream())
                    .forEach(t -> outputs.add(operands.empty(t)));
            List<CudaTensor> upstream = new ArrayList<>();
            for (int j = 0; j < c.op().outputs().size(); j++) {
                OperandType t = c.op().outputs().get(j);
                upstream.add(operands.tensor(t, weights(j, (int) t.count())));
            }
            CudaKernel<Op> twin = Ops.of(c.op()).cuda();
            operands.run(cuda ->
                    twin.forward(c.op(), new Operands<>(inputs, outputs, List.of(), List.of(), i -> false), cuda));
            List<double[]> results = new ArrayList<>();
            for (int j = 0; j < c.op().outputs().size(); j++) {
                results.add(operands.numbers(outputs.get(j)));
            }
            if (gradients.stream().anyMatch(g -> g != null)) {
                operands.run(cuda ->
                        twin.backward(c.op(), new Operands<>(inputs, outputs, upstream, gradients, i -> false), cuda));
            }
            for (CudaTensor g : gradients) {
                if (g != null) {
                    results.add(operands.numbers(g));
                }
            }
            return results;
        }
    }

    private List<double[]> runCpu(Case c, int threads) {
        try (Arena arena = Arena.ofShared();
                ThreadTeam team = new ThreadTeam(threads)) {
            CpuContext cpu = new CpuContext(team, gemm());
            List<@Nullable CpuTensor> inputs = new ArrayList<>();
            List<@Nullable CpuTensor> gradients = new ArrayList<>();
            for (int i = 0; i < c.inputs().size(); i++) {
                OperandType t = c.types().get(i);
                double[] x = c.inputs().get(i);
                inputs.add(t == null || x == null ? null : tensor(arena, t, x));
                gradients.add(t == null || !wants(c, i) ? null : empty(arena, gradientType(c, i)));
            }
            List<CpuTensor> outputs = new ArrayList<>();
            Stream.concat(c.op().outputs().stream(), c.op().saved().stream())
                    .forEach(t -> outputs.add(empty(arena, t)));
            List<CpuTensor> upstream = new ArrayList<>();
            for (int j = 0; j < c.op().outputs().size(); j++) {
                OperandType t = c.op().outputs().get(j);
                upstream.add(tensor(arena, t, weights(j, (int) t.count())));
            }
            OpEntry<Op> entry = Ops.of(c.op());
            entry.cpu().forward(c.op(), new CpuOperands(inputs, outputs, List.of(), List.of(), i -> false), cpu);
            List<double[]> results = new ArrayList<>();
            for (int j = 0; j < c.op().outputs().size(); j++) {
                results.add(doubles(outputs.get(j)));
            }
            if (gradients.stream().anyMatch(g -> g != null)) {
                entry.cpu().backward(c.op(), new CpuOperands(inputs, outputs, upstream, gradients, i -> false), cpu);
            }
            for (CpuTensor g : gradients) {
                if (g != null) {
                    results.add(doubles(g));
                }
            }
            return results;
        }
    }

    /** Filled with a value that shows when it is read: old contents are meaningless. */
    private static CpuTensor empty(Arena arena, OperandType type) {
        CpuTensor t = new CpuTensor(
                type, arena.allocate(Math.max(1, type.byteSize()), 64).asSlice(0, type.byteSize()));
        t.bytes().fill((byte) 0x77);
        return t;
    }

    private static CpuTensor tensor(Arena arena, OperandType type, double[] values) {
        CpuTensor t = empty(arena, type);
        TestNumbers.write(t, values);
        return t;
    }

    private static double[] doubles(CpuTensor t) {
        return TestNumbers.read(t);
    }

    /** Operands as lists; null where absent. */
    private static class Operands<T> implements Frame<T> {
        private final List<? extends @Nullable T> inputs;
        private final List<? extends @Nullable T> outputs;
        private final List<? extends T> upstream;
        private final List<? extends @Nullable T> gradients;
        private final IntPredicate accumulated;

        Operands(
                List<? extends @Nullable T> inputs,
                List<? extends @Nullable T> outputs,
                List<? extends T> upstream,
                List<? extends @Nullable T> gradients,
                IntPredicate accumulated) {
            this.accumulated = accumulated;
            this.inputs = inputs;
            this.outputs = outputs;
            this.upstream = upstream;
            this.gradients = gradients;
        }

        @Override
        public boolean hasInput(int i) {
            return i < inputs.size() && inputs.get(i) != null;
        }

        @Override
        public T input(int i) {
            return requireNonNull(inputs.get(i));
        }

        @Override
        public T output(int j) {
            return requireNonNull(outputs.get(j));
        }

        @Override
        public boolean hasUpstream(int j) {
            return j < upstream.size();
        }

        @Override
        public T upstream(int j) {
            return upstream.get(j);
        }

        @Override
        public boolean wantsGradient(int i) {
            return i < gradients.size() && gradients.get(i) != null;
        }

        @Override
        public T gradient(int i) {
            return requireNonNull(gradients.get(i));
        }

        @Override
        public boolean accumulates(int i) {
            return accumulated.test(i);
        }
    }

    private static final class ReferenceOperands extends Operands<double[]> {
        ReferenceOperands(
                List<double @Nullable []> inputs,
                List<double[]> outputs,
                List<double[]> upstream,
                List<double @Nullable []> gradients) {
            super(inputs, outputs, upstream, gradients, i -> false);
        }
    }

    private static final class CpuOperands extends Operands<CpuTensor> {
        CpuOperands(
                List<@Nullable CpuTensor> inputs,
                List<? extends @Nullable CpuTensor> outputs,
                List<CpuTensor> upstream,
                List<@Nullable CpuTensor> gradients,
                IntPredicate accumulated) {
            super(inputs, outputs, upstream, gradients, accumulated);
        }
    }
}
