package dev.octet.trainer.op.conv;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.device.cuda.CudaOperands;
import dev.octet.trainer.device.cuda.TestGpus;
import dev.octet.trainer.kernel.CudaTensor;
import dev.octet.trainer.kernel.Frame;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.GivenFrame;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** What {@link ConvTest} does not see of the CUDA twin: batches whose taps are too many to be laid out at once. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("kernels")
class ConvCudaTest {
    private static final OperandType X = new OperandType(DType.F32, Shape.of(5, 3, 7, 6));
    private static final OperandType W = new OperandType(DType.F32, Shape.of(4, 3, 3, 2));

    @Test
    void a_batch_in_chunks_is_convolved_as_it_is_at_once() {
        for (List<Long> strides : List.of(List.of(1L, 1L), List.of(2L, 3L))) {
            Node node = Node.of(
                    "",
                    "Conv",
                    List.of("x", "w", "b"),
                    List.of("y"),
                    Attribute.of("strides", strides),
                    Attribute.of("pads", List.of(1L, 0L, 2L, 1L)));
            OperandType bias = new OperandType(DType.F32, Shape.of(4));
            Conv op = Conv.read(new OpSource(node, List.of(X, W, bias), Arrays.asList(null, null, null), 11));
            List<double[]> atOnce = run(op, bias, new ConvCuda());
            long twoSamples = 2L * op.taps() * op.outPlane() * Float.BYTES;
            for (long bytes : new long[] {1, twoSamples, 3 * twoSamples}) {
                List<double[]> chunked = run(op, bias, new ConvCuda(bytes));
                // a GPU's library may sum products of other lengths in another order
                double otherwise = TestGpus.inEmulation() ? 0.0 : 1e-6;
                for (int i = 0; i < atOnce.size(); i++) {
                    // the gradient of w is summed in another order
                    assertArrayEquals(atOnce.get(i), chunked.get(i), i == 2 ? 1e-4 : otherwise, "tensor " + i);
                }
            }
        }
    }

    /** y and the gradients of x, w and the bias. */
    private static List<double[]> run(Conv op, OperandType bias, ConvCuda twin) {
        try (CudaOperands operands = new CudaOperands(TestGpus.host())) {
            List<OperandType> types = List.of(X, W, bias);
            List<CudaTensor> inputs = new ArrayList<>();
            List<CudaTensor> gradients = new ArrayList<>();
            for (OperandType t : types) {
                inputs.add(operands.tensor(t, numbers(t, inputs.size())));
                gradients.add(operands.empty(t));
            }
            CudaTensor y = operands.empty(op.y());
            CudaTensor dy = operands.tensor(op.y(), numbers(op.y(), 9));
            Frame<CudaTensor> frame = new GivenFrame<>(inputs, List.of(y), dy, gradients, false);
            operands.run(cuda -> twin.forward(op, frame, cuda));
            operands.run(cuda -> twin.backward(op, frame, cuda));
            List<double[]> all = new ArrayList<>(List.of(operands.numbers(y)));
            gradients.forEach(g -> all.add(operands.numbers(g)));
            return all;
        }
    }

    private static double[] numbers(OperandType type, int seed) {
        SplittableRandom random = new SplittableRandom(seed);
        return random.doubles(type.count(), -1, 1).map(d -> (float) d).toArray();
    }
}
