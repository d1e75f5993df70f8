package dev.octet.cli;

import static java.util.Objects.requireNonNull;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import dev.octet.formats.ModelFile;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code octet merge} as a user types it: adapters that do not fit, and what is printed. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class MergeCommandTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path GOLDEN = TESTDATA.resolve("golden/merge");
    private static final Path LLAMA = TESTDATA.resolve("models/tiny-hf/llama");
    private static final String Q_A = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight";
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path folder;

    private CommandLine merge(Object... words) {
        Object[] all = new Object[words.length + 3];
        all[0] = "merge";
        System.arraycopy(words, 0, all, 1, words.length);
        all[words.length + 1] = "-o";
        all[words.length + 2] = folder.resolve("out");
        return CommandLine.run(Arrays.stream(all).map(Object::toString).toArray(String[]::new));
    }

    /** Three lines with these words, and nothing is left. */
    private void refused(CommandLine run, ExitCode code, String... words) throws IOException {
        assertEquals(code, run.code(), run.err());
        List<String> lines = run.err()
                .lines()
                .filter(l -> !l.contains(" of ") || l.startsWith("octet") || l.startsWith("  "))
                .toList();
        assertTrue(lines.stream().anyMatch(l -> l.startsWith("octet: ")), run.err());
        assertTrue(lines.stream().anyMatch(l -> l.startsWith("  fix:   ")), run.err());
        for (String word : words) {
            assertTrue(run.err().contains(word), word + " in\n" + run.err());
        }
        assertFalse(Files.exists(folder.resolve("out")));
    }

    /** A copy of the golden adapter with another configuration and other tensors. */
    private Path adapter(String name, Consumer<ObjectNode> config, Consumer<Map<String, Tensor>> tensors)
            throws IOException {
        return adapter("lora", name, config, tensors);
    }

    private Path adapter(String from, String name, Consumer<ObjectNode> config, Consumer<Map<String, Tensor>> tensors)
            throws IOException {
        Path made = Files.createDirectory(folder.resolve(name));
        ObjectNode json = (ObjectNode) JSON.readTree(
                GOLDEN.resolve(from).resolve("adapter_config.json").toFile());
        config.accept(json);
        JSON.writeValue(made.resolve("adapter_config.json").toFile(), json);
        try (ModelFile file = ModelFile.open(GOLDEN.resolve(from).resolve("adapter_model.safetensors"))) {
            Map<String, Tensor> all = new LinkedHashMap<>(file.model().tensors());
            tensors.accept(all);
            SafetensorsWriter.write(made.resolve("adapter_model.safetensors"), all, Map.of("format", "pt"));
        }
        return made;
    }

    private static Tensor floats(String name, Shape shape, float value) {
        float[] values = new float[Math.toIntExact(shape.elementCount())];
        Arrays.fill(values, value);
        return Tensor.ofFloats(Arena.ofAuto(), name, shape, values);
    }

    @Test
    void an_adapter_of_another_base_is_refused_by_names_and_by_shapes() throws IOException {
        refused(
                merge(TESTDATA.resolve("models/tiny-hf/gpt2"), GOLDEN.resolve("lora")),
                ExitCode.INPUT,
                "the base has no model.layers.0.mlp.up_proj.weight",
                "trained on llama");
        refused(
                merge(TESTDATA.resolve("checkpoints/llama-128"), GOLDEN.resolve("lora")),
                ExitCode.INPUT,
                "do not fit weight");
    }

    @Test
    void an_onnx_model_is_merged_and_proved_and_a_quantised_one_is_refused() throws IOException {
        Path model = folder.resolve("llama.onnx");
        done("convert", LLAMA, "-o", model, "--target", "onnx");
        Path merged = folder.resolve("merged.onnx");
        CommandLine run = done("merge", model, GOLDEN.resolve("lora"), "-o", merged);
        assertTrue(run.out().contains("passed"), run.out());
        CommandLine again = CommandLine.run(
                "merge", model.toString(), GOLDEN.resolve("lora").toString(), "-o", merged.toString());
        assertEquals(ExitCode.USAGE, again.code(), again.err());
        refused(
                merge(model, GOLDEN.resolve("lora"), "--recipe", "fp8-block"),
                ExitCode.USAGE,
                "--recipe is for checkpoints");
        Path quantised = folder.resolve("q.onnx");
        done("quantize", model, "-o", quantised, "--recipe", "fp8-weight-only");
        CommandLine refused = CommandLine.run(
                "merge",
                quantised.toString(),
                GOLDEN.resolve("lora").toString(),
                "-o",
                folder.resolve("m.onnx").toString());
        assertEquals(ExitCode.INPUT, refused.code(), refused.err());
        assertTrue(refused.err().contains("merge into the model in floats"), refused.err());
        assertFalse(Files.exists(folder.resolve("m.onnx")));
    }

    private static CommandLine done(Object... words) {
        CommandLine run =
                CommandLine.run(Arrays.stream(words).map(Object::toString).toArray(String[]::new));
        assertEquals(ExitCode.OK, run.code(), run.err());
        return run;
    }

    @Test
    void a_rank_above_a_dimension_is_refused() throws IOException {
        Path large = adapter("large", c -> c.putObject("rank_pattern").put("layers.0.self_attn.q_proj", 40), t -> {
            t.put(Q_A, floats(Q_A, Shape.of(40, 32), 1));
            String b = Q_A.replace("lora_A", "lora_B");
            t.put(b, floats(b, Shape.of(32, 40), 1));
        });
        refused(merge(LLAMA, large), ExitCode.INPUT, "rank 40 is larger than a dimension");
    }

    @Test
    void a_rank_that_the_configuration_denies_is_refused_because_the_scaling_hangs_on_it() throws IOException {
        refused(merge(LLAMA, adapter("r", c -> c.put("r", 8), t -> {})), ExitCode.INPUT, "have rank 4", "says 8");
    }

    @Test
    void a_product_for_a_norm_is_refused() throws IOException {
        Path norm = adapter("norm", c -> {}, t -> {
            for (String factor : List.of("lora_A", "lora_B")) {
                Tensor old = requireNonNull(t.remove(Q_A.replace("lora_A", factor)));
                String key = "base_model.model.model.layers.0.input_layernorm." + factor + ".weight";
                t.put(key, floats(key, old.shape(), 1));
            }
        });
        refused(merge(LLAMA, norm), ExitCode.INPUT, "input_layernorm.weight", "is a norm's");
    }

    @Test
    void nan_and_infinity_are_refused_before_anything_is_written() throws IOException {
        for (float bad : new float[] {Float.NaN, Float.POSITIVE_INFINITY}) {
            Path broken = adapter(
                    "bad" + bad,
                    c -> {},
                    t -> t.put(Q_A, floats(Q_A, requireNonNull(t.get(Q_A)).shape(), bad)));
            refused(merge(LLAMA, broken), ExitCode.INPUT, "the adapter holds " + bad, Q_A);
        }
    }

    @Test
    void finite_factors_whose_product_is_not_finite_are_refused() throws IOException {
        Path huge = adapter("huge", c -> {}, t -> t.replaceAll((k, v) -> floats(k, v.shape(), 1e30f)));
        refused(merge(LLAMA, huge), ExitCode.INPUT, "the changed weight holds Infinity", "row 0, column 0");
    }

    @Test
    void an_untrained_adapter_would_change_nothing() throws IOException {
        Path zero = adapter(
                "zero", c -> {}, t -> t.replaceAll((k, v) -> k.contains("lora_B") ? floats(k, v.shape(), 0) : v));
        refused(merge(LLAMA, zero), ExitCode.INPUT, "would change nothing");
        refused(merge(LLAMA, GOLDEN.resolve("lora"), "--weights", "0"), ExitCode.INPUT, "would change nothing");
    }

    @Test
    void an_adapter_that_rounding_swallows_would_change_nothing() throws IOException {
        Path tiny = adapter("tiny", c -> {}, t -> t.replaceAll((k, v) -> floats(k, v.shape(), 1e-12f)));
        refused(merge(LLAMA, tiny), ExitCode.INPUT, "no number of any weight moves", "merge_aware");
    }

    @Test
    void adapters_that_do_not_add_up_are_refused() throws IOException {
        refused(merge(LLAMA, GOLDEN.resolve("lora"), GOLDEN.resolve("ia3")), ExitCode.USAGE, "do not add up", "IA3");
        refused(merge(LLAMA, GOLDEN.resolve("dora"), GOLDEN.resolve("dora")), ExitCode.USAGE, "DoRA and DoRA");
        Path other = adapter("saved", "other", c -> {}, t -> {});
        refused(merge(LLAMA, GOLDEN.resolve("saved"), other), ExitCode.USAGE, "a tensor of its own");
        Path transposed = adapter("in-out", c -> c.put("fan_in_fan_out", true), t -> {});
        refused(merge(LLAMA, GOLDEN.resolve("lora"), transposed), ExitCode.USAGE, "fan_in_fan_out");
        refused(merge(LLAMA, GOLDEN.resolve("dora"), "--weights", "0.5"), ExitCode.USAGE, "no meaning for DoRA");
    }

    @Test
    void virtual_tokens_cannot_be_merged_and_the_reason_is_given() throws IOException {
        Path prompt = adapter(
                "prompt",
                c -> {
                    c.removeAll();
                    c.put("peft_type", "PROMPT_TUNING")
                            .put("num_virtual_tokens", 4)
                            .put("token_dim", 32);
                },
                t -> {
                    t.clear();
                    t.put("prompt_embeddings", floats("prompt_embeddings", Shape.of(4, 32), 1));
                });
        refused(merge(LLAMA, prompt), ExitCode.INPUT, "cannot be merged", "virtual tokens");
    }

    @Test
    void what_was_replaced_or_normed_cannot_be_taken_back() throws IOException {
        refused(merge(LLAMA, GOLDEN.resolve("dora"), "--unmerge"), ExitCode.USAGE, "cannot be taken back");
        refused(merge(LLAMA, GOLDEN.resolve("ln"), "--unmerge"), ExitCode.USAGE, "cannot be taken back");
    }

    @Test
    void options_that_contradict_each_other_are_refused() throws IOException {
        Path lora = GOLDEN.resolve("lora");
        refused(merge(LLAMA, lora, "--weights", "1,2"), ExitCode.USAGE, "2 weights for 1 adapters");
        refused(merge(LLAMA, lora, "--weights", "a"), ExitCode.USAGE, "--weights needs numbers");
        refused(merge(LLAMA, lora, "--target", "fp8"), ExitCode.USAGE, "--target goes with --recipe");
        refused(merge(LLAMA, lora, "--like", lora), ExitCode.USAGE, "is not the base");
        refused(merge(LLAMA, lora, "--like", LLAMA, "--recipe", "int8"), ExitCode.USAGE, "--recipe and --like");
        refused(merge(LLAMA, lora, "--no-proof", "--gate", "1"), ExitCode.USAGE, "contradict");
    }

    @Test
    void a_proof_below_its_gate_exits_with_1_and_leaves_nothing() throws IOException {
        CommandLine run = merge(LLAMA, GOLDEN.resolve("lora"), "--recipe", "nvfp4", "--gate", "0.001");
        assertEquals(ExitCode.CHECK_FAILED, run.code(), run.err());
        assertTrue(run.out().contains("not written") && run.out().contains("FAILED"), run.out());
        assertFalse(Files.exists(folder.resolve("out")));
    }

    @Test
    void the_answer_as_json_has_each_weight_with_its_error_and_what_is_kept() throws IOException {
        CommandLine run = merge(LLAMA, GOLDEN.resolve("lora"), "--recipe", "int8", "--json");
        assertEquals(ExitCode.OK, run.code(), run.err());
        JsonNode answer = JSON.readTree(run.out());
        assertEquals(6, answer.get("weights").size());
        JsonNode weight = answer.get("weights").get(0);
        assertTrue(weight.get("kept").asDouble() > 0.9 && weight.get("error").asDouble() < 0.1, run.out());
        assertTrue(answer.get("proof").get("passed").asBoolean(), run.out());
        assertTrue(Files.exists(folder.resolve("out/config.json")));
    }

    @Test
    void a_dry_run_lists_the_weights_and_writes_nothing() {
        CommandLine run = merge(LLAMA, GOLDEN.resolve("lora"), "--dry-run");
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(run.out().contains("would write") && run.out().contains("up_proj"), run.out());
        assertFalse(Files.exists(folder.resolve("out")));
    }
}
