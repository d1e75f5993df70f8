package dev.octet.trainer.autodiff;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.CodedTensor;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.quant.layout.CodedWeight;
import dev.octet.quant.layout.WeightForm;
import dev.octet.quant.merge.LowRank;
import dev.octet.quant.merge.WeightGrid;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.stored.StoredLinear;
import dev.octet.trainer.op.stored.StoredMatrix;
import dev.octet.trainer.op.stored.StoredRows;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.precision.PrecisionPolicy.Rule;
import dev.octet.trainer.program.Phase;
import dev.octet.trainer.program.ProgramBuilder;
import dev.octet.trainer.program.Value;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * Emits the forward steps of nodes that read a weight as it is stored.
 *
 * @param values the value of a name
 * @param casts a value in another type
 */
record StoredSteps(
        NeededGraph graph,
        PrecisionPolicy policy,
        ProgramBuilder builder,
        Function<String, Value> values,
        BiFunction<Value, DType, Value> casts) {
    /** The result of a node; null when the node reads no stored weight. */
    @Nullable
    Value emit(Node node) {
        Initializer weight = graph.stored(node, 1);
        if (weight != null) {
            return linear(node, weight);
        }
        Initializer table = graph.stored(node, 0);
        return table == null ? null : rows(node, table);
    }

    private record Operands(StoredMatrix matrix, List<Value> values) {}

    private Value linear(Node node, Initializer weight) {
        Value x = values.apply(node.input(0));
        Value bias = node.hasInput(2) ? values.apply(node.input(2)) : null;
        MergedNodes merged = MergedNodes.of(node);
        Operands w = merged == null ? operands(weight) : merged(node, merged);
        if (w.matrix() instanceof StoredMatrix.Floats) {
            // a recipe quantises floats, frozen or not
            Value fp8 = policy.linear(node, x, w.values().getFirst(), bias, builder);
            if (fp8 != null) {
                return fp8;
            }
        }
        boolean transB = node.intAttribute("transB", 0) != 0;
        DType type = policy.rule(node) == Rule.LOW ? policy.low() : DType.F32;
        Value read = casts.apply(x, type);
        Value narrow = bias == null ? null : casts.apply(bias, type);
        int in = transB ? w.matrix().cols() : w.matrix().rows();
        int out = transB ? w.matrix().rows() : w.matrix().cols();
        if (read.type().shape().rank() < 1 || read.type().shape().dim(-1) != in) {
            throw new UnsupportedModelException(
                    "x is " + x.type() + ", w is " + w.matrix().shape() + (transB ? ", transposed" : ""),
                    "node '" + node.id() + "'",
                    "convert the model again");
        }
        read = policy.storedInput(node, read, in, out, builder);
        StoredLinear op = StoredLinear.of(read.type(), w.matrix(), bias != null, transB);
        List<@Nullable Value> inputs = new ArrayList<>();
        inputs.add(read);
        inputs.add(narrow);
        inputs.addAll(w.values());
        Value y = builder.temporary(node.output(), op.y());
        builder.step(Phase.FORWARD, node.id(), op, inputs, List.of(y));
        return policy.storedResult(node, y, in, out, builder);
    }

    /** The weight as it will lie in the merged file. */
    private Operands merged(Node node, MergedNodes merged) {
        List<StoredMatrix.Member> members = new ArrayList<>();
        List<Value> all = new ArrayList<>();
        WeightGrid grid = null;
        for (int m = 0; m < merged.members().size(); m++) {
            int w = m == 0 ? 1 : MergedNodes.SIBLINGS + 3 * (m - 1);
            int a = m == 0 ? MergedNodes.A : w + 1;
            Operands base = operands(Objects.requireNonNull(graph.stored(node, w), node.input(w)));
            Value factorA = values.apply(node.input(a));
            MergedNodes.Product product = merged.members().get(m);
            members.add(new StoredMatrix.Member(
                    base.matrix(),
                    Math.toIntExact(factorA.type().shape().dim(0)),
                    product.factor(),
                    product.transposed() ? LowRank.Orientation.IN_OUT : LowRank.Orientation.OUT_IN));
            all.addAll(base.values());
            all.add(factorA);
            all.add(values.apply(node.input(a + 1)));
            if (m == 0 && base.matrix() instanceof StoredMatrix.Codes(WeightForm form)) {
                grid = merged.grids().grid(form).orElse(null);
            }
        }
        if (grid == null) {
            throw new UnsupportedModelException(
                    "Octet reads the form of this weight but does not write it",
                    "weight '" + node.input(1) + "'",
                    "train without merge_aware, or over a base in FP8, MXFP8, NVFP4 or INT8");
        }
        return new Operands(
                new StoredMatrix.Merged(
                        members.getFirst(), members.subList(1, members.size()), grid, merged.baseScale()),
                all);
    }

    private Value rows(Node node, Initializer table) {
        Value indices = values.apply(node.input(1));
        Operands w = operands(table);
        StoredRows op = new StoredRows(node.id(), w.matrix(), indices.type());
        List<@Nullable Value> inputs = new ArrayList<>();
        inputs.add(indices);
        inputs.addAll(w.values());
        Value y = builder.temporary(node.output(), op.outputs().getFirst());
        builder.step(Phase.FORWARD, node.id(), op, inputs, List.of(y));
        return y;
    }

    private Operands operands(Initializer constant) {
        String name = constant.name();
        return switch (constant.data()) {
            case Initializer.Coded(CodedTensor tensor)
            when tensor instanceof CodedWeight coded -> {
                List<Value> all = new ArrayList<>();
                all.add(bytes(name + ":codes", coded.codes()));
                all.add(bytes(name + ":scales", coded.scales()));
                MemorySegment zeroPoints = coded.zeroPoints();
                if (zeroPoints != null) {
                    all.add(bytes(name + ":zero_points", zeroPoints));
                }
                yield new Operands(new StoredMatrix.Codes(coded.form()), all);
            }
            case Initializer.Coded(CodedTensor tensor) -> floats(name, Parameters.decoded(tensor));
            case Initializer.Dense(Tensor tensor) -> floats(name, tensor);
            case Initializer.Strings _, Initializer.Sparse _, Initializer.Opaque _ ->
                throw new IllegalStateException("'" + name + "' is not a matrix");
        };
    }

    private Operands floats(String name, Tensor tensor) {
        OperandType type = new OperandType(tensor.dtype(), tensor.shape());
        return new Operands(new StoredMatrix.Floats(type), List.of(builder.stored(name, tensor)));
    }

    private Value bytes(String name, MemorySegment segment) {
        return builder.stored(name, new Tensor(new TensorSpec(name, DType.U8, Shape.of(segment.byteSize())), segment));
    }
}
