package dev.octet.converter.checkpoint;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.CheckpointConverter;
import dev.octet.formats.error.UnsupportedModelException;
import dev.octet.formats.graph.Attribute;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GraphWeightsTest {
    private static final String FILE = "model.safetensors";
    private static final String SQUARE = "model.layers.0.self_attn.q_proj.weight";
    private static final String OTHER_SQUARE = "model.layers.1.mlp.down_proj.weight";
    private static final String UP = "model.layers.0.mlp.up_proj.weight";
    private static final String DOWN = "model.layers.0.mlp.down_proj.weight";
    private static final Arena ARENA = Arena.ofAuto();

    @TempDir
    Path folder;

    /** A way to multiply with a constant. */
    enum Product {
        MAT_MUL(true),
        GEMM(true),
        GEMM_TRANSPOSED(false),
        TRANSPOSE_THEN_MAT_MUL(false);

        /** Whether the constant is [in, out]. */
        private final boolean inOut;

        Product(boolean inOut) {
            this.inOut = inOut;
        }

        List<Node> nodes(String weight) {
            String y = weight + ".y";
            List<String> operands = List.of("x", weight);
            return switch (this) {
                case MAT_MUL -> List.of(Node.of(y, "MatMul", operands, List.of(y)));
                case GEMM -> List.of(Node.of(y, "Gemm", operands, List.of(y)));
                case GEMM_TRANSPOSED -> List.of(Node.of(y, "Gemm", operands, List.of(y), Attribute.of("transB", 1)));
                case TRANSPOSE_THEN_MAT_MUL ->
                    List.of(
                            Node.of(y + "t", "Transpose", List.of(weight), List.of(y + "t")),
                            Node.of(y, "MatMul", List.of("x", y + "t"), List.of(y)));
            };
        }
    }

    private static Initializer zeros(String name, long... dims) {
        return Initializer.of(Tensor.ofFloats(
                ARENA, name, Shape.of(dims), new float[(int) Shape.of(dims).elementCount()]));
    }

    private static GraphModel graph(List<Node> nodes, Initializer... constants) {
        ValueType x = new ValueType.TensorType(DType.F32, List.of(Dim.of("rows"), Dim.of("in")));
        List<ValueInfo> outputs = nodes.stream()
                .filter(n -> !n.is("Transpose"))
                .map(n -> new ValueInfo(n.output(), x))
                .toList();
        return GraphModel.of(
                Graph.of("graph", nodes, List.of(constants), List.of(new ValueInfo("x", x)), outputs), 8, 17);
    }

    private static List<Node> nodes(Product product, String... weights) {
        List<Node> nodes = new ArrayList<>();
        for (String weight : weights) {
            nodes.addAll(product.nodes(weight));
        }
        return nodes;
    }

    private static Tensor matrix(String name, long... dims) {
        return MadeCheckpoint.noise(DType.F32, name, 1, dims);
    }

    private Path checkpoint(String modelType, Tensor... tensors) throws IOException {
        MadeCheckpoint made = MadeCheckpoint.in(folder);
        for (Tensor tensor : tensors) {
            made.with(FILE, tensor);
        }
        Path written = made.write();
        setType(written, modelType);
        return written;
    }

    private static void setType(Path checkpoint, String modelType) throws IOException {
        Path config = checkpoint.resolve("config.json");
        ObjectNode json = MadeCheckpoint.json(config);
        json.put("model_type", modelType);
        Files.writeString(config, json.toString());
    }

    private static float[] put(Path checkpoint, GraphModel graph, String name) throws IOException {
        try (CheckpointConverter converter = CheckpointConverter.open(checkpoint)) {
            Graph filled = converter.into(graph, ARENA).model().graph();
            return requireNonNull(filled.initializers().get(name))
                    .tensor()
                    .orElseThrow()
                    .toFloats();
        }
    }

    private static float[] expected(Tensor matrix, boolean turned) {
        float[] x = matrix.toFloats();
        int rows = (int) matrix.shape().dim(0);
        int cols = (int) matrix.shape().dim(1);
        float[] y = new float[x.length];
        for (int i = 0; i < x.length; i++) {
            y[turned ? i % cols * rows + i / cols : i] = x[i];
        }
        return y;
    }

    @ParameterizedTest
    @EnumSource
    void shapes_tell_how_matrices_lie_that_are_not_square(Product product) throws IOException {
        Tensor up = matrix(UP, 4, 3);
        GraphModel same = graph(nodes(product, UP), zeros(UP, 4, 3));
        assertArrayEquals(expected(up, false), put(checkpoint("", up), same, UP));
        GraphModel turned = graph(nodes(product, UP), zeros(UP, 3, 4));
        assertArrayEquals(expected(up, true), put(checkpoint("", up), turned, UP));
    }

    @ParameterizedTest
    @EnumSource
    void a_square_matrix_lies_as_others_do_that_are_not_square(Product product) throws IOException {
        Tensor square = matrix(SQUARE, 3, 3);
        Tensor up = matrix(UP, 4, 3);
        Path checkpoint = checkpoint("", square, up);
        GraphModel same = graph(nodes(product, SQUARE, UP), zeros(SQUARE, 3, 3), zeros(UP, 4, 3));
        assertArrayEquals(expected(square, false), put(checkpoint, same, SQUARE));
        GraphModel turned = graph(nodes(product, SQUARE, UP), zeros(SQUARE, 3, 3), zeros(UP, 3, 4));
        assertArrayEquals(expected(square, true), put(checkpoint, turned, SQUARE));
    }

    @Test
    void modules_of_the_same_name_say_more_than_others() throws IOException {
        Tensor square = matrix(OTHER_SQUARE, 3, 3);
        GraphModel graph = graph(
                nodes(Product.MAT_MUL, OTHER_SQUARE, UP, DOWN),
                zeros(OTHER_SQUARE, 3, 3),
                zeros(UP, 3, 4),
                zeros(DOWN, 4, 3));
        Path same = checkpoint("", square, matrix(UP, 4, 3), matrix(DOWN, 4, 3));
        assertArrayEquals(expected(square, false), put(same, graph, OTHER_SQUARE));
        Path turned = checkpoint("", square, matrix(UP, 3, 4), matrix(DOWN, 3, 4));
        assertArrayEquals(expected(square, true), put(turned, graph, OTHER_SQUARE));
    }

    @ParameterizedTest
    @EnumSource
    void the_architecture_tells_where_every_matrix_is_square(Product product) throws IOException {
        Tensor square = matrix("h.0.attn.c_proj.weight", 3, 3);
        GraphModel graph = graph(nodes(product, square.name()), zeros(square.name(), 3, 3));
        assertArrayEquals(expected(square, product.inOut), put(checkpoint("llama", square), graph, square.name()));
        assertArrayEquals(expected(square, !product.inOut), put(checkpoint("gpt2", square), graph, square.name()));
    }

    @ParameterizedTest
    @EnumSource
    void quantised_weights_are_out_by_in(Product product) throws IOException {
        Path source = MadeCheckpoint.in(folder.resolve("source"))
                .noise(FILE, SQUARE, 0.02, 128, 128)
                .write();
        Path quantised = folder.resolve("quantised");
        MadeCheckpoint.run(source, MadeCheckpoint.goal(Recipes.FP8_DYNAMIC, "compressed-tensors"), quantised);
        setType(quantised, "");
        float[] values;
        try (CheckpointConverter converter = CheckpointConverter.open(quantised)) {
            values = MadeCheckpoint.values(converter, SQUARE);
        }
        GraphModel graph = graph(nodes(product, SQUARE), zeros(SQUARE, 128, 128));
        Tensor decoded = Tensor.ofFloats(ARENA, SQUARE, Shape.of(128, 128), values);
        assertArrayEquals(expected(decoded, product.inOut), put(quantised, graph, SQUARE));
    }

    @Test
    void a_square_table_stays_as_it_is() throws IOException {
        String name = "model.embed_tokens.weight";
        Tensor table = matrix(name, 3, 3);
        Node gather = Node.of("gather", "Gather", List.of(name, "x"), List.of("rows"));
        assertArrayEquals(
                expected(table, false), put(checkpoint("", table), graph(List.of(gather), zeros(name, 3, 3)), name));
    }

    @Test
    void a_square_matrix_of_which_nothing_is_known_is_refused() throws IOException {
        Path checkpoint = checkpoint("", matrix(SQUARE, 3, 3), matrix(UP, 4, 3), matrix(DOWN, 4, 3));
        GraphModel alone = graph(nodes(Product.MAT_MUL, SQUARE), zeros(SQUARE, 3, 3));
        UnsupportedModelException e =
                assertThrows(UnsupportedModelException.class, () -> put(checkpoint, alone, SQUARE));
        assertEquals("weight '" + SQUARE + "' [3, 3]", e.where());
        GraphModel contradictory = graph(
                nodes(Product.MAT_MUL, SQUARE, UP, DOWN), zeros(SQUARE, 3, 3), zeros(UP, 3, 4), zeros(DOWN, 4, 3));
        assertThrows(UnsupportedModelException.class, () -> put(checkpoint, contradictory, SQUARE));
    }
}
