package dev.octet.trainer.op;

import dev.octet.formats.graph.Node;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpEntry;
import dev.octet.trainer.kernel.OpReader;
import dev.octet.trainer.op.accumulate.Accumulate;
import dev.octet.trainer.op.accumulate.AccumulateCpu;
import dev.octet.trainer.op.accumulate.AccumulateReference;
import dev.octet.trainer.op.binary.Add;
import dev.octet.trainer.op.binary.BinaryCpu;
import dev.octet.trainer.op.binary.BinaryOp;
import dev.octet.trainer.op.binary.BinaryReference;
import dev.octet.trainer.op.binary.Div;
import dev.octet.trainer.op.binary.Mul;
import dev.octet.trainer.op.binary.Pair;
import dev.octet.trainer.op.binary.Sub;
import dev.octet.trainer.op.cast.Cast;
import dev.octet.trainer.op.cast.CastCpu;
import dev.octet.trainer.op.cast.CastReference;
import dev.octet.trainer.op.gather.Gather;
import dev.octet.trainer.op.gather.GatherCpu;
import dev.octet.trainer.op.gather.GatherReference;
import dev.octet.trainer.op.gelu.Gelu;
import dev.octet.trainer.op.gelu.GeluCpu;
import dev.octet.trainer.op.gelu.GeluReference;
import dev.octet.trainer.op.loss.SoftmaxCrossEntropyLoss;
import dev.octet.trainer.op.loss.SoftmaxCrossEntropyLossCpu;
import dev.octet.trainer.op.loss.SoftmaxCrossEntropyLossReference;
import dev.octet.trainer.op.norm.RowNorm;
import dev.octet.trainer.op.norm.RowNormCpu;
import dev.octet.trainer.op.norm.RowNormReference;
import dev.octet.trainer.op.product.Gemm;
import dev.octet.trainer.op.product.GemmCpu;
import dev.octet.trainer.op.product.GemmReference;
import dev.octet.trainer.op.product.Linear;
import dev.octet.trainer.op.product.LinearCpu;
import dev.octet.trainer.op.product.LinearReference;
import dev.octet.trainer.op.product.MatMul;
import dev.octet.trainer.op.product.MatMulCpu;
import dev.octet.trainer.op.product.MatMulReference;
import dev.octet.trainer.op.softmax.Softmax;
import dev.octet.trainer.op.softmax.SoftmaxCpu;
import dev.octet.trainer.op.softmax.SoftmaxReference;
import dev.octet.trainer.op.transpose.Transpose;
import dev.octet.trainer.op.transpose.TransposeCpu;
import dev.octet.trainer.op.transpose.TransposeReference;
import dev.octet.trainer.op.update.AdamStep;
import dev.octet.trainer.op.update.AdamStepCpu;
import dev.octet.trainer.op.update.AdamStepReference;
import dev.octet.trainer.op.update.GradientCheck;
import dev.octet.trainer.op.update.GradientCheckCpu;
import dev.octet.trainer.op.update.GradientCheckReference;
import dev.octet.trainer.op.update.SgdStep;
import dev.octet.trainer.op.update.SgdStepCpu;
import dev.octet.trainer.op.update.SgdStepReference;
import dev.octet.trainer.op.update.SquareSum;
import dev.octet.trainer.op.update.SquareSumCpu;
import dev.octet.trainer.op.update.SquareSumReference;
import dev.octet.trainer.op.view.View;
import dev.octet.trainer.op.view.ViewCpu;
import dev.octet.trainer.op.view.ViewReference;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;

