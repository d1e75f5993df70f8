package dev.octet.trainer.optimizer;

import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.product.Gemm;
import dev.octet.trainer.op.shard.SharedTensor;
import dev.octet.trainer.op.update.MuonMomentum;
import dev.octet.trainer.op.update.MuonScale;
import dev.octet.trainer.op.update.MuonStep;
import dev.octet.trainer.op.update.SquareSum;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import dev.octet.trainer.rule.MuonRule;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Muon's update of a matrix as steps of a program: momentum, norm, the iteration of Newton and Schulz as matrix products, the step. What lies between is temporary, and
 * matrices share its memory.
 *
 * <pre>
 * X = u / max(‖u‖, eps)
 * steps times, for a matrix that is wider than high:  G = X·Xᵀ     P = b·G + c·G·G     X = a·X + P·X
 *              for one that is higher than wide:      G = Xᵀ·X     P = b·G + c·G·G     X = a·X + X·P
 * </pre>
 *
 * <p>Of a matrix that ranks share, each has its part of the momentum, gathers the update before the iteration and takes its part of the result (Liu et al., arXiv:2502.16982, algorithm 1): the
 * products are those of the whole matrix, on each rank.
 *
 * <p>torch transposes a matrix that is higher than wide and back, which is the same.
 */
final class MuonSteps {
    private final ProgramBuilder builder;
    private final MuonRule rule;
    private final String name;
    private final SharedTensor of;

    /** Numbers that all tensors share. */
    record Scalars(Value lr, Value factor, Value leftOut) {}

    /** @param of the matrix, of which ranks may have parts */
    MuonSteps(ProgramBuilder builder, MuonRule rule, String name, SharedTensor of) {
        this.builder = builder;
        this.rule = rule;
        this.name = name;
        this.of = of;
    }

    void write(Value p, Value gradient, Value momentum, Scalars scalars, double weightDecay) {
        OperandType part = p.type().as(rule.type());
        Value update = builder.temporary("muon:" + name, part);
        builder.step(
                Phase.UPDATE,
                name,
                new MuonMomentum(gradient.type(), rule.type(), rule.momentum(), rule.nesterov()),
                List.of(gradient, momentum, scalars.factor(), scalars.leftOut()),
                List.of(update, momentum));
        OperandType type = new OperandType(rule.type(), of.whole());
        if (of.isShared()) {
            Value gathered = builder.temporary("muon_whole:" + name, type);
            builder.step(Phase.UPDATE, name, of.gather(rule.type()), List.of(update), List.of(gathered));
            update = gathered;
        }
        Value squares = builder.temporary("muon_squares:" + name, SquareSum.RESULT);
        builder.step(Phase.UPDATE, name, new SquareSum(type), List.of(update), List.of(squares));
        Value x = builder.temporary("muon_scaled:" + name, type);
        builder.step(Phase.UPDATE, name, new MuonScale(type, rule.eps()), List.of(update, squares), List.of(x));
        for (int i = 0; i < rule.steps(); i++) {
            x = iterate(x, type);
        }
        if (of.isShared()) {
            Value own = builder.temporary("muon_part:" + name, part);
            builder.step(Phase.UPDATE, name, of.take(rule.type()), List.of(x), List.of(own));
            x = own;
        }
        builder.step(
                Phase.UPDATE,
                name,
                MuonStep.of(p.type(), of.whole(), rule, weightDecay),
                List.of(p, x, scalars.lr(), scalars.leftOut()),
                List.of(p));
    }

    private Value iterate(Value x, OperandType type) {
        int rows = Math.toIntExact(type.shape().dim(0));
        int columns = Math.toIntExact(type.shape().dim(1));
        boolean wide = rows <= columns;
        int n = Math.min(rows, columns);
        OperandType square = new OperandType(type.dtype(), Shape.of(n, n));
        Value gram = builder.temporary("muon_gram:" + name, square);
        product(x, x, null, gram, !wide, wide, 1, 0, Math.max(rows, columns));
        Value polynomial = builder.temporary("muon_polynomial:" + name, square);
        product(gram, gram, gram, polynomial, false, false, (float) rule.c(), (float) rule.b(), n);
        Value next = builder.temporary("muon_next:" + name, type);
        product(wide ? polynomial : x, wide ? x : polynomial, x, next, false, false, 1, (float) rule.a(), n);
        return next;
    }

    /** {@code y = alpha · op(a)·op(b) + beta · c}. */
    private void product(
            Value a,
            Value b,
            @Nullable Value c,
            Value y,
            boolean transA,
            boolean transB,
            float alpha,
            float beta,
            int k) {
        int m = Math.toIntExact(y.type().shape().dim(0));
        int n = Math.toIntExact(y.type().shape().dim(1));
        Gemm op = new Gemm(
                a.type(),
                b.type(),
                c == null ? null : c.type(),
                y.type(),
                transA,
                transB,
                alpha,
                beta,
                m,
                n,
                k,
                c == null ? 1 : m,
                c == null ? 1 : n);
        builder.step(Phase.UPDATE, name, op, c == null ? List.of(a, b) : Arrays.asList(a, b, c), List.of(y));
    }
}
