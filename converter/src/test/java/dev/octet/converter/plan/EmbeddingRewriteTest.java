package dev.octet.converter.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.data.Batch;
import dev.octet.converter.lower.Lowering;
import dev.octet.converter.lower.OnnxTarget;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.runtime.OnnxRuntime;
import dev.octet.converter.runtime.OnnxRuntimeSession;
import dev.octet.converter.runtime.SessionSettings;
import dev.octet.formats.graph.Dim;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.graph.ValueType.TensorType;
import dev.octet.formats.onnx.OnnxWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.Quantizer;
import dev.octet.quant.number.QuantType;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SplittableRandom;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class EmbeddingRewriteTest {
    private static final int ROWS = 37;
    private static final int COLUMNS = 13;
    private static final List<Pattern> NONE = List.of();

    private final Arena arena = Arena.ofShared();

    @TempDir
    Path folder;

    @AfterEach
    void close() {
        arena.close();
    }

    /** Rows of very different size, the fourth of zeros. */
    private static float[] table() {
        SplittableRandom random = new SplittableRandom(5);
        float[] values = new float[ROWS * COLUMNS];
        for (int i = 0; i < values.length; i++) {
            int row = i / COLUMNS;
            values[i] = row == 3 ? 0 : (float) (random.nextGaussian() * Math.scalb(1.0, row % 9 - 6));
        }
        return values;
    }

    private GraphModel model(Node... more) {
        List<Node> nodes =
                new ArrayList<>(List.of(Node.of("embed", "Gather", List.of("wte.weight", "ids"), List.of("y"))));
        nodes.addAll(List.of(more));
        TensorType ids = new TensorType(DType.I64, List.of(Dim.of("batch"), Dim.of("tokens")));
        TensorType out = new TensorType(DType.F32, List.of(Dim.of("batch"), Dim.of("tokens"), Dim.of(COLUMNS)));
        Graph graph = Graph.of(
                "embedding",
                nodes,
                List.of(Initializer.of(Tensor.ofFloats(arena, "wte.weight", Shape.of(ROWS, COLUMNS), table()))),
                List.of(new ValueInfo("ids", ids)),
                List.of(new ValueInfo("y", out)));
        return GraphModel.of(graph, 10, 21);
    }

    private static Plan plan(GraphModel model, List<Pattern> keep) {
        return Planner.plan(model.graph(), Recipes.FP8_WEIGHT_ONLY, keep, Map.of(LayerKind.EMBEDDING, QuantType.INT8));
    }

    private GraphModel rewritten(GraphModel model) {
        PlanRewrite.Result result = PlanRewrite.apply(
                model, plan(model, NONE), Map.of(), new RoundToNearest(Quantizer.sequential(), arena), arena);
        assertTrue(
                result.layers().getFirst().weightSqnrDb() > 38, result.layers().toString());
        return Lowering.lower(result.model(), OnnxTarget.ONNXRUNTIME, arena, new PassLog());
    }

    private float[] run(GraphModel model, long... ids) throws IOException {
        Path file = folder.resolve("model.onnx");
        OnnxWriter.write(model, file);
        Tensor in = Tensor.ofLongs(arena, "ids", Shape.of(1, ids.length), ids);
        try (OnnxRuntimeSession session = OnnxRuntime.open(file, SessionSettings.defaults());
                OnnxRuntimeSession.Outputs out = session.run(new Batch(0, 1, Map.of("ids", in)))) {
            return out.read("y").toFloats();
        }
    }

    @Test
    void onnx_runtime_gathers_the_nearest_multiples_of_a_127th_of_each_rows_largest_number() throws Exception {
        long[] ids = {0, 3, 36, 5, 5, -1};
        float[] y = run(rewritten(model()), ids);
        float[] table = table();
        for (int t = 0; t < ids.length; t++) {
            int row = Math.floorMod((int) ids[t], ROWS);
            float amax = 0;
            for (int c = 0; c < COLUMNS; c++) {
                amax = Math.max(amax, Math.abs(table[row * COLUMNS + c]));
            }
            float scale = amax == 0 ? 1 : amax / 127;
            for (int c = 0; c < COLUMNS; c++) {
                float expected = (float) Math.rint(table[row * COLUMNS + c] / scale) * scale;
                assertEquals(expected + 0f, y[t * COLUMNS + c] + 0f, row + " " + c); // zeros without their signs
            }
        }
    }

    @Test
    void the_table_keeps_its_name_and_a_quarter_of_its_bytes() {
        Map<String, Initializer> constants = rewritten(model()).graph().initializers();
        Tensor codes =
                Objects.requireNonNull(constants.get("wte.weight")).tensor().orElseThrow();
        Tensor scales = Objects.requireNonNull(constants.get("wte.weight_scale"))
                .tensor()
                .orElseThrow();
        assertEquals(DType.I8, codes.dtype());
        assertEquals(Shape.of(ROWS, 1), scales.shape());
        for (long i = 0; i < codes.bytes().byteSize(); i++) {
            assertTrue(codes.bytes().get(ValueLayout.JAVA_BYTE, i) != Byte.MIN_VALUE);
        }
    }

    @Test
    void a_table_that_something_else_reads_stays_with_the_reason() {
        Node other = Node.of("head", "Transpose", List.of("wte.weight"), List.of("t"));
        Plan plan = plan(model(other), NONE);
        assertTrue(plan.kept().getFirst().reason().contains("also read by head"), plan.text());
    }

    @Test
    void two_gathers_share_one_table() {
        Node other = Node.of("again", "Gather", List.of("wte.weight", "ids"), List.of("z"));
        GraphModel model = model(other, Node.of("sum", "Add", List.of("y", "z"), List.of("s")));
        Graph graph = model.graph();
        Graph both = Graph.of(
                "both",
                graph.nodes(),
                List.copyOf(graph.initializers().values()),
                graph.inputs(),
                List.of(new ValueInfo("s", null)));
        GraphModel lowered = rewritten(GraphModel.of(both, 10, 21));
        assertEquals(2, lowered.graph().initializers().size());
    }

    @Test
    void embeddings_are_candidates_only_where_asked_for_and_keep_finds_them() {
        assertTrue(Planner.plan(model().graph(), Recipes.FP8_WEIGHT_ONLY, NONE)
                .decisions()
                .isEmpty());
        Plan kept = plan(model(), List.of(Pattern.compile("wte")));
        assertTrue(kept.kept().getFirst().reason().contains("asked to keep it"), kept.text());
    }
}
