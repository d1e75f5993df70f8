package dev.octet.trainer.activation;

import dev.octet.formats.tensor.DType;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.attention.Attention;
import dev.octet.trainer.op.conv.Conv;
import dev.octet.trainer.op.experts.GroupedLinear;
import dev.octet.trainer.op.fp8.Fp8GroupedLinear;
import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.product.Gemm;
import dev.octet.trainer.op.product.Linear;
import dev.octet.trainer.op.product.MatMul;
import dev.octet.trainer.op.stored.StoredLinear;
import dev.octet.trainer.program.Step;
import dev.octet.trainer.program.Value;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * What a step costs: multiplications and additions of its matrix products, and the bytes that it reads and writes. A byte counts as {@value #FLOPS_PER_BYTE} of them,
 * about the ratio of a processor with vector units; products dominate either way, so that the choice between plans hardly depends on it.
 *
 * @param flops of products; one for each element of other operators' results
 * @param bytes of all operands
 */
public record StepCost(long flops, long bytes) {
    private static final long FLOPS_PER_BYTE = 8;

    /** Of one step, forward or backward. */
    public static StepCost of(Step step) {
        if (step.isView()) {
            return new StepCost(0, 0);
        }
        long bytes =
                step.operands().stream().mapToLong(v -> v.type().byteSize()).sum();
        long product = product(step);
        if (product > 0) {
            return new StepCost(products(step) * product, bytes);
        }
        long elements = step.results().stream()
                .mapToLong(v -> v == null ? 0 : v.type().count())
                .sum();
        return new StepCost(elements, bytes);
    }

    /** Elements of codes of FP8 that a step reads or writes: each becomes a float, or is made of one; the gradient of a Linear both, within the step. */
    public static long casts(Step step) {
        if (step.isView()) {
            return 0;
        }
        long within = step.backward() && step.op() instanceof Fp8Linear l ? 2L * l.rows() * l.out() : 0;
        return within
                + step.operands().stream()
                        .map(Value::type)
                        .filter(t -> t.dtype() == DType.F8_E4M3FN || t.dtype() == DType.F8_E5M2)
                        .mapToLong(OperandType::count)
                        .sum();
    }

    /** One number to compare plans by. */
    public long weight() {
        return flops + FLOPS_PER_BYTE * bytes;
    }

    /** Whether a step is a matrix product, forward or backward. */
    public static boolean isProduct(Step step) {
        return product(step) > 0;
    }

    /** How many products of the forward size a step is: backward has one for each operand that wants a gradient, a bias aside. */
    private static long products(Step step) {
        if (!step.backward()) {
            return 1;
        }
        int operands = step.op() instanceof Attention ? 3 : 2;
        return step.op() instanceof GroupedLinear || step.op() instanceof Fp8GroupedLinear
                ? Stream.of(0, GroupedLinear.WEIGHTS)
                        .filter(i ->
                                i < step.gradients().size() && step.gradients().get(i) != null)
                        .count()
                : step.gradients().stream()
                        .limit(operands)
                        .filter(g -> g != null)
                        .count();
    }

    /** Operations of a product of forward; 0 for other operators. */
    private static long product(Step step) {
        Op op = step.op();
        OperandType y = op.outputs().isEmpty() ? null : op.outputs().getFirst();
        if (y == null) {
            return 0;
        }
        return switch (op) {
            case Linear l -> 2L * l.rows() * l.in() * l.out();
            case Fp8Linear l -> 2L * l.rows() * l.in() * l.out();
            case GroupedLinear l -> 2 * y.count() * l.x().shape().dim(-1);
            case Fp8GroupedLinear l ->
                2L * l.layer().rows() * l.layer().in() * l.layer().out();
            case StoredLinear l -> 2 * y.count() * last(step, y);
            case MatMul m -> 2 * y.count() * last(step, y);
            case Gemm g -> 2 * y.count() * last(step, y);
            case Attention a -> 4 * y.count() * longest(y);
            case Conv c -> 2 * y.count() * perChannel(step);
            default -> 0;
        };
    }

    /** Length of the rows of the first operand; of the result where backward does not read that. */
    private static long last(Step step, OperandType y) {
        Value x = step.inputs().isEmpty() ? null : step.inputs().getFirst();
        OperandType type = x == null ? y : x.type();
        return type.shape().rank() == 0 ? 1 : type.shape().dim(-1);
    }

    /** Positions of a result of attention. */
    private static long longest(OperandType y) {
        return y.shape().rank() < 2 ? 1 : y.shape().dim(-2);
    }

    /** Elements of a convolution's weight for one channel of its result. */
    private static long perChannel(Step step) {
        @Nullable Value w = step.inputs().size() > 1 ? step.inputs().get(1) : null;
        return w == null || w.type().shape().dim(0) == 0
                ? 1
                : w.type().count() / w.type().shape().dim(0);
    }
}
