package dev.octet.trainer.gemm;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.DynamicTest.dynamicTest;

import dev.octet.formats.error.UnavailableException;
import dev.octet.formats.file.CacheFolder;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.device.cpu.CpuDevice;
import dev.octet.trainer.kernel.CpuTensor;
import dev.octet.trainer.kernel.MatrixProducts;
import dev.octet.trainer.kernel.MatrixProducts.Call;
import dev.octet.trainer.kernel.OperandType;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;

/** Every product there is against sums in F64 of the same operands. */
@Tag("twins")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GemmsTest {
    private static final int[][] SIZES = {
        {1, 1, 1}, {13, 1, 7}, {1, 207, 13}, {207, 13, 1}, {65, 97, 207}, {33, 400, 40}
    };

    /** Half the distance of the smallest F16. */
    private static final double SUBNORMAL = 0x1p-25;

    /** All products that this machine has, the native ones by each route. */
    private static Map<String, MatrixProducts> gemms() {
        Map<String, MatrixProducts> all = new LinkedHashMap<>();
        for (MatrixProducts java : List.of(new PlainGemm(), new VectorGemm())) {
            all.put(java.name(), java);
        }
        try {
            OneDnn library = OneDnn.load(OneDnn.unpack(CacheFolder.path()));
            Rates rates = GemmTrial.measure(library);
            for (Route bf16 : Route.values()) {
                if (rates.of(DType.BF16, bf16) > 0) {
                    Route f16 = rates.of(DType.F16, bf16) > 0 ? bf16 : Route.WIDENED;
                    all.put(
                            library.name() + ", BF16 " + bf16 + ", F16 " + f16,
                            new OneDnnGemm(library, rates, bf16, f16));
                }
            }
        } catch (UnavailableException e) {
            assertFalse(Gemms.best() instanceof OneDnnGemm, e.getMessage());
        }
        return all;
    }

    @Test
    void a_device_says_what_computes_and_why_it_is_not_the_native_library() {
        try (CpuDevice given = new CpuDevice(1, new PlainGemm());
                CpuDevice best = CpuDevice.of(1)) {
            assertEquals("plain Java", given.products());
            boolean isNative = Gemms.best() instanceof OneDnnGemm;
            assertTrue(best.products().startsWith(Gemms.best().name()), best.products());
            assertEquals(!isNative, best.products().contains(" (not oneDNN: "), best.products());
        }
    }

    @TestFactory
    Stream<DynamicTest> a_product_is_that_of_its_definition() {
        List<DynamicTest> tests = new ArrayList<>();
        gemms().forEach((name, gemm) ->
                calls().forEach(call -> tests.add(dynamicTest(name + " " + call, () -> checkDefinition(gemm, call)))));
        return tests.stream();
    }

    @TestFactory
    Stream<DynamicTest> the_number_of_threads_does_not_change_a_bit() {
        List<DynamicTest> tests = new ArrayList<>();
        gemms().forEach((name, gemm) -> calls().filter(c -> c.m() > 1 && c.lda() % 2 == 1)
                .forEach(call -> tests.add(dynamicTest(name + " " + call, () -> {
                    float[] one = shared(gemm, call, 1);
                    for (int threads : new int[] {2, 3}) {
                        assertArrayEquals(one, shared(gemm, call, threads));
                    }
                }))));
        return tests.stream();
    }

    @TestFactory
    Stream<DynamicTest> blocks_of_widened_operands_meet_without_gaps() {
        List<DynamicTest> tests = new ArrayList<>();
        gemms().forEach((name, gemm) -> {
            for (DType result : List.of(DType.F32, DType.BF16)) {
                // more than one block along each side and along the sums
                Call call = new Call(true, true, 515, 387, 195, 517, 197, 391, DType.BF16, result, true);
                tests.add(dynamicTest(name + " " + call, () -> checkDefinition(gemm, call)));
            }
        });
        return tests.stream();
    }

    /** All sizes, transposes and types; rows at odd distances; written and added to. */
    private static Stream<Call> calls() {
        List<Call> all = new ArrayList<>();
        int variant = 0;
        for (int[] s : SIZES) {
            for (boolean ta : new boolean[] {false, true}) {
                for (boolean tb : new boolean[] {false, true}) {
                    for (DType[] types : new DType[][] {
                        {DType.F32, DType.F32},
                        {DType.BF16, DType.F32},
                        {DType.BF16, DType.BF16},
                        {DType.F16, DType.F32},
                        {DType.F16, DType.F16}
                    }) {
                        int gap = variant % 3;
                        all.add(new Call(
                                ta,
                                tb,
                                s[0],
                                s[1],
                                s[2],
                                (ta ? s[0] : s[2]) + gap,
                                (tb ? s[2] : s[1]) + gap,
                                s[1] + gap,
                                types[0],
                                types[1],
                                variant++ % 2 == 0));
                    }
                }
            }
        }
        return all.stream();
    }

    private static void checkDefinition(MatrixProducts gemm, Call call) {
        try (Arena arena = Arena.ofConfined()) {
            Operands o = Operands.of(call, arena);
            double[] magnitudes = new double[call.m() * call.n()];
            double[] expected = o.product(call, magnitudes);
            float[] before = floats(o.c);
            gemm.single(call, o.a.bytes(), o.b.bytes(), o.c.bytes());
            float[] actual = floats(o.c);
            // a sum of k + 1 terms in F32, in any order, is off by at most (k + 1) 2⁻²⁴ times the sum of their
            // magnitudes (Higham,
            // Accuracy and Stability of Numerical Algorithms, §4.2); then one rounding to the type of the result
            double rounding = switch (call.result()) {
                case BF16 -> 0x1p-8;
                case F16 -> 0x1p-11;
                default -> 0x1p-24;
            };
            for (int i = 0; i < call.m(); i++) {
                for (int j = 0; j < call.ldc() && i * call.ldc() + j < actual.length; j++) {
                    int at = (int) (i * call.ldc() + j);
                    if (j < call.n()) {
                        double e = expected[i * call.n() + j];
                        assertEquals(
                                e,
                                actual[at],
                                magnitudes[i * call.n() + j] * (call.k() + 1) * 0x1p-24
                                        + Math.abs(e) * rounding * 1.01
                                        + SUBNORMAL,
                                () -> "element " + at);
                    } else {
                        assertEquals(before[at], actual[at], 0.0f, "what lies between the rows of C is not touched");
                    }
                }
            }
        }
    }

    private static float[] shared(MatrixProducts gemm, Call call, int threads) {
        try (Arena arena = Arena.ofShared();
                ThreadTeam team = new ThreadTeam(threads)) {
            Operands o = Operands.of(call, arena);
            gemm.shared(call, o.a.bytes(), o.b.bytes(), o.c.bytes(), team);
            return floats(o.c);
        }
    }

    private static float[] floats(CpuTensor t) {
        float[] all = new float[(int) t.count()];
        t.read(0, all, 0, all.length);
        return all;
    }

    private record Operands(CpuTensor a, CpuTensor b, CpuTensor c) {
        static Operands of(Call call, Arena arena) {
            SplittableRandom random = new SplittableRandom(call.hashCode());
            return new Operands(
                    matrix(call.operands(), call.transposeA() ? call.k() : call.m(), call.lda(), random, arena),
                    matrix(call.operands(), call.transposeB() ? call.n() : call.k(), call.ldb(), random, arena),
                    matrix(call.result(), call.m(), call.ldc(), random, arena));
        }

        private static CpuTensor matrix(DType dtype, int rows, long stride, SplittableRandom random, Arena arena) {
            OperandType type = new OperandType(dtype, Shape.of(rows * stride));
            // one element behind the start of a line: nothing may depend on alignment beyond the element's own
            long size = dtype.bits() / 8;
            MemorySegment bytes = arena.allocate(type.byteSize() + size, 64).asSlice(size);
            CpuTensor t = new CpuTensor(type, bytes);
            for (int i = 0; i < t.count(); i++) {
                t.write(i, new float[] {(float) random.nextGaussian()}, 0, 1);
            }
            return t;
        }

        /** Sums in F64, and sums of magnitudes. */
        double[] product(Call call, double[] magnitudes) {
            float[] x = floats(a);
            float[] w = floats(b);
            float[] y = floats(c);
            double[] sums = new double[call.m() * call.n()];
            for (int i = 0; i < call.m(); i++) {
                for (int j = 0; j < call.n(); j++) {
                    double sum = call.accumulate() ? y[(int) (i * call.ldc() + j)] : 0;
                    double magnitude = Math.abs(sum);
                    for (int p = 0; p < call.k(); p++) {
                        double term = (double) x[(int) (call.transposeA() ? p * call.lda() + i : i * call.lda() + p)]
                                * w[(int) (call.transposeB() ? j * call.ldb() + p : p * call.ldb() + j)];
                        sum += term;
                        magnitude += Math.abs(term);
                    }
                    magnitudes[i * call.n() + j] = magnitude;
                    sums[i * call.n() + j] = sum;
                }
            }
            return sums;
        }
    }

    @TestFactory
    Stream<DynamicTest> pieces_cover_the_result_once() {
        return calls().map(call -> dynamicTest("" + call, () -> {
            Cuts cuts = Cuts.of(call);
            int covered = 0;
            for (int p = 0; p < cuts.count(); p++) {
                assertEquals(covered, cuts.from(p));
                assertTrue(cuts.length(p, call) > 0);
                covered += cuts.length(p, call);
            }
            assertEquals(cuts.alongRows() ? call.m() : call.n(), covered);
        }));
    }
}
