package dev.octet.trainer.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.trainer.autodiff.Autodiff;
import dev.octet.trainer.autodiff.ProgramOptions;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.MemoryPlan;
import dev.octet.trainer.program.Program;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Which queries, keys and values stay in the tensor that a Linear makes of all three; {@code FusionsTest} compares the bits. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class PlacedPartsTest {
    private static final Attribute HEADS = Attribute.of("q_num_heads", 2L);
    private static final Attribute KEY_HEADS = Attribute.of("kv_num_heads", 2L);

    /** A graph as it is written, from the input x of two samples of six positions. */
    private static final class Writing {
        private final List<Node> nodes = new ArrayList<>();
        private final long width;

        /** @param width columns of q, of k and of v */
        Writing(long width) {
            this.width = width;
            node("Linear", "x w", "f")
                    .node("Split", "f", "q k v", Attribute.of("axis", 2L), Attribute.of("num_outputs", 3L));
        }

        Writing node(String type, String inputs, String outputs, Attribute... attributes) {
            nodes.add(Node.of(
                    outputs.split(" ", -1)[0],
                    type,
                    type.equals("Linear") ? Node.OCTET_DOMAIN : "",
                    List.of(inputs.split(" ", -1)),
                    List.of(outputs.split(" ", -1)),
                    attributes));
            return this;
        }

        Writing attention(String inputs, String output) {
            return node("Attention", inputs, output, HEADS, KEY_HEADS);
        }

        /** The program that trains w by the mean of a value. */
        Program program(String last, UnaryOperator<ProgramOptions> changes) {
            node("ReduceMean", last, "loss", Attribute.of("keepdims", 0L));
            Shape shape = Shape.of(8, 3 * width);
            Tensor w = Tensor.ofFloats(Arena.ofAuto(), "w", shape, new float[(int) shape.elementCount()]);
            Graph graph = Graph.of(
                    "g",
                    nodes,
                    List.of(Initializer.of(w)),
                    List.of(input("x", 2, 6, 8)),
                    List.of(new ValueInfo("loss", new TensorType(DType.F32, List.of()))));
            Set<String> weights = new TreeSet<>(Set.of("w"));
            return Autodiff.program(
                    GraphModel.of(graph, 10, 23),
                    changes.apply(ProgramOptions.training("loss", weights, weights, PrecisionPolicy.FP32)));
        }

        private static ValueInfo input(String name, long... dims) {
            return new ValueInfo(
                    name,
                    new TensorType(
                            DType.F32, Arrays.stream(dims).mapToObj(Dim::of).toList()));
        }

        int placed(String last) {
            return PlacedParts.of(program(last, UnaryOperator.identity()))
                    .wholes()
                    .size();
        }
    }

    @Test
    void queries_keys_values_and_their_gradients_stay_in_place() {
        assertEquals(6, new Writing(8).attention("q k v", "y").placed("y"));
    }

    @Test
    void what_stays_in_place_takes_no_memory_of_its_own() {
        Program program = new Writing(8).attention("q k v", "y").program("y", UnaryOperator.identity());
        PlacedParts parts = PlacedParts.of(program);
        MemoryPlan plan = MemoryPlan.of(program, MemoryPlan.Layout.parts(parts.wholes()));
        parts.wholes().forEach((part, whole) -> assertEquals(plan.offset(whole), plan.offset(part), part.name()));
    }

    @Test
    void a_part_that_something_else_reads_is_copied() {
        assertEquals(
                0,
                new Writing(8).node("Mul", "q q", "p").attention("p k v", "y").placed("y"));
    }

    /** Its gradient is a sum of two, which attention does not write by itself. */
    @Test
    void keys_that_two_attentions_read_are_copied() {
        Writing writing = new Writing(8).attention("q k v", "a").attention("a k v", "b");
        assertEquals(0, writing.placed("b"));
    }

    @Test
    void parts_whose_rows_are_no_multiples_of_16_bytes_are_copied() {
        assertEquals(0, new Writing(6).attention("q k v", "y").placed("y"));
    }

    @Test
    void a_part_that_is_read_from_outside_is_copied() {
        Program program =
                new Writing(8).attention("q k v", "y").program("y", options -> options.withOutputs(List.of("k")));
        assertEquals(0, PlacedParts.of(program).wholes().size());
    }
}
