package dev.octet.converter.rule;

import static dev.octet.converter.rule.Sketch.sketch;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.TinyModels;
import dev.octet.converter.pass.PassLog;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.Graph;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class RecoverNamesTest {
    private static GraphModel recovered(GraphModel model, PassLog log) {
        return new RecoverNames().apply(new FusePatterns().fuse(model).model(), log);
    }

    /** Every Linear's weight, under its recovered name, is bit for bit that tensor of the checkpoint. */
    @ParameterizedTest
    @MethodSource("dev.octet.converter.TinyModels#names")
    void every_Linear_of_an_export_finds_its_weight_in_the_checkpoint(String name) throws IOException {
        try (ModelFile file = TinyModels.open(name);
                ModelFile checkpoint = TinyModels.checkpoint(name)) {
            for (GraphModel model : TinyModels.spellings(file)) {
                Graph g = recovered(model, new PassLog()).graph();
                int linears = 0;
                for (Node n : g.nodes()) {
                    if (n.isOctet("Linear")) {
                        Initializer w = Objects.requireNonNull(g.initializers().get(n.input(1)));
                        String original = w.metadata().getOrDefault(RecoverNames.ORIGINAL_NAME, w.name());
                        boolean conv1d = TinyModels.architecture(name).equals("gpt2") && !original.contains("lm_head");
                        Tensor there = checkpoint
                                .model()
                                .tensors()
                                .get(inFile(conv1d || !original.contains("lm_head") ? original : head(name)));
                        assertNotNull(there, () -> original + " of " + n);
                        boolean transposed = (n.intAttribute("transB", 0) == 0) != conv1d;
                        assertArrayEquals(
                                there.toFloats(),
                                transposed
                                        ? transposed(w.tensor().orElseThrow())
                                        : w.tensor().orElseThrow().toFloats(),
                                original);
                        linears++;
                    }
                }
                assertTrue(linears > 0);
            }
        }
    }

    /**
     * Where the checkpoint holds a weight. Names in the exports begin with the wrapper module {@code m}; a tied output layer is only there
     * as the embedding; ViT's modules are not called as its file has them.
     */
    private static String inFile(String original) {
        String name = original.substring("m.".length());
        if (name.equals("cls.predictions.decoder.weight")) {
            return "bert.embeddings.word_embeddings.weight";
        }
        if (name.startsWith("vit.")) {
            return name.replace("vit.layers.", "vit.encoder.layer.")
                    .replace("attention.q_proj", "attention.attention.query")
                    .replace("attention.k_proj", "attention.attention.key")
                    .replace("attention.v_proj", "attention.attention.value")
                    .replace("attention.o_proj", "attention.output.dense")
                    .replace("mlp.fc1", "intermediate.dense")
                    .replace("mlp.fc2", "output.dense");
        }
        return name;
    }

    private static String head(String name) {
        return TinyModels.architecture(name).equals("gpt2") ? "m.transformer.wte.weight" : "m.lm_head.weight";
    }

    private static float[] transposed(Tensor t) {
        int rows = (int) t.shape().dim(0);
        int columns = (int) t.shape().dim(1);
        float[] a = t.toFloats();
        float[] b = new float[a.length];
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < columns; c++) {
                b[c * rows + r] = a[r * columns + c];
            }
        }
        return b;
    }

    private static Sketch linear(String weight, String bias, String path) {
        return sketch().input("x", DType.F32, 2, 3)
                .output("y")
                .weight(weight, 3, 4)
                .weight(bias, 4)
                .node(path + "/MatMul", "MatMul", "x " + weight, "mm")
                .node(path + "/Add", "Add", bias + " mm", "y");
    }

    private static String weight(GraphModel model) {
        return model.graph().nodes().stream()
                .filter(n -> n.isOctet("Linear"))
                .findFirst()
                .orElseThrow()
                .input(1);
    }

    @Test
    void bias_and_module_that_agree_name_the_weight() {
        PassLog log = new PassLog();
        GraphModel model = recovered(
                linear("onnx::MatMul_7", "a.0.query.bias", "/a.0/query").model(), log);
        assertEquals("a.0.query.weight", weight(model));
        Initializer w = Objects.requireNonNull(model.graph().initializers().get("a.0.query.weight"));
        assertEquals(
                Map.of(RecoverNames.ORIGINAL_NAME, "a.0.query.weight", RecoverNames.ORIGINAL_LAYOUT, "out,in"),
                w.metadata());
        assertEquals(
                List.of("a.0.query.weight", "a.0.query.bias").size(),
                model.graph().initializers().size());
        assertEquals(1, log.notes().size());
    }

    @Test
    void a_bias_without_module_path_is_enough() {
        assertEquals("q.weight", weight(recovered(linear("val_3", "q.bias", "x").model(), new PassLog())));
    }

    @Test
    void a_packed_projection_is_named_like_its_bias() {
        assertEquals(
                "attn.in_proj_weight",
                weight(recovered(
                        linear("onnx::MatMul_7", "attn.in_proj_bias", "/attn").model(), new PassLog())));
    }

    @Test
    void a_bias_of_another_module_is_not_trusted() {
        PassLog log = new PassLog();
        assertEquals(
                "query.weight",
                weight(recovered(linear("onnx::MatMul_7", "key.bias", "/query").model(), log)));
        assertTrue(log.notes().getFirst().text().contains("of another module"));
    }

    @Test
    void a_product_in_a_module_with_modules_inside_is_not_named_by_it() {
        Sketch s = sketch().input("x", DType.F32, 2, 3)
                .output("y")
                .weight("onnx::MatMul_7", 3, 4)
                .node("/model/MatMul", "MatMul", "x onnx::MatMul_7", "z")
                .node("/model/act/Relu", "Relu", "z", "y");
        assertEquals("onnx::MatMul_7", weight(recovered(s.model(), new PassLog())));
    }

    @ParameterizedTest
    @ValueSource(strings = {"linear_12.w_0", "encoder/dense/kernel:0", "transformer.wte.weight"})
    void names_that_mean_something_stay(String name) {
        assertEquals(name, weight(recovered(linear(name, "q.bias", "/q").model(), new PassLog())));
    }

    @Test
    void a_taken_name_gets_a_number_and_a_tie_is_told() {
        PassLog log = new PassLog();
        Sketch s = sketch().input("x", DType.F32, 2, 1)
                .input("ids", DType.I64, 2)
                .output("y")
                .output("e")
                .weight("val_3", 1, 4)
                .weight("head.weight", 4, 1)
                .node("/embed/Gather", "Gather", "head.weight ids", "e")
                .node("/head/MatMul", "MatMul", "x val_3", "y");
        GraphModel model = recovered(s.model(), log);
        assertEquals("head.weight_1", weight(model));
        assertEquals(
                "head.weight",
                Objects.requireNonNull(model.graph().initializers().get("head.weight_1"))
                        .metadata()
                        .get(RecoverNames.ORIGINAL_NAME));
        assertTrue(log.notes().getFirst().text().contains("transposed (tied)"));
    }
}
