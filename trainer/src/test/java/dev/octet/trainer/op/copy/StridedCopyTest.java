package dev.octet.trainer.op.copy;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import dev.octet.trainer.kernel.OpSource;
import dev.octet.trainer.kernel.OperandType;
import dev.octet.trainer.op.TwinTest;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class StridedCopyTest extends TwinTest {
    @Override
    protected boolean isExactEverywhere(Case c) {
        return true;
    }

    @Override
    protected List<Case> cases() {
        return List.of(
                Case.normal(
                        "concat",
                        new Concat(List.of(f32(2, 3), f32(2, 1), f32(2, 4)), 1),
                        f32(2, 3),
                        f32(2, 1),
                        f32(2, 4)),
                Case.normal("concat of one", new Concat(List.of(f32(3)), 0), f32(3)),
                Case.normal("concat with nothing", new Concat(List.of(f32(0, 3), f32(2, 3)), 0), f32(0, 3), f32(2, 3)),
                Case.normal(
                        "concat of long rows",
                        new Concat(List.of(f32(41, 1000), f32(41, 513)), 1),
                        f32(41, 1000),
                        f32(41, 513)),
                Case.normal("split", new Split(f32(2, 6, 3), 1, List.of(1L, 3L, 2L)), f32(2, 6, 3)),
                Case.normal("split into one and nothing", new Split(f32(4), 0, List.of(4L, 0L)), f32(4)),
                Case.normal(
                        "split BF16",
                        new Split(f32(70, 96).as(DType.BF16), 1, List.of(32L, 64L)),
                        f32(70, 96).as(DType.BF16)),
                Case.normal(
                        "slice", slice(f32(4, 9), new long[] {1, 2}, new long[] {3, 8}, new long[] {1, 3}), f32(4, 9)),
                Case.normal(
                        "slice backwards",
                        slice(f32(4, 9), new long[] {3, -1}, new long[] {-100, 0}, new long[] {-1, -2}),
                        f32(4, 9)),
                Case.normal(
                        "slice of a scalar row", slice(f32(1), new long[] {0}, new long[] {1}, new long[] {1}), f32(1)),
                Case.normal(
                        "large slice",
                        slice(f32(90, 300), new long[] {7, 5}, new long[] {90, 299}, new long[] {2, 1}),
                        f32(90, 300)),
                Case.normal("pad", new Pad(f32(2, 3), List.of(1L, 2L), Shape.of(4, 6), -1.5), f32(2, 3)),
                Case.normal("pad that cuts", new Pad(f32(4, 5), List.of(-1L, 2L), Shape.of(2, 5), 3), f32(4, 5)),
                Case.normal("large pad", new Pad(f32(90, 300), List.of(1L, 0L), Shape.of(92, 301), 0), f32(90, 300)));
    }

    /** Reads a node of the given inputs after the first, all constant I64. */
    private static OpSource source(String type, OperandType x, Attribute attribute, long[] @Nullable ... constants) {
        List<@Nullable OperandType> types = new ArrayList<>(List.of(x));
        List<@Nullable Tensor> tensors = new ArrayList<>();
        tensors.add(null);
        List<String> names = new ArrayList<>(List.of("x"));
        for (long @Nullable [] c : constants) {
            Tensor t = c == null ? null : tensor(c);
            tensors.add(t);
            types.add(t == null ? null : new OperandType(t.dtype(), t.shape()));
            names.add(t == null ? "" : "c" + names.size());
        }
        return new OpSource(Node.of("n", type, names, List.of("y"), attribute), types, tensors, 21);
    }

    private static Tensor tensor(long... values) {
        MemorySegment bytes =
                Arena.ofAuto().allocate(Math.max(8, values.length * 8L)).asSlice(0, values.length * 8L);
        MemorySegment.copy(values, 0, bytes, ValueLayout.JAVA_LONG, 0, values.length);
        return new Tensor(new TensorSpec("c", DType.I64, Shape.of(values.length)), bytes);
    }

    private static Slice slice(OperandType x, long[] starts, long[] ends, long[] steps) {
        long[] axes = new long[starts.length];
        Arrays.setAll(axes, i -> i);
        return Slice.read(source("Slice", x, Attribute.of("unused", 0L), starts, ends, axes, steps));
    }

    @Test
    void every_slice_of_a_short_axis_is_that_of_plain_counting() {
        long[] positions = {Long.MIN_VALUE, -9, -4, -3, -1, 0, 1, 2, 3, 4, 9, Long.MAX_VALUE};
        for (long start : positions) {
            for (long end : positions) {
                for (long step : new long[] {1, 2, 3, 5, -1, -2, -5}) {
                    Slice s = slice(f32(4), new long[] {start}, new long[] {end}, new long[] {step});
                    List<Long> expected = counted(4, start, end, step);
                    assertEquals(expected.size(), s.shape().dim(0), () -> start + ":" + end + ":" + step);
                    List<Long> got = new ArrayList<>();
                    for (int i = 0; i < expected.size(); i++) {
                        got.add(s.boxes().getFirst().inputAt(i, 1));
                    }
                    assertEquals(expected, got, () -> start + ":" + end + ":" + step);
                }
            }
        }
    }

    /** The positions a slice has: those of Python, but that ONNX never starts before the first element. */
    private static List<Long> counted(long dim, long start, long end, long step) {
        long low = step > 0 ? 0 : -1;
        long high = step > 0 ? dim : dim - 1;
        long from = Math.max(0, Math.min(high, start < 0 ? start + dim : start));
        long to = Math.max(low, Math.min(high, end < 0 ? end + dim : end));
        List<Long> all = new ArrayList<>();
        for (long at = from; step > 0 ? at < to : at > to; at += step) {
            all.add(at);
        }
        return all;
    }

    @Test
    void an_output_of_split_that_nobody_uses_has_a_zero_gradient() {
        Split op = new Split(f32(4), 0, List.of(1L, 3L));
        assertArrayEquals(
                new double[] {5, 0, 0, 0},
                gradients(op, List.of(f32(4)), List.of(new double[4]), new double[] {5})
                        .getFirst());
    }

    @Test
    void a_reflected_pad_is_refused_by_its_mode() {
        OpSource source = source("Pad", f32(3), Attribute.of("mode", "reflect"), new long[] {1, 1});
        assertThrows(UnsupportedModelException.class, () -> Pad.read(source));
    }

    @Test
    void an_uneven_split_without_sizes_has_a_smaller_last_part() {
        Node node = Node.of("n", "Split", List.of("x"), List.of("a", "b", "c"), Attribute.of("num_outputs", 3L));
        Split s = Split.read(new OpSource(node, List.of(f32(7)), new ArrayList<>(), 21));
        assertEquals(List.of(3L, 3L, 1L), s.sizes());
    }
}
