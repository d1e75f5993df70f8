package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.converter.ModelSource;
import dev.octet.formats.ModelFile;
import dev.octet.formats.checkpoint.Checkpoint;
import dev.octet.formats.checkpoint.StoredTensor;
import dev.octet.formats.graph.ValueInfo;
import dev.octet.formats.npy.NpzWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What users do with a folder, for each family that has a graph: calibrate, quantise and verify; train and export. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FamilyVerbsTest {
    private static final Path MODELS = Path.of(System.getProperty("octet.testdata"), "models/tiny-hf");
    private static final String INPUT = "in.";
    private static final String LABELS = "labels";

    @TempDir
    Path folder;

    /** One folder of each family whose weights readers of FP8 take; GPT-2's lie the other way round. */
    static Collection<String> quantised() throws IOException {
        return ofEachFamily(name -> !name.startsWith("gpt2"));
    }

    private static Collection<String> ofEachFamily(Predicate<String> wanted) throws IOException {
        Map<String, String> byType = new TreeMap<>();
        try (Stream<Path> folders = Files.list(MODELS)) {
            for (String name : folders.map(f -> String.valueOf(f.getFileName()))
                    .sorted()
                    .filter(wanted)
                    .toList()) {
                byType.putIfAbsent(config(name).path("model_type").asText(), name);
            }
        }
        return byType.values();
    }

    /** Those whose golden file has labels, which models without a head have none of. */
    static Collection<String> trained() throws IOException {
        return ofEachFamily(FamilyVerbsTest::hasLabels);
    }

    private static boolean hasLabels(String name) {
        try (ModelFile golden = ModelFile.open(MODELS.resolve(name).resolve("golden.safetensors"))) {
            return golden.model().tensors().containsKey(INPUT + LABELS);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static JsonNode ok(String... words) throws IOException {
        CommandLine ran = CommandLine.run(words);
        assertEquals(ExitCode.OK, ran.code(), ran.err());
        return new ObjectMapper().readTree(ran.out());
    }

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    /** What the golden file gives the model, as many samples of each; zeros for token types that it leaves out. */
    private void data(String name, boolean labels) throws IOException {
        try (ModelSource source = ModelSource.open(MODELS.resolve(name));
                ModelFile golden = ModelFile.open(MODELS.resolve(name).resolve("golden.safetensors"));
                Arena arena = Arena.ofConfined();
                NpzWriter writer = NpzWriter.stored(folder.resolve("data.npz"))) {
            Map<String, Tensor> tensors = golden.model().tensors();
            List<String> wanted = new ArrayList<>(source.model().graph().orElseThrow().graph().inputs().stream()
                    .map(ValueInfo::name)
                    .toList());
            if (labels) {
                wanted.add(LABELS);
            }
            long samples = wanted.stream()
                    .map(n -> tensors.get(INPUT + n))
                    .filter(t -> t != null)
                    .mapToLong(t -> t.shape().dim(0))
                    .min()
                    .orElseThrow();
            for (String input : wanted) {
                Tensor given = tensors.get(INPUT + input);
                writer.add(given == null ? zeros(arena, input, tensors) : first(given, input, samples));
            }
            writer.commit();
        }
    }

    private static Tensor zeros(Arena arena, String input, Map<String, Tensor> tensors) {
        assertEquals("token_type_ids", input);
        Tensor ids = requireNonNull(tensors.get(INPUT + "input_ids"));
        return Tensor.ofLongs(
                arena, input, ids.shape(), new long[(int) ids.shape().elementCount()]);
    }

    private static Tensor first(Tensor all, String name, long samples) {
        long[] dims = all.shape().toArray();
        long bytes = all.bytes().byteSize() / dims[0] * samples;
        dims[0] = samples;
        return new Tensor(
                new TensorSpec(name, all.dtype(), Shape.of(dims)), all.bytes().asSlice(0, bytes));
    }

    @ParameterizedTest
    @MethodSource("quantised")
    void statistics_become_scales_of_a_checkpoint_that_verifies(String name) throws IOException {
        data(name, false);
        String model = MODELS.resolve(name).toString();
        ok("calibrate", model, "-o", at("stats"), "--data", at("data.npz"), "--json", "--quiet");
        ok("quantize", model, "-o", at("fp8"), "--recipe", "fp8", "--statistics", at("stats"), "--json", "--quiet");
        ok("verify", at("fp8"), "--for", "vllm", "--json"); // transformers loads no fused experts in FP8
        try (ModelFile made = ModelFile.open(weights(folder.resolve("fp8")))) {
            assertTrue(
                    made.model().tensors().values().stream().anyMatch(t -> t.dtype() == DType.F8_E4M3FN),
                    "nothing is quantised");
        }
    }

    @ParameterizedTest
    @MethodSource("trained")
    void two_steps_of_training_are_exported_under_the_names_of_the_folder(String name) throws IOException {
        data(name, true);
        String modelClass = config(name).path("architectures").path(0).asText();
        boolean next = modelClass.endsWith("ForCausalLM") || modelClass.endsWith("LMHeadModel");
        Files.write(
                folder.resolve("c.yaml"),
                List.of(
                        "loss: {type: " + (next ? "causal-lm" : "cross-entropy") + "}",
                        "data: {train: data.npz}",
                        "batch_size: 2",
                        "steps: 2",
                        "optimizer: {type: adamw, lr: 1.0e-3}"));
        String model = MODELS.resolve(name).toString();
        ok("train", model, "--config", at("c.yaml"), "-o", at("run"), "--threads", "1", "--json", "--quiet");
        ok("export", at("run"), "-o", at("tuned"), "--target", "huggingface", "--no-proof", "--json", "--quiet");
        try (ModelFile before = ModelFile.open(weights(MODELS.resolve(name)));
                ModelFile after = ModelFile.open(weights(folder.resolve("tuned")))) {
            Map<String, Tensor> old = before.model().tensors();
            Map<String, Tensor> tuned = after.model().tensors();
            assertEquals(old.keySet(), tuned.keySet());
            assertFalse(
                    old.keySet().stream().allMatch(n -> same(requireNonNull(old.get(n)), requireNonNull(tuned.get(n)))),
                    "no parameter has changed");
        }
    }

    @Test
    void a_file_whose_router_prefers_the_worst_experts_is_not_proved() throws IOException {
        data("mixtral", true);
        Files.write(
                folder.resolve("c.yaml"),
                List.of("loss: {type: causal-lm}", "data: {train: data.npz}", "batch_size: 2", "steps: 2"));
        String model = MODELS.resolve("mixtral").toString();
        ok("train", model, "--config", at("c.yaml"), "-o", at("run"), "--threads", "1", "--json", "--quiet");
        String[] export = {"export", at("run"), "-o", at("tuned"), "--target", "huggingface", "--json", "--quiet"};
        assertEquals(0, ok(export).path("proof").path("choices").doubleValue());
        try (Checkpoint tuned = Checkpoint.open(folder.resolve("tuned"))) {
            for (String layer : List.of("0", "1")) {
                StoredTensor router = requireNonNull(
                        tuned.tensor("model.layers." + layer + ".block_sparse_moe.gate.weight"), "router " + layer);
                negate(router);
            }
        }
        CommandLine ran =
                CommandLine.run(Stream.concat(Arrays.stream(export), Stream.of("--gate", "1000", "--prove-only"))
                        .toArray(String[]::new));
        assertEquals(ExitCode.CHECK_FAILED, ran.code(), ran.err());
        JsonNode proof = new ObjectMapper().readTree(ran.out()).path("proof");
        assertTrue(
                proof.path("choices").doubleValue() > proof.path("choices_gate").doubleValue(), proof.toString());
    }

    /** In its file: the sign is the highest bit of each element. */
    private static void negate(StoredTensor tensor) throws IOException {
        int bytes = (int) tensor.spec().byteSize();
        int element = bytes / (int) tensor.spec().shape().elementCount();
        try (RandomAccessFile file = new RandomAccessFile(tensor.shard().path().toFile(), "rw")) {
            byte[] all = new byte[bytes];
            file.seek(tensor.position());
            file.readFully(all);
            for (int i = element - 1; i < bytes; i += element) {
                all[i] ^= (byte) 0x80;
            }
            file.seek(tensor.position());
            file.write(all);
        }
    }

    @Test
    void the_scales_of_each_experts_inputs_in_an_fp8_run_are_those_of_the_exported_checkpoint() throws IOException {
        data("mixtral", true);
        Files.write(
                folder.resolve("c.yaml"),
                List.of(
                        "loss: {type: causal-lm}",
                        "data: {train: data.npz}",
                        "batch_size: 2",
                        "steps: 2",
                        "precision: {mode: fp8, recipe: delayed, amax_history_len: 4}",
                        "optimizer: {type: adamw, lr: 1.0e-3}"));
        String model = MODELS.resolve("mixtral").toString();
        ok("train", model, "--config", at("c.yaml"), "-o", at("run"), "--threads", "1", "--json", "--quiet");
        JsonNode proof = ok(
                        "export",
                        at("run"),
                        "-o",
                        at("fp8"),
                        "--target",
                        "compressed-tensors",
                        "--gate",
                        "0.3",
                        "--json",
                        "--quiet")
                .path("proof");
        assertTrue(proof.path("choices").isNumber(), proof.toString());
        assertTrue(
                proof.path("choices").doubleValue()
                        <= proof.path("choices_gate").doubleValue(),
                proof.toString());
        assertEquals(1, proof.path("gaps").size(), proof.toString());
        Path state = folder.resolve("run/checkpoints/step-2/state.safetensors");
        try (ModelFile run = ModelFile.open(state);
                ModelFile exported = ModelFile.open(weights(folder.resolve("fp8")))) {
            Map<String, Tensor> states = run.model().tensors();
            Map<String, Tensor> tensors = exported.model().tensors();
            Set<Float> different = new TreeSet<>();
            for (int layer = 0; layer < 2; layer++) {
                for (String linear : List.of("w1", "w2", "w3")) {
                    for (int e = 0; e < 5; e++) {
                        String module = "model.layers." + layer + ".block_sparse_moe.experts." + e + "." + linear;
                        // w3 reads what w1 does, which is cast once
                        String slot = "fp8./model/layers." + layer + "/block_sparse_moe/experts." + e + "/"
                                + (linear.equals("w3") ? "w1" : linear) + ".input";
                        float quantScale = requireNonNull(states.get(slot + ".quant_scale"))
                                .toFloats()[0];
                        Tensor scale = requireNonNull(tensors.get(module + ".input_scale"), module);
                        // written in BF16 at most: the type of the folder
                        assertEquals(1 / quantScale, scale.toFloats()[0], 0.004 / quantScale, module);
                        assertEquals(
                                DType.F8_E4M3FN,
                                requireNonNull(tensors.get(module + ".weight")).dtype(),
                                module);
                        different.add(quantScale);
                    }
                }
            }
            assertTrue(different.size() > 10, "experts share scales: " + different);
        }
    }

    private static Path weights(Path model) {
        Path index = model.resolve("model.safetensors.index.json");
        return Files.exists(index) ? index : model.resolve("model.safetensors");
    }

    private static boolean same(Tensor a, Tensor b) {
        return a.bytes().mismatch(b.bytes()) < 0;
    }

    private static JsonNode config(String name) throws IOException {
        return new ObjectMapper()
                .readTree(MODELS.resolve(name).resolve("config.json").toFile());
    }
}
