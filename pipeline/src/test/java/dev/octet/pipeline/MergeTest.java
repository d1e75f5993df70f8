package dev.octet.pipeline;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.CheckpointConverter;
import dev.octet.converter.verify.Severity;
import dev.octet.converter.verify.Verifier;
import dev.octet.converter.verify.VerifyOptions;
import dev.octet.formats.ModelFile;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code octet merge} against what PEFT merges (testdata/make/merge.py) and what {@code octet quantize} makes of that. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MergeTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path GOLDEN = TESTDATA.resolve("golden/merge");
    private static final Path LLAMA = TESTDATA.resolve("models/tiny-hf/llama");

    @TempDir
    Path folder;

    private static Path base(String adapter) {
        return adapter.startsWith("gpt2") ? TESTDATA.resolve("models/tiny-hf/gpt2") : LLAMA;
    }

    private Merge.Result merge(Path base, String adapter, String out) throws IOException {
        return Merge.run(Merge.Request.of(base, List.of(GOLDEN.resolve(adapter)), folder.resolve(out)), Job.defaults());
    }

    private static Map<String, float[]> floats(Path path) throws IOException {
        Map<String, float[]> values = new LinkedHashMap<>();
        try (ModelFile file = ModelFile.open(path)) {
            file.model().tensors().forEach((name, t) -> values.put(name, t.toFloats()));
        }
        return values;
    }

    private static Map<String, byte[]> bytes(Path path) throws IOException {
        Map<String, byte[]> values = new LinkedHashMap<>();
        try (ModelFile file = ModelFile.open(path)) {
            file.model()
                    .tensors()
                    .forEach((name, t) -> values.put(name, t.bytes().toArray(ValueLayout.JAVA_BYTE)));
        }
        return values;
    }

    /** Products of rank 4 of numbers below 1 in another order of summation: a few units in the last place of 1. */
    @ParameterizedTest
    @ValueSource(
            strings = {
                "lora",
                "lora-all",
                "rslora",
                "dora",
                "ia3",
                "ln",
                "saved",
                "embedding",
                "gpt2-lora",
                "gpt2-dora",
                "gpt2-bias"
            })
    void a_plain_base_becomes_what_peft_merges(String adapter) throws IOException {
        Merge.Result result = merge(base(adapter), adapter, "out");
        Map<String, float[]> before = floats(base(adapter));
        Map<String, float[]> after = floats(folder.resolve("out"));
        Map<String, float[]> peft = floats(GOLDEN.resolve(adapter).resolve("merged.safetensors"));
        Set<String> changed = new HashSet<>();
        for (Map.Entry<String, float[]> e : after.entrySet()) {
            float[] expected = peft.getOrDefault(e.getKey(), before.get(e.getKey()));
            assertArrayEquals(expected, e.getValue(), peft.containsKey(e.getKey()) ? 2.5e-7f : 0, e.getKey());
            if (peft.containsKey(e.getKey())) {
                changed.add(e.getKey());
            }
        }
        assertEquals(peft.keySet(), changed);
        assertEquals(before.keySet(), after.keySet());
        assertEquals(changed.size(), result.weights().size());
        for (Merge.Weight weight : result.weights()) {
            assertEquals(1, requireNonNull(weight.kept()), 1e-6, weight.name());
        }
        assertTrue(result.passed());
    }

    @Test
    void the_proof_compares_with_the_adapter_next_to_the_base() throws IOException {
        Merge.Result result = merge(LLAMA, "lora", "out");
        MergeProof.Result proof = result.proof();
        assertNotNull(proof, result.proofMissing());
        assertTrue(proof.worst() < 1e-5, proof.toString());
        assertEquals(1, proof.gaps().getFirst().topOne());
        assertEquals(1, proof.gaps().getFirst().kept(), 1e-4);
    }

    /** The adapter's effect is far larger than the gate, so a base without it is no merged model. */
    @Test
    void a_proof_that_fails_leaves_nothing() throws IOException {
        Merge.Request request = Merge.Request.of(
                        quantized(Recipes.NVFP4), List.of(GOLDEN.resolve("lora")), folder.resolve("out"))
                .withProof(Optional.of(Merge.Proof.defaults().withGate(1e-3)));
        Merge.Result result = Merge.run(request, Job.defaults());
        assertFalse(result.passed());
        assertFalse(Files.exists(folder.resolve("out")));
        try (var left = Files.list(folder)) {
            assertEquals(1, left.count()); // the base
        }
    }

    private Path quantized(Recipe recipe) throws IOException {
        Path out = folder.resolve("base-" + recipe.name());
        Quantize.run(quantizing(LLAMA, out, recipe), Job.defaults());
        return out;
    }

    private static Quantize.CheckpointRequest quantizing(Path model, Path out, Recipe recipe) {
        return Quantize.CheckpointRequest.of(model, out, recipe);
    }

    private static Recipe recipe(String name) {
        return requireNonNull(Recipes.byName(Recipes.CHECKPOINT).get(name));
    }

    /** The tensors of a merge are those that quantize makes of the weights that Octet merges in F32. */
    @ParameterizedTest
    @ValueSource(strings = {"fp8-dynamic", "fp8", "mxfp8", "nvfp4", "int8", "int8-asymmetric", "fp8-weight-only"})
    void a_plain_base_merged_by_a_recipe_is_byte_for_byte_the_merged_weights_quantised(String name) throws IOException {
        merge(LLAMA, "lora", "plain");
        Quantize.run(quantizing(folder.resolve("plain"), folder.resolve("expected"), recipe(name)), Job.defaults());
        Merge.run(
                Merge.Request.of(LLAMA, List.of(GOLDEN.resolve("lora")), folder.resolve("out"))
                        .withForm(Merge.Form.of(recipe(name), Target.usual(recipe(name))))
                        .withProof(Optional.empty()),
                Job.defaults());
        assertSame(bytes(folder.resolve("expected")), bytes(folder.resolve("out")));
        assertEquals(
                Files.readString(folder.resolve("expected/config.json")),
                Files.readString(folder.resolve("out/config.json")));
    }

    private static void assertSame(Map<String, byte[]> expected, Map<String, byte[]> actual) {
        assertEquals(expected.keySet(), actual.keySet());
        expected.forEach((name, b) -> assertArrayEquals(b, actual.get(name), name));
    }

    /** Like the base: dequantise, add, quantise; what has no adapter keeps its bytes. */
    @ParameterizedTest
    @ValueSource(strings = {"fp8-dynamic", "fp8", "mxfp8", "nvfp4", "int8", "int8-asymmetric"})
    void a_quantised_base_keeps_layout_names_and_the_bytes_of_everything_else(String name) throws IOException {
        Path base = quantized(recipe(name));
        Merge.Result result = merge(base, "lora-all", "out");
        Map<String, byte[]> before = bytes(base);
        Map<String, byte[]> after = bytes(folder.resolve("out"));
        assertEquals(before.keySet(), after.keySet());
        int same = 0;
        for (Map.Entry<String, byte[]> e : before.entrySet()) {
            boolean linear = e.getKey().contains("_proj");
            assertEquals(e.getValue().length, requireNonNull(after.get(e.getKey())).length);
            if (!linear) {
                assertArrayEquals(e.getValue(), after.get(e.getKey()), e.getKey());
                same++;
            }
        }
        assertTrue(same > 0);
        assertEquals(
                Files.readString(base.resolve("config.json")), Files.readString(folder.resolve("out/config.json")));
        assertTrue(result.passed(), String.valueOf(result.proof()));
        assertEquals(14, result.weights().size());
        for (Merge.Weight weight : result.weights()) {
            assertEquals(1, requireNonNull(weight.kept()), 0.05, weight.toString());
        }
        assertTrue(Verifier.verify(folder.resolve("out"), VerifyOptions.defaults()).findings().stream()
                .noneMatch(f -> f.severity() == Severity.ERROR));
        // the same numbers, quantised by `octet quantize`, which knows nothing of adapters
        Dequantize.run(Dequantize.Request.of(base, folder.resolve("floats")).withType(DType.F32), Job.defaults());
        Merge.run(
                Merge.Request.of(folder.resolve("floats"), List.of(GOLDEN.resolve("lora-all")), folder.resolve("sum"))
                        .withProof(Optional.empty()),
                Job.defaults());
        Quantize.run(quantizing(folder.resolve("sum"), folder.resolve("expected"), recipe(name)), Job.defaults());
        assertSame(bytes(folder.resolve("expected")), after);
    }

    /** q and v have an adapter, k has none; their sums are larger than the shared scale holds. */
    @ParameterizedTest
    @ValueSource(strings = {"fp8", "nvfp4"})
    void fused_weights_go_on_sharing_a_scale_and_those_without_an_adapter_keep_their_values(String name)
            throws IOException {
        Path base = quantized(recipe(name));
        merge(base, "lora", "out");
        try (CheckpointConverter before = CheckpointConverter.open(base);
                CheckpointConverter after = CheckpointConverter.open(folder.resolve("out"))) {
            String attention = "model.layers.0.self_attn.";
            String scale = requireNonNull(after.stored().weights().get(attention + "q_proj.weight"))
                                    .globalScale()
                            == null
                    ? ".weight_scale"
                    : ".weight_global_scale";
            Map<String, byte[]> all = bytes(folder.resolve("out"));
            assertArrayEquals(all.get(attention + "q_proj" + scale), all.get(attention + "k_proj" + scale));
            assertArrayEquals(all.get(attention + "q_proj" + scale), all.get(attention + "v_proj" + scale));
            assertNotEquals(0, before.stored().weights().size());
        }
        float[] k = values(base, "model.layers.0.self_attn.k_proj.weight");
        float[] shifted = values(folder.resolve("out"), "model.layers.0.self_attn.k_proj.weight");
        float largest = 0;
        for (float v : k) {
            largest = Math.max(largest, Math.abs(v));
        }
        // codes that became subnormal lose bits: steps of 2^-9 of a scale of 2^3 amax / 448
        assertArrayEquals(k, shifted, largest * 8 / 448 / 512);
    }

    private float[] values(Path checkpoint, String weight) throws IOException {
        Path floats = folder.resolve("floats-" + checkpoint.getFileName());
        if (!Files.exists(floats)) {
            Dequantize.run(Dequantize.Request.of(checkpoint, floats).withType(DType.F32), Job.defaults());
        }
        return requireNonNull(floats(floats).get(weight));
    }

    @Test
    void weights_scale_each_adapter_and_the_proof_knows() throws IOException {
        Merge.Request request = Merge.Request.of(
                        LLAMA, List.of(GOLDEN.resolve("lora"), GOLDEN.resolve("rslora")), folder.resolve("out"))
                .withWeights(List.of(0.7, -0.3));
        Merge.Result result = Merge.run(request, Job.defaults());
        assertNotNull(result.proof(), result.proofMissing());
        assertTrue(result.proof().worst() < 1e-5, result.toString());
        String both = "model.layers.1.self_attn.q_proj.weight";
        float[] base = requireNonNull(floats(LLAMA).get(both));
        float[] first =
                requireNonNull(floats(GOLDEN.resolve("lora/merged.safetensors")).get(both));
        float[] second = requireNonNull(
                floats(GOLDEN.resolve("rslora/merged.safetensors")).get(both));
        float[] expected = new float[base.length];
        for (int i = 0; i < base.length; i++) {
            expected[i] =
                    (float) (base[i] + 0.7 * ((double) first[i] - base[i]) - 0.3 * ((double) second[i] - base[i]));
        }
        assertArrayEquals(expected, floats(folder.resolve("out")).get(both), 1e-6f);
    }

    /** Two roundings of sums below 4 in F32. */
    @Test
    void unmerging_gives_the_base_back_within_rounding() throws IOException {
        merge(LLAMA, "lora-all", "merged");
        Merge.Result result = Merge.run(
                Merge.Request.of(folder.resolve("merged"), List.of(GOLDEN.resolve("lora-all")), folder.resolve("back"))
                        .unmerging(),
                Job.defaults());
        assertTrue(result.passed(), String.valueOf(result.proof()));
        Map<String, float[]> base = floats(LLAMA);
        floats(folder.resolve("back")).forEach((name, v) -> assertArrayEquals(base.get(name), v, 5e-7f, name));
    }

    @Test
    void the_result_is_the_same_for_any_number_of_threads() throws IOException {
        Path base = quantized(Recipes.NVFP4);
        Merge.Request request = Merge.Request.of(base, List.of(GOLDEN.resolve("lora")), folder.resolve("one"))
                .withProof(Optional.empty());
        Merge.Result one = Merge.run(request, Job.defaults().withThreads(1));
        Merge.Result four = Merge.run(
                Merge.Request.of(base, List.of(GOLDEN.resolve("lora")), folder.resolve("four"))
                        .withProof(Optional.empty()),
                Job.defaults().withThreads(4));
        assertSame(bytes(folder.resolve("one")), bytes(folder.resolve("four")));
        assertEquals(one.weights(), four.weights());
    }

    /** An adapter of a thousandth of the usual size moves few codes of four bits. */
    @Test
    void what_does_not_survive_is_warned_of() throws IOException {
        Path small = folder.resolve("small");
        Files.createDirectory(small);
        Files.copy(GOLDEN.resolve("lora/adapter_config.json"), small.resolve("adapter_config.json"));
        try (ModelFile file = ModelFile.open(GOLDEN.resolve("lora/adapter_model.safetensors"))) {
            Map<String, Tensor> scaled = new LinkedHashMap<>();
            file.model().tensors().forEach((name, t) -> {
                float[] values = t.toFloats();
                for (int i = 0; i < values.length; i++) {
                    values[i] *= name.contains("lora_B") ? 1e-4f : 1;
                }
                scaled.put(name, Tensor.ofFloats(Arena.ofAuto(), name, t.shape(), values));
            });
            SafetensorsWriter.write(small.resolve("adapter_model.safetensors"), scaled, Map.of());
        }
        Merge.Result result = Merge.run(
                Merge.Request.of(LLAMA, List.of(small), folder.resolve("out"))
                        .withForm(Merge.Form.of(Recipes.NVFP4, Target.usual(Recipes.NVFP4))),
                Job.defaults());
        assertFalse(
                result.weights().stream().noneMatch(Merge.Weight::isLost),
                result.weights().toString());
        assertTrue(
                result.warnings().getFirst().contains("merge_aware"),
                result.warnings().toString());
    }
}