/** All operators. One more is one folder and one row here. */
public final class Ops {
    /** Rows by family; within a family by name. */
    public static final List<OpEntry<?>> ALL = List.of(
            // --- elementwise
            binary("Add", Add.class, Add::new),
            binary("Div", Div.class, Div::new),
            binary("Mul", Mul.class, Mul::new),
            binary("Sub", Sub.class, Sub::new),
            OpEntry.onnx("Cast", Cast.class, Cast::read, new CastReference(), new CastCpu()),
            // --- reductions
            // --- shape and indexing
            view("Dropout", View::dropout),
            view("Flatten", View::flatten),
            view("Identity", View::identity),
            view("Reshape", View::reshape),
            view("Squeeze", View::squeeze),
            view("Unsqueeze", View::unsqueeze),
            OpEntry.onnx("Gather", Gather.class, Gather::read, new GatherReference(), new GatherCpu()),
            OpEntry.onnx("Transpose", Transpose.class, Transpose::read, new TransposeReference(), new TransposeCpu()),
            // --- matrix products, convolution, attention
            OpEntry.onnx("Gemm", Gemm.class, Gemm::read, new GemmReference(), new GemmCpu()),
            OpEntry.octet("Linear", Linear.class, Linear::read, new LinearReference(), new LinearCpu()),
            OpEntry.onnx("MatMul", MatMul.class, MatMul::read, new MatMulReference(), new MatMulCpu()),
            // --- normalisation, activation, pooling
            OpEntry.onnx("Gelu", Gelu.class, Gelu::read, new GeluReference(), new GeluCpu()),
            OpEntry.octet("Gelu", Gelu.class, Gelu::read, new GeluReference(), new GeluCpu()),
            OpEntry.onnx(
                    "LayerNormalization", RowNorm.class, RowNorm::readLayer, new RowNormReference(), new RowNormCpu()),
            OpEntry.octet(
                    "LayerNormalization", RowNorm.class, RowNorm::readLayer, new RowNormReference(), new RowNormCpu()),
            OpEntry.onnx("RMSNormalization", RowNorm.class, RowNorm::readRms, new RowNormReference(), new RowNormCpu()),
            OpEntry.octet(
                    "RMSNormalization", RowNorm.class, RowNorm::readRms, new RowNormReference(), new RowNormCpu()),
            OpEntry.onnx("Softmax", Softmax.class, Softmax::read, new SoftmaxReference(), new SoftmaxCpu()),
            // --- losses
            OpEntry.onnx(
                    "SoftmaxCrossEntropyLoss",
                    SoftmaxCrossEntropyLoss.class,
                    SoftmaxCrossEntropyLoss::read,
                    new SoftmaxCrossEntropyLossReference(),
                    new SoftmaxCrossEntropyLossCpu()),
            // --- made by programs: casts, quantisers, updates
            OpEntry.made("Accumulate", Accumulate.class, new AccumulateReference(), new AccumulateCpu()),
            OpEntry.made("Adam", AdamStep.class, new AdamStepReference(), new AdamStepCpu()),
            OpEntry.made("GradientCheck", GradientCheck.class, new GradientCheckReference(), new GradientCheckCpu()),
            OpEntry.made("SGD", SgdStep.class, new SgdStepReference(), new SgdStepCpu()),
            OpEntry.made("SquareSum", SquareSum.class, new SquareSumReference(), new SquareSumCpu()));

    private static final Map<Class<?>, OpEntry<?>> BY_CLASS = new HashMap<>();
    private static final Map<String, OpEntry<?>> BY_NODE = new HashMap<>();

    static {
        for (OpEntry<?> e : ALL) {
            // an operator of both domains, or one record for several operators, has a row for each; twins are the same
            OpEntry<?> first = BY_CLASS.putIfAbsent(e.op(), e);
            if ((first != null && first.cpu().getClass() != e.cpu().getClass())
                    || (e.domain() != null && BY_NODE.put(e.domain() + ":" + e.type(), e) != null)) {
                throw new IllegalStateException("two rows for " + e.type());
            }
        }
    }

    private Ops() {}

    private static <O extends BinaryOp> OpEntry<O> binary(String type, Class<O> op, Function<Pair, O> of) {
        return OpEntry.onnx(type, op, s -> of.apply(Pair.read(s)), new BinaryReference<>(), new BinaryCpu<>());
    }

    private static OpEntry<View> view(String type, OpReader<View> reader) {
        return OpEntry.onnx(type, View.class, reader, new ViewReference(), new ViewCpu());
    }

    /** The row of a node's operator; empty when it cannot be trained. */
    public static Optional<OpEntry<?>> of(Node node) {
        return Optional.ofNullable(BY_NODE.get(node.domain() + ":" + node.opType()));
    }

    /** The row of an operator. */
    @SuppressWarnings("unchecked") // the map's keys are the rows' classes
    public static <O extends Op> OpEntry<O> of(O op) {
        OpEntry<?> entry = BY_CLASS.get(op.getClass());
        if (entry == null) {
            throw new IllegalStateException(op.type() + " has no row in the table of operators");
        }
        return (OpEntry<O>) entry;
    }
}
