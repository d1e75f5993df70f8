package dev.octet.trainer.op;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.kernel.CudaKernel;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.Op;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.gather.Gather;
import dev.octet.trainer.op.loss.ClassLabels;
import dev.octet.trainer.op.loss.NegativeLogLikelihoodLoss;
import dev.octet.trainer.op.loss.Reduction;
import dev.octet.trainer.op.loss.SoftmaxCrossEntropyLoss;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Kernels meet data that their operator does not know, which a GPU cannot refuse: results are NaN where they hang on it, the rest is as it
 * would be, and no memory of others is touched (the processor's GPU checks that).
 */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("kernels")
class CudaBadDataTest {
    private static final double NAN = Double.NaN;

    /** Output 0, and the gradient of input 0 for an upstream gradient of ones. */
    private static List<double[]> run(Op op, List<OperandType> types, List<double[]> values) {
        CudaKernel<Op> twin = Ops.of(op).cuda();
        try (CudaOperands memory = new CudaOperands(TestGpus.host())) {
            List<CudaTensor> inputs = new ArrayList<>();
            for (int i = 0; i < types.size(); i++) {
                inputs.add(memory.tensor(types.get(i), values.get(i)));
            }
            List<CudaTensor> outputs = Stream.concat(op.outputs().stream(), op.saved().stream())
                    .map(memory::empty)
                    .toList();
            double[] ones = new double[(int) op.outputs().getFirst().count()];
            Arrays.fill(ones, 1);
            CudaTensor dx = memory.empty(types.getFirst());
            Frame<CudaTensor> all =
                    new GivenFrame<>(inputs, outputs, memory.tensor(op.outputs().getFirst(), ones), List.of(dx), false);
            memory.run(cuda -> twin.forward(op, all, cuda));
            memory.run(cuda -> twin.backward(op, all, cuda));
            return List.of(memory.numbers(outputs.getFirst()), memory.numbers(dx));
        }
    }

    private static OperandType f32(long... dims) {
        return new OperandType(DType.F32, Shape.of(dims));
    }

    private static OperandType i64(long... dims) {
        return new OperandType(DType.I64, Shape.of(dims));
    }

    @Test
    void an_index_outside_of_the_axis_looks_up_NaN_and_gets_no_gradient() {
        Gather op = new Gather("emb", f32(3, 1), i64(5), 0);
        List<double[]> got = run(
                op, List.of(f32(3, 1), i64(5)), List.of(new double[] {1, 2, 3}, new double[] {3, -3, -4, 2, 1L << 40}));
        assertArrayEquals(new double[] {NAN, 1, NAN, 3, NAN}, got.get(0));
        assertArrayEquals(new double[] {1, 0, 1}, got.get(1));
    }

    @Test
    void an_index_outside_of_the_axis_picks_NaN_and_spoils_the_first_row_of_what_is_scattered() {
        List<OperandType> types = List.of(f32(3, 1), i64(4, 1));
        Op pick = read(source("GatherElements", types, Attribute.of("axis", 0)));
        List<double[]> picked = run(pick, types, List.of(new double[] {1, 2, 3}, new double[] {2, 3, -4, 0}));
        assertArrayEquals(new double[] {3, NAN, NAN, 1}, picked.get(0));
        assertArrayEquals(new double[] {1, 0, 1}, picked.get(1));
        List<OperandType> three = List.of(f32(3, 1), i64(2, 1), f32(2, 1));
        List<double[]> values = List.of(new double[] {1, 2, 3}, new double[] {1, 3}, new double[] {7, 8});
        Op put = read(source("ScatterElements", three, Attribute.of("axis", 0)));
        List<double[]> replaced = run(put, three, values);
        assertArrayEquals(new double[] {NAN, 7, 3}, replaced.get(0));
        assertArrayEquals(new double[] {1, 0, 1}, replaced.get(1));
        Op add = read(source("ScatterElements", three, Attribute.of("reduction", "add")));
        List<double[]> added = run(add, three, values);
        assertArrayEquals(new double[] {NAN, 9, 3}, added.get(0));
        assertArrayEquals(new double[] {1, 1, 1}, added.get(1));
    }

    private static Op read(OpSource source) {
        return Ops.reader(source.node()).orElseThrow().read(source);
    }

    private static OpSource source(String type, List<OperandType> inputs, Attribute attribute) {
        List<String> names = inputs.stream().map(OperandType::toString).toList();
        Node node = Node.of("", type, names, List.of("y"), attribute);
        return new OpSource(node, inputs, Collections.nCopies(inputs.size(), null), 18);
    }

    @Test
    void a_label_that_is_no_class_makes_the_loss_NaN() {
        OperandType x = f32(3, 2);
        ClassLabels labels = ClassLabels.of(x, 1, -100L, Reduction.NONE);
        List<OperandType> types = List.of(x, i64(3));
        List<double[]> values = List.of(new double[] {0, 0, -1, -2, 5, 5}, new double[] {0, 2, -1});
        List<double[]> entropy = run(new SoftmaxCrossEntropyLoss(labels, false), types, values);
        assertEquals((float) Math.log(2), entropy.get(0)[0], 1e-6);
        assertTrue(Double.isNaN(entropy.get(0)[1]) && Double.isNaN(entropy.get(0)[2]));
        assertArrayEquals(new double[] {-0.5, 0.5, NAN, NAN, NAN, NAN}, entropy.get(1), 1e-6);
        List<double[]> likelihood = run(new NegativeLogLikelihoodLoss(labels), types, values);
        assertArrayEquals(new double[] {0, NAN, NAN}, likelihood.get(0), 1e-6);
        assertArrayEquals(new double[] {-1, 0, NAN, NAN, NAN, NAN}, likelihood.get(1), 1e-6);
    }

    @Test
    void a_position_outside_of_the_tables_turns_to_NaN() {
        OperandType x = f32(1, 1, 2, 2);
        Node node = Node.of(
                "", "RotaryEmbedding", List.of("x", "cos", "sin", "ids"), List.of("y"), Attribute.of("num_heads", 1));
        OpSource source = new OpSource(
                node, List.of(x, f32(4, 1), f32(4, 1), i64(1, 2)), Arrays.asList(null, null, null, null), 23);
        List<double[]> got = run(
                read(source),
                List.of(x, f32(4, 1), f32(4, 1), i64(1, 2)),
                List.of(new double[] {1, 2, 3, 4}, new double[] {1, 1, 1, 1}, new double[4], new double[] {4, 3}));
        assertArrayEquals(new double[] {NAN, NAN, 3, 4}, got.get(0));
        assertArrayEquals(new double[] {NAN, NAN, 1, 1}, got.get(1));
    }
}
