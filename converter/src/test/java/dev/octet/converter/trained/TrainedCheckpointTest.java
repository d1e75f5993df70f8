package dev.octet.converter.trained;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import ai.onnxruntime.OrtException;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.TinyModels;
import dev.octet.converter.TrainedModel;
import dev.octet.converter.checkpoint.StreamOptions;
import dev.octet.converter.lower.StandardOps;
import dev.octet.converter.pass.PassLog;
import dev.octet.converter.plan.LinearScales;
import dev.octet.converter.verify.Consumer;
import dev.octet.converter.verify.Verification;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
import dev.octet.formats.ModelFile;
import dev.octet.formats.graph.GraphModel;
import dev.octet.formats.model.Model;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** A run's weights and scales as checkpoints: names and direction of scales, what verify says, and the proof by reading back. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TrainedCheckpointTest {
    private static final String LLAMA = "llama_eager_dynamo18";
    private static final String MODULE = "m.model.layers.0.self_attn.q_proj";
    private static final float INPUT_SCALE = MadeRun.INPUT_AMAX / 448;

    @TempDir
    Path folder;

    private static Layout layout(String name) {
        return Layouts.named(name).orElseThrow();
    }

    private static ObjectNode config() {
        return new ObjectNode(JsonNodeFactory.instance).put("model_type", "llama");
    }

    private Path write(TrainedModel trained, Recipe recipe, String layout) throws IOException {
        Path out = folder.resolve("out");
        trained.quantized(recipe, layout(layout), config(), DType.F32, out, StreamOptions.defaults());
        return out;
    }

    private static float scalar(Path checkpoint, String name) throws IOException {
        try (ModelFile file = ModelFile.open(checkpoint.resolve("model.safetensors"))) {
            return TinyModels.tensor(file, name).toFloats()[0];
        }
    }

    private double gap(TrainedModel trained, Path checkpoint, boolean dynamic) throws IOException, OrtException {
        try (CheckpointConverter c = CheckpointConverter.open(checkpoint);
                Arena arena = Arena.ofShared();
                ModelFile golden = TinyModels.golden(LLAMA)) {
            GraphModel read = c.computedIn(
                    trained.canonical(),
                    new CheckpointGraph.Reading(dynamic ? Recipes.FP8_DYNAMIC.input() : null, false),
                    arena);
            float[] candidate = TinyModels.logits(
                    new StandardOps().apply(read, new PassLog()), golden, 2, folder.resolve("read.onnx"));
            float[] reference = TinyModels.logits(trained.plain(DType.F32), golden, 2, folder.resolve("plain.onnx"));
            return TinyModels.relativeError(candidate, reference);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"compressed-tensors", "modelopt"})
    void static_scales_have_the_names_and_direction_of_the_layout(String layout) throws IOException {
        try (MadeRun run = new MadeRun(LLAMA);
                TrainedModel trained = run.trained()) {
            Path out = write(trained, Recipes.CHECKPOINT_FP8, layout);
            assertEquals(INPUT_SCALE, scalar(out, MODULE + ".input_scale"));
            float[] w = requireNonNull(run.weights.get(MODULE + ".weight")).toFloats();
            float amax = 0;
            for (String part : List.of("q_proj", "k_proj", "v_proj")) {
                for (float x : requireNonNull(run.weights.get(MODULE.replace("q_proj", part) + ".weight"))
                        .toFloats()) {
                    amax = Math.max(amax, Math.abs(x));
                }
            }
            assertEquals(amax / 448, scalar(out, MODULE + ".weight_scale"), "fused weights share the largest");
            assertEquals(32 * 32, w.length);
        }
    }

    @Test
    void matrices_lie_as_out_by_in_whichever_way_round_the_graph_has_them() throws IOException {
        try (MadeRun run = new MadeRun(LLAMA);
                TrainedModel trained = run.trained()) {
            String up = "m.model.layers.0.mlp.up_proj.weight";
            Tensor inGraph = requireNonNull(run.weights.get(up));
            Tensor written = requireNonNull(trained.tensors(DType.F32).get(up));
            boolean turned = run.linear(up).intAttribute("transB", 0) == 0;
            assertEquals(inGraph.shape().dim(turned ? 1 : 0), written.shape().dim(0));
            float[] a = inGraph.toFloats();
            float[] b = written.toFloats();
            int rows = (int) written.shape().dim(0);
            int cols = (int) written.shape().dim(1);
            for (int r = 0; r < rows; r++) {
                for (int c = 0; c < cols; c++) {
                    assertEquals(turned ? a[c * rows + r] : a[r * cols + c], b[r * cols + c]);
                }
            }
        }
    }

    @ParameterizedTest
    @CsvSource({
        "compressed-tensors, fp8, TRANSFORMERS",
        "compressed-tensors, fp8-dynamic, VLLM",
        "compressed-tensors, mxfp8, VLLM",
        "modelopt, fp8, TENSORRT_LLM",
        "modelopt, fp8, VLLM",
        "modelopt, fp8-dynamic, VLLM"
    })
    void what_is_written_passes_verify(String layout, String recipe, Consumer reader) throws IOException {
        try (MadeRun run = new MadeRun(LLAMA);
                TrainedModel trained = run.trained()) {
            Recipe wanted = Recipes.CHECKPOINT.stream()
                    .filter(r -> r.name().equals(recipe))
                    .findFirst()
                    .orElseThrow();
            Verification result = Verifier.verify(
                    write(trained, wanted, layout),
                    VerifyOptions.defaults().withConsumers(Set.of(reader)).withDeep(true));
            assertEquals(0, result.errors(), () -> result.findings().toString());
        }
    }

    @ParameterizedTest
    @CsvSource({"compressed-tensors, fp8, false", "compressed-tensors, fp8-dynamic, true", "modelopt, fp8, false"})
    void read_back_it_computes_nearly_what_the_trained_floats_give(String layout, String recipe, boolean dynamic)
            throws IOException, OrtException {
        try (MadeRun run = new MadeRun(LLAMA);
                TrainedModel trained = run.trained()) {
            Recipe wanted = Recipes.CHECKPOINT.stream()
                    .filter(r -> r.name().equals(recipe))
                    .findFirst()
                    .orElseThrow();
            assertEquals(0, gap(trained, write(trained, wanted, layout), dynamic), 0.1);
        }
    }

    /** Planted: one scale of one weight is four times too large, as when a reader takes another's reciprocal or format. */
    @ParameterizedTest
    @ValueSource(strings = {".weight_scale", ".input_scale"})
    void a_wrong_scale_in_the_file_shows_when_it_is_read_back(String scale) throws IOException, OrtException {
        try (MadeRun run = new MadeRun(LLAMA);
                TrainedModel trained = run.trained()) {
            Path out = write(trained, Recipes.CHECKPOINT_FP8, "compressed-tensors");
            spoil(out.resolve("model.safetensors"), "m.model.layers.1.mlp.down_proj" + scale, 1 / 64f);
            double gap = gap(trained, out, false);
            assertTrue(gap > 0.1, "gap " + gap);
        }
    }

    private static void spoil(Path file, String name, float factor) throws IOException {
        Map<String, Tensor> tensors = new LinkedHashMap<>();
        Path spoilt = file.resolveSibling("spoilt.safetensors");
        try (ModelFile model = ModelFile.open(file);
                Arena arena = Arena.ofConfined()) {
            tensors.putAll(model.model().tensors());
            Tensor old = requireNonNull(tensors.get(name), name);
            tensors.put(name, Tensor.ofFloats(arena, name, old.shape(), old.toFloats()[0] * factor));
            ModelFile.save(Model.of(tensors, model.model().metadata()), spoilt);
        }
        Files.move(spoilt, file, StandardCopyOption.REPLACE_EXISTING);
    }

    @Test
    void weights_are_rounded_from_the_masters_and_the_rest_is_stored_as_asked() throws IOException {
        try (MadeRun run = new MadeRun(LLAMA);
                TrainedModel trained = run.trained()) {
            Path wide = folder.resolve("wide");
            Path narrow = folder.resolve("narrow");
            for (Path out : List.of(wide, narrow)) {
                trained.quantized(
                        Recipes.CHECKPOINT_FP8,
                        layout("compressed-tensors"),
                        config(),
                        out.equals(wide) ? DType.F32 : DType.BF16,
                        out,
                        StreamOptions.defaults());
            }
            try (ModelFile a = ModelFile.open(wide.resolve("model.safetensors"));
                    ModelFile b = ModelFile.open(narrow.resolve("model.safetensors"))) {
                Tensor codes = TinyModels.tensor(a, MODULE + ".weight");
                assertArrayEquals(
                        codes.bytes().toArray(ValueLayout.JAVA_BYTE),
                        TinyModels.tensor(b, MODULE + ".weight").bytes().toArray(ValueLayout.JAVA_BYTE));
                assertEquals(
                        DType.BF16, TinyModels.tensor(b, "m.model.norm.weight").dtype());
            }
        }
    }

    @Test
    void linears_without_a_scale_stay_and_the_reason_is_told() throws IOException {
        try (MadeRun run = new MadeRun(LLAMA)) {
            String down = "m.model.layers.1.mlp.down_proj.weight";
            String up = "m.model.layers.0.mlp.down_proj.weight";
            run.scales.remove(run.linear(down).id());
            run.scales.put(run.linear(up).id(), LinearScales.none("never reached"));
            try (TrainedModel trained = run.trained()) {
                TrainedModel.Checkpointed done = trained.quantized(
                        Recipes.CHECKPOINT_FP8,
                        layout("compressed-tensors"),
                        config(),
                        DType.F32,
                        folder.resolve("out"),
                        StreamOptions.defaults());
                assertEquals(
                        "the run computed it in high precision", done.reasons().get(down));
                assertEquals("never reached", done.reasons().get(up));
            }
        }
    }

    @Test
    void nothing_is_left_beside_the_output() throws IOException {
        try (MadeRun run = new MadeRun(LLAMA);
                TrainedModel trained = run.trained()) {
            write(trained, Recipes.CHECKPOINT_FP8, "compressed-tensors");
            try (Stream<Path> files = Files.list(folder)) {
                assertEquals(
                        List.of("out"),
                        files.map(f -> f.getFileName().toString()).toList());
            }
        }
    }
}
