package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The verbs on checkpoints of torch, DeepSpeed and Megatron. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TorchCheckpointsTest {
    private static final Path CHECKPOINTS = Path.of(System.getProperty("octet.testdata"), "checkpoints");
    private static final String LLAMA = CHECKPOINTS.resolve("llama").toString();
    private static final String DCP = CHECKPOINTS.resolve("torch/dcp").toString();

    @TempDir
    Path folder;

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    private static CommandLine ok(String... arguments) {
        CommandLine run = CommandLine.run(arguments);
        assertEquals(ExitCode.OK, run.code(), run.err());
        return run;
    }

    /** A checkpoint of Megatron with the configuration of the model whose weights it holds. */
    private String megatron() throws IOException {
        Path source = CHECKPOINTS.resolve("megatron/llama/iter_0000010");
        Path target = Files.createDirectory(folder.resolve("megatron"));
        try (Stream<Path> files = Files.list(source)) {
            for (Path file : files.toList()) {
                Files.copy(file, target.resolve(file.getFileName().toString()));
            }
        }
        Files.copy(CHECKPOINTS.resolve("llama/config.json"), target.resolve("config.json"));
        return target.toString();
    }

    @Test
    void a_checkpoint_of_Megatron_becomes_the_folder_that_transformers_wrote() throws IOException {
        ok("convert", megatron(), "-o", at("out"), "--target", "huggingface");
        CommandLine diff = ok("diff", LLAMA, at("out"));
        assertTrue(diff.out().contains("The models are identical."), diff.out());
        try (Stream<Path> files = Files.list(folder.resolve("out"))) {
            assertEquals(
                    List.of("config.json", "model.safetensors"),
                    files.map(f -> f.getFileName().toString()).sorted().toList());
        }
        JsonNode facts =
                new ObjectMapper().readTree(ok("inspect", "--json", at("out")).out());
        assertEquals("LlamaForCausalLM", facts.path("architecture").asText());
    }

    @Test
    void quantising_a_checkpoint_of_Megatron_gives_the_bytes_of_quantising_the_folder() throws IOException {
        ok("quantize", megatron(), "-o", at("here"));
        ok("quantize", LLAMA, "-o", at("there"));
        assertArrayEquals(
                Files.readAllBytes(folder.resolve("there/model.safetensors")),
                Files.readAllBytes(folder.resolve("here/model.safetensors")));
    }

    @Test
    void a_folder_becomes_a_distributed_checkpoint_and_back() {
        ok("convert", LLAMA, "-o", at("dcp"), "--target", "dcp");
        CommandLine diff = ok("diff", LLAMA, at("dcp"));
        assertTrue(diff.out().contains("The models are identical."), diff.out());
        assertTrue(diff.out().contains("dcp, not quantised"), diff.out());
    }

    @Test
    void a_distributed_checkpoint_replaces_another_only_by_force() throws IOException {
        ok("convert", LLAMA, "-o", at("dcp"), "--target", "dcp");
        Files.writeString(folder.resolve("dcp/__7_0.distcp"), "of the former one");
        CommandLine refused = CommandLine.run("convert", DCP, "-o", at("dcp"), "--target", "dcp");
        assertEquals(ExitCode.USAGE, refused.code());
        assertTrue(refused.err().contains("--force"), refused.err());
        ok("convert", DCP, "-o", at("dcp"), "--target", "dcp", "--force");
        assertFalse(Files.exists(folder.resolve("dcp/__7_0.distcp")));
        ok("diff", DCP, at("dcp"));
    }

    @Test
    void a_folder_becomes_a_universal_checkpoint_of_DeepSpeed_and_back() {
        ok("convert", LLAMA, "-o", at("universal"), "--target", "deepspeed-universal");
        CommandLine diff = ok("diff", LLAMA, at("universal"));
        assertTrue(diff.out().contains("deepspeed, not quantised"), diff.out());
        ok("convert", LLAMA, "-o", at("dcp"), "--target", "dcp");
        // BF16 is widened once and gives the same bytes from anywhere
        ok("convert", at("dcp"), "-o", at("again"), "--target", "deepspeed-universal");
        assertTrue(ok("diff", at("universal"), at("again")).out().contains("The models are identical."));
    }

    @Test
    void a_universal_checkpoint_replaces_another_only_by_force() throws IOException {
        ok("convert", LLAMA, "-o", at("universal"), "--target", "deepspeed-universal");
        Path former = Files.createDirectory(folder.resolve("universal/global_step0_universal/zero/former"));
        CommandLine refused = CommandLine.run("convert", DCP, "-o", at("universal"), "--target", "deepspeed-universal");
        assertEquals(ExitCode.USAGE, refused.code());
        assertTrue(refused.err().contains("--force"), refused.err());
        ok("convert", LLAMA, "-o", at("universal"), "--target", "deepspeed-universal", "--force");
        assertFalse(Files.exists(former));
    }

    @Test
    void quantised_weights_are_not_what_DeepSpeed_trains() {
        ok("quantize", LLAMA, "-o", at("fp8"));
        CommandLine run = CommandLine.run("convert", at("fp8"), "-o", at("out"), "--target", "deepspeed-universal");
        assertEquals(ExitCode.INPUT, run.code(), run.err());
        assertTrue(run.err().contains("octet dequantize"), run.err());
        assertFalse(Files.exists(folder.resolve("out")));
    }

    @Test
    void inspect_shows_what_Transformer_Engine_left_of_FP8_training() throws IOException {
        String file = CHECKPOINTS.resolve("te/te2.bin").toString();
        String page = ok("inspect", file).out();
        assertTrue(page.contains("FP8 training state"), page);
        assertTrue(page.contains("layers.0.mlp, GEMM 2"), page);
        JsonNode facts =
                new ObjectMapper().readTree(ok("inspect", "--json", file).out()).path("fp8_training");
        assertEquals(2, facts.path("recipes").path("DelayedScaling").asInt());
        assertEquals(16, facts.path("modules").get(0).path("history_length").asInt());
        assertEquals(0, facts.path("refused").size());
    }

    private String te(String file) {
        return CHECKPOINTS.resolve("te").resolve(file).toString();
    }

    @ParameterizedTest
    @ValueSource(strings = {"te2.bin", "te2.safetensors", "dcp", "zero1"})
    void static_scales_are_the_largest_amaxes_that_Transformer_Engine_kept(String file) throws IOException {
        String out = at("out");
        ok(
                "quantize",
                te(file),
                "-o",
                out,
                "--recipe",
                "fp8",
                "--target",
                "modelopt",
                "--training-scales",
                "--only",
                "qkv|mlp");
        JsonNode expected =
                new ObjectMapper().readTree(Path.of(te("expected.json")).toFile());
        try (Stream<Path> files = Files.list(Path.of(out));
                ModelFile written =
                        ModelFile.open(files.filter(f -> f.toString().endsWith(".safetensors"))
                                .findFirst()
                                .orElseThrow())) {
            Map<String, JsonNode> gemms = Map.of(
                    "layers.0.qkv", expected.at("/layers.0.qkv/gemms/0"),
                    "layers.0.mlp.fc1", expected.at("/layers.0.mlp/gemms/0"),
                    "layers.0.mlp.fc2", expected.at("/layers.0.mlp/gemms/1"));
            gemms.forEach((module, gemm) -> assertEquals(
                    (float) (gemm.at("/0/2").asDouble() / 448),
                    written.model().tensor(module + ".input_scale").toFloats()[0],
                    Math.ulp(gemm.at("/0/2").floatValue() / 448),
                    module));
        }
    }

    @Test
    void a_layer_whose_recipe_keeps_no_amax_has_no_scale_of_its_training() {
        CommandLine run = CommandLine.run(
                "quantize",
                te("te2.bin"),
                "-o",
                at("out"),
                "--recipe",
                "fp8",
                "--target",
                "modelopt",
                "--training-scales");
        assertEquals(ExitCode.INPUT, run.code(), run.err());
        assertTrue(run.err().contains("no static scale of the input of 3 quantised weights: layers.0."), run.err());
    }

    @Test
    void a_checkpoint_without_states_of_FP8_training_has_no_scales_of_it() {
        CommandLine run = CommandLine.run(
                "quantize", LLAMA, "-o", at("out"), "--recipe", "fp8", "--target", "modelopt", "--training-scales");
        assertEquals(ExitCode.INPUT, run.code(), run.err());
        assertTrue(run.err().contains("no states of FP8 training by Transformer Engine"), run.err());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "--recipe=fp8-dynamic quantised at run time",
                "--statistics both given",
                "--kv-cache=fp8 needs statistics"
            })
    void scales_of_training_go_with_static_inputs_alone(String given) {
        String[] parts = given.split(" ", 2);
        List<String> words =
                new ArrayList<>(List.of("quantize", te("te2.bin"), "-o", at("out"), "--target", "compressed-tensors"));
        if (!parts[0].startsWith("--recipe")) {
            words.add("--recipe=fp8");
        }
        words.addAll(List.of("--training-scales", parts[0]));
        if (parts[0].equals("--statistics")) {
            words.add(te("expected.json")); // any file: it is not read
        }
        CommandLine run = CommandLine.run(words.toArray(String[]::new));
        assertEquals(ExitCode.USAGE, run.code(), run.err());
        assertTrue(run.err().contains(parts[1].replace("quantised at run time", "has none")), run.err());
    }

    @Test
    void a_state_that_names_a_foreign_class_leaves_the_rest_of_inspect() throws IOException {
        byte[] hostile = Files.readAllBytes(CHECKPOINTS.resolveSibling("hostile/te/foreign-class.bin"));
        Path file = folder.resolve("model.safetensors");
        String header = "{\"m._extra_state\":{\"dtype\":\"U8\",\"shape\":[" + hostile.length + "],\"data_offsets\":[0,"
                + hostile.length + "]}}";
        ByteBuffer bytes = ByteBuffer.allocate(Long.BYTES + header.length() + hostile.length)
                .order(ByteOrder.LITTLE_ENDIAN);
        bytes.putLong(header.length())
                .put(header.getBytes(StandardCharsets.US_ASCII))
                .put(hostile);
        Files.write(file, bytes.array());
        String page = ok("inspect", file.toString()).out();
        assertTrue(page.contains("'m': the pickle names builtins.eval"), page);
    }

    @Test
    void a_dry_run_writes_nothing() throws IOException {
        ok("convert", DCP, "-o", at("out"), "--target", "huggingface", "--dry-run");
        ok("convert", DCP, "-o", at("out"), "--target", "dcp", "--dry-run");
        ok("convert", LLAMA, "-o", at("out"), "--target", "deepspeed-universal", "--dry-run");
        assertFalse(Files.exists(folder.resolve("out")));
    }

    @Test
    void the_output_may_not_be_the_checkpoint() {
        for (String target : List.of("huggingface", "dcp", "deepspeed-universal")) {
            CommandLine run = CommandLine.run("convert", DCP, "-o", DCP, "--target", target, "--force");
            assertEquals(ExitCode.USAGE, run.code(), run.err());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"--recipe=fp8", "--opset=21", "--exact-only", "--dtype=bf16", "--type=f16"})
    void options_without_a_meaning_are_refused(String option) {
        CommandLine run = CommandLine.run("convert", DCP, "-o", at("out"), "--target", "dcp", option);
        assertEquals(ExitCode.USAGE, run.code());
        assertTrue(run.err().contains(option.replaceAll("=.*", "")), run.err());
    }

    @Test
    void a_missing_rank_ends_every_verb_with_its_name() throws IOException {
        Path broken = Files.createDirectory(folder.resolve("broken"));
        try (Stream<Path> files = Files.list(Path.of(DCP))) {
            for (Path file : files.filter(f -> !f.endsWith("__1_0.distcp")).toList()) {
                Files.copy(file, broken.resolve(file.getFileName().toString()));
            }
        }
        for (List<String> verb : List.of(
                List.of("inspect", broken.toString()),
                List.of("diff", DCP, broken.toString()),
                List.of("convert", broken.toString(), "-o", at("out"), "--target", "huggingface"))) {
            CommandLine run = CommandLine.run(verb.toArray(String[]::new));
            assertEquals(ExitCode.INPUT, run.code(), verb.toString());
            assertTrue(run.err().contains("__1_0.distcp"), run.err());
        }
        CommandLine verify = CommandLine.run("verify", broken.toString());
        assertEquals(ExitCode.CHECK_FAILED, verify.code(), verify.err());
        assertTrue(verify.out().contains("__1_0.distcp"), verify.out());
    }

    @Test
    void inspect_names_what_is_left_out() {
        CommandLine run = ok("inspect", DCP);
        assertTrue(run.out().contains("14 tensors under 'optimizer' are left out"), run.out());
    }

    @Test
    void a_module_is_refused_with_the_way_out() {
        CommandLine run = CommandLine.run(
                "inspect", CHECKPOINTS.resolve("torch/module.pt").toString());
        assertEquals(ExitCode.INPUT, run.code());
        assertTrue(run.err().contains("torch.nn.modules.linear.Linear"), run.err());
        assertTrue(run.err().contains("state_dict()"), run.err());
    }
}
