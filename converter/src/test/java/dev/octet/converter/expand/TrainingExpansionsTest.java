package dev.octet.converter.expand;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.tensor.DType;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What becomes of forms and names; that values and gradients stay is what the trainer's op-grad cases say. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TrainingExpansionsTest {
    private static ValueInfo floats(String name, long... dims) {
        return new ValueInfo(
                name,
                new TensorType(DType.F32, Arrays.stream(dims).mapToObj(Dim::of).toList()));
    }

    private static GraphModel model(Node node, ValueInfo... inputs) {
        Graph graph = Graph.of("g", List.of(node), List.of(), List.of(inputs), List.of(floats("y")));
        return GraphModel.of(graph, 10, 21);
    }

    private static GraphModel einsum(String equation, ValueInfo... inputs) {
        List<String> names = Arrays.stream(inputs).map(ValueInfo::name).toList();
        return model(Node.of("n", "Einsum", names, List.of("y"), Attribute.of("equation", equation)), inputs);
    }

    @ParameterizedTest
    @ValueSource(strings = {"ii->i", "i...->i", "ij->ijk", "i,j->", "("})
    void an_equation_that_cannot_be_written_with_products_stays(String equation) {
        GraphModel model = einsum(equation, floats("x", 3, 3));
        assertSame(model, TrainingExpansions.apply(model));
    }

    @Test
    void sizes_that_contradict_each_other_stay() {
        GraphModel model = einsum("ij,jk->ik", floats("a", 2, 3), floats("b", 1, 4));
        assertSame(model, TrainingExpansions.apply(model));
    }

    @Test
    void interpolation_between_elements_stays() {
        Node resize = Node.of("n", "Resize", List.of("x", "", "scales"), List.of("y"), Attribute.of("mode", "linear"));
        GraphModel model = model(resize, floats("x", 1, 1, 2, 2), floats("scales", 4));
        assertSame(model, TrainingExpansions.apply(model));
    }

    @Test
    void groups_that_do_not_divide_the_channels_stay() {
        Node norm = Node.of(
                "n", "GroupNormalization", List.of("x", "s", "b"), List.of("y"), Attribute.of("num_groups", 4L));
        GraphModel model = model(norm, floats("x", 1, 6, 2), floats("s", 6), floats("b", 6));
        assertSame(model, TrainingExpansions.apply(model));
    }

    @Test
    void a_sum_of_two_stays() {
        GraphModel model = model(Node.of("n", "Sum", List.of("a", "b"), List.of("y")), floats("a", 2), floats("b", 2));
        assertSame(model, TrainingExpansions.apply(model));
    }

    @Test
    void the_last_node_has_the_old_output_and_all_carry_the_old_name() {
        GraphModel model = model(Node.of("act", "Mish", List.of("x"), List.of("y")), floats("x", 2));
        GraphModel written = TrainingExpansions.apply(model);
        assertNotSame(model, written);
        assertEquals("y", written.graph().nodes().getLast().output());
        assertEquals(
                List.of("act/Softplus", "act/Tanh", "act/Mul"),
                written.graph().nodes().stream().map(Node::id).collect(Collectors.toList()));
    }

    @Test
    void names_are_in_order_and_without_repetition() {
        List<String> names = TrainingExpansions.names();
        assertEquals(names.stream().sorted().distinct().toList(), names);
        assertTrue(names.containsAll(List.of("ConvTranspose", "Einsum", "GroupNormalization", "Mish", "OneHot")));
    }
}
