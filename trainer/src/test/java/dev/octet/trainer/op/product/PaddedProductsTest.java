package dev.octet.trainer.op.product;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.device.cuda.Gpu;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaProduct;
import dev.octet.trainer.kernel.CudaProduct.Matrix;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.GivenFrame;
import dev.octet.trainer.op.TwinTest.Case;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Products on copies with longer rows give the numbers of the same products without: to the bit where sums are added up in the same order. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PaddedProductsTest {
    /** One product of random operands. */
    record Form(boolean transposeA, boolean transposeB, DType type, DType result, boolean adds, boolean biased) {}

    static Stream<Form> forms() {
        List<Form> all = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            for (DType type : new DType[] {DType.BF16, DType.F16}) {
                for (DType result : new DType[] {type, DType.F32}) {
                    boolean a = i % 2 == 1;
                    boolean b = i / 2 == 1;
                    all.add(new Form(a, b, type, result, false, false));
                    all.add(new Form(a, b, type, result, true, false));
                    all.add(new Form(a, b, type, result, false, true));
                }
            }
        }
        return all.stream();
    }

    @ParameterizedTest
    @MethodSource("forms")
    void copies_give_the_bits_of_the_operands(Form form) {
        for (int[] size : new int[][] {{19, 67, 45}, {1, 1, 1}, {9, 1031, 3}, {3, 5, 1100}, {16, 9, 24}}) {
            for (int batch : new int[] {1, 3}) {
                double[] plain = product(form, size, batch, PaddingRule.NEVER, TestGpus.host());
                assertArrayEquals(plain, product(form, size, batch, PaddingRule.ALWAYS, TestGpus.host()), 0.0);
            }
        }
    }

    /** A vocabulary with an odd number of tokens, cut to a tenth. */
    @Tag("gpu")
    @ParameterizedTest
    @MethodSource("forms")
    void copies_give_what_operands_do_on_the_gpu(Form form) {
        int[] size = {512, 5027, 768};
        double[] plain = product(form, size, 1, PaddingRule.NEVER, TestGpus.shared());
        double[] padded = product(form, size, 1, PaddingRule.STANDARD, TestGpus.shared());
        double difference = 0;
        double norm = 0;
        for (int i = 0; i < plain.length; i++) {
            difference += (plain[i] - padded[i]) * (plain[i] - padded[i]);
            norm += plain[i] * plain[i];
        }
        // another order of sums, rounded to the result's type
        double most = form.result() == DType.F32 ? 1e-5 : 3e-3;
        assertTrue(Math.sqrt(difference / norm) <= most, () -> "relative difference, of " + form);
        assertTrue(norm > 0, "nothing was computed");
    }

    private static double[] product(Form form, int[] size, int batch, PaddingRule rule, Gpu gpu) {
        int m = size[0];
        int n = size[1];
        int k = size[2];
        try (CudaOperands operands = new CudaOperands(gpu)) {
            CudaTensor a = operands.tensor(type(form.type(), batch * m, k), numbers(batch * m * k, 1));
            CudaTensor b = operands.tensor(type(form.type(), batch * k, n), numbers(batch * k * n, 2));
            OperandType result = type(form.result(), batch * m, n);
            CudaTensor d = form.adds() ? operands.tensor(result, numbers(batch * m * n, 3)) : operands.empty(result);
            CudaTensor bias = operands.tensor(type(form.result(), 1, n), numbers(n, 4));
            CudaProduct product = CudaProduct.of(
                            form.transposeA(),
                            form.transposeB(),
                            m,
                            n,
                            k,
                            new Matrix(a.address(), a.dtype(), form.transposeA() ? m : k, batch > 1 ? (long) m * k : 0),
                            new Matrix(b.address(), b.dtype(), form.transposeB() ? k : n, batch > 1 ? (long) k * n : 0),
                            new Matrix(d.address(), d.dtype(), n, batch > 1 ? (long) m * n : 0))
                    .withBias(form.biased() ? bias.address() : 0, d.dtype())
                    .accumulating(form.adds())
                    .batched(batch);
            operands.run(cuda -> new CudaProducts(cuda, rule).write(product));
            return operands.numbers(d);
        }
    }

    @Test
    void linears_with_odd_lengths_give_the_same_bits() {
        for (DType type : new DType[] {DType.BF16, DType.F16}) {
            for (boolean transB : new boolean[] {false, true}) {
                OperandType x = type(type, 13, 45);
                OperandType w = transB ? type(type, 67, 45) : type(type, 45, 67);
                Linear op = new Linear(x, w, true, transB, type(type, 13, 67), 13, 45, 67);
                OperandType bias = new OperandType(type, Shape.of(67));
                check(Case.normal("linear " + transB, op, x, w, bias), LinearCuda::new);
            }
        }
    }

    @Test
    void matrix_products_with_odd_lengths_give_the_same_bits() {
        for (long[][] shapes : new long[][][] {
            {{13, 45}, {45, 67}}, {{2, 3, 5, 7}, {2, 3, 7, 9}}, {{5, 7}, {2, 3, 7, 9}}, {{2, 1, 3, 5}, {3, 5, 7}}
        }) {
            OperandType a = new OperandType(DType.BF16, Shape.of(shapes[0]));
            OperandType b = new OperandType(DType.BF16, Shape.of(shapes[1]));
            Node node = Node.of("", "MatMul", List.of("a", "b"), List.of("y"));
            MatMul op = MatMul.read(new OpSource(node, List.of(a, b), Arrays.asList(null, null), 21));
            check(Case.normal("matmul", op, a, b), MatMulCuda::new);
        }
    }

    @Test
    void gemms_with_odd_lengths_give_the_same_bits() {
        for (boolean trans : new boolean[] {false, true}) {
            OperandType a = trans ? type(DType.BF16, 45, 13) : type(DType.BF16, 13, 45);
            OperandType b = trans ? type(DType.BF16, 67, 45) : type(DType.BF16, 45, 67);
            OperandType c = type(DType.BF16, 13, 67);
            Attribute[] attributes = {Attribute.of("transA", trans ? 1 : 0), Attribute.of("transB", trans ? 1 : 0)};
            Node node = Node.of("", "Gemm", List.of("a", "b", "c"), List.of("y"), attributes);
            Gemm op = Gemm.read(new OpSource(node, List.of(a, b, c), Arrays.asList(null, null, null), 21));
            check(Case.normal("gemm", op, a, b, c), GemmCuda::new);
        }
    }

    private static <O extends Op> void check(Case c, Function<PaddingRule, CudaKernel<O>> kernel) {
        for (boolean adds : new boolean[] {false, true}) {
            List<double[]> plain = run(c, kernel.apply(PaddingRule.NEVER), adds);
            List<double[]> padded = run(c, kernel.apply(PaddingRule.ALWAYS), adds);
            for (int i = 0; i < plain.size(); i++) {
                assertTrue(Arrays.stream(plain.get(i)).allMatch(Double::isFinite), "a result is not finite");
                assertArrayEquals(plain.get(i), padded.get(i), 0.0, c.name() + ", tensor " + i);
            }
        }
    }

    /** The result and the gradients of all inputs. */
    @SuppressWarnings("unchecked")
    private static <O extends Op> List<double[]> run(Case c, CudaKernel<O> kernel, boolean adds) {
        try (CudaOperands operands = new CudaOperands(TestGpus.host())) {
            List<CudaTensor> inputs = new ArrayList<>();
            List<CudaTensor> gradients = new ArrayList<>();
            for (int i = 0; i < c.inputs().size(); i++) {
                OperandType type = requireNonNull(c.types().get(i));
                inputs.add(operands.tensor(type, requireNonNull(c.inputs().get(i))));
                gradients.add(adds ? operands.tensor(type, numbers((int) type.count(), 5 + i)) : operands.empty(type));
            }
            OperandType result = c.op().outputs().getFirst();
            CudaTensor y = operands.empty(result);
            CudaTensor dy = operands.tensor(result, numbers((int) result.count(), 9));
            Frame<CudaTensor> frame = new GivenFrame<>(inputs, List.of(y), dy, gradients, adds);
            operands.run(cuda -> kernel.forward((O) c.op(), frame, cuda));
            operands.run(cuda -> kernel.backward((O) c.op(), frame, cuda));
            List<double[]> all = new ArrayList<>(List.of(operands.numbers(y)));
            gradients.forEach(g -> all.add(operands.numbers(g)));
            return all;
        }
    }

    @Test
    void the_head_of_gpt_2_is_padded_and_attention_s_scores_of_257_tokens_are_not() {
        CudaProduct head = product(DType.BF16, false, true, 32768, 50257, 768);
        assertTrue(PaddingRule.STANDARD.pays(head));
        assertEquals(new CudaLengths(32768, 50264, 768), PaddingRule.STANDARD.lengths(head));
        assertEquals(50304, PaddingRule.STANDARD.lengths(head).d().leading());
        assertTrue(PaddingRule.STANDARD.pays(product(DType.BF16, false, false, 32768, 768, 50257)));
        assertTrue(PaddingRule.STANDARD.pays(product(DType.BF16, true, false, 50257, 768, 32768)));
        assertTrue(!PaddingRule.STANDARD.pays(product(DType.BF16, false, true, 257, 257, 80)));
        assertTrue(!PaddingRule.STANDARD.pays(product(DType.F32, false, true, 32768, 50257, 768)));
        assertTrue(!PaddingRule.ALWAYS.pays(product(DType.BF16, false, true, 33, 64, 128)));
    }

    private static CudaProduct product(DType type, boolean transposeA, boolean transposeB, int m, int n, int k) {
        return CudaProduct.of(
                transposeA,
                transposeB,
                m,
                n,
                k,
                Matrix.of(0, type, transposeA ? m : k),
                Matrix.of(0, type, transposeB ? k : n),
                Matrix.of(0, type, n));
    }

    private static OperandType type(DType type, int rows, int cols) {
        return new OperandType(type, Shape.of(rows, cols));
    }

    private static double[] numbers(int count, int seed) {
        return new SplittableRandom(seed).doubles(count, -1, 1).toArray();
    }
}
