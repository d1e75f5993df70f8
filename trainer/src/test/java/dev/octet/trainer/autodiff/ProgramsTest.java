package dev.octet.trainer.autodiff;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.trainer.precision.PrecisionPolicy;
import dev.octet.trainer.program.Program;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ProgramsTest {
    private static final List<Dim> DIMS = List.of(Dim.of("batch"), Dim.of("length"), Dim.of(3));

    private static Graph graph(List<Dim> dims) {
        return Graph.of(
                "g",
                List.of(Node.of("n", "Softmax", List.of("x"), List.of("y"))),
                List.of(),
                List.of(new ValueInfo("x", new TensorType(DType.F32, dims))),
                List.of(new ValueInfo("y", null)));
    }

    private static Programs programs() {
        return new Programs(
                sizes -> GraphModel.of(
                        graph(List.of(
                                Dim.of(sizes.getOrDefault("batch", 0L)),
                                Dim.of(sizes.getOrDefault("length", 0L)),
                                Dim.of(3))),
                        10,
                        21),
                ProgramOptions.forward(List.of("y"), Set.of(), PrecisionPolicy.FP32));
    }

    @Test
    void each_size_has_a_program_of_its_own_made_once() {
        Programs programs = programs();
        Program one = programs.at(Map.of("batch", 2L, "length", 5L));
        assertSame(one, programs.at(Map.of("length", 5L, "batch", 2L)));
        assertNotSame(one, programs.at(Map.of("batch", 5L, "length", 2L)));
        assertNotSame(one, programs.at(Map.of("batch", 2L, "length", 6L)));
        assertEquals(3, programs.count());
    }

    @Test
    void sizes_follow_from_shapes_of_inputs() {
        assertEquals(Map.of("batch", 2L, "length", 7L), Programs.sizes(graph(DIMS), Map.of("x", Shape.of(2, 7, 3))));
    }

    @Test
    void inputs_that_do_not_fit_are_refused() {
        assertThrows(InvalidDataException.class, () -> Programs.sizes(graph(DIMS), Map.of()));
        assertThrows(InvalidDataException.class, () -> Programs.sizes(graph(DIMS), Map.of("x", Shape.of(2, 7, 4))));
        assertThrows(InvalidDataException.class, () -> Programs.sizes(graph(DIMS), Map.of("x", Shape.of(2, 7))));
        assertThrows(
                InvalidDataException.class,
                () -> Programs.sizes(graph(List.of(Dim.of("n"), Dim.of("n"))), Map.of("x", Shape.of(2, 3))));
    }
}
