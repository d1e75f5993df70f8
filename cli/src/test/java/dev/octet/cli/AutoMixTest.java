package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.formats.ModelFile;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** {@code octet quantize --mix auto}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class AutoMixTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final String BERT = TinyBert.MODEL.toString();
    private static final String LLAMA = TESTDATA.resolve("models/tiny-lm/llama").toString();
    private static final String TEXTS = TESTDATA.resolve("text/train.jsonl").toString();
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    Path folder;

    private String samples = "";

    @BeforeEach
    void write() throws IOException {
        samples = TinyBert.samples(folder.resolve("samples.npz"), 8, 1).toString();
    }

    private String at(String name) {
        return folder.resolve(name).toString();
    }

    private JsonNode mixed(ExitCode code, String model, String output, String... more) throws IOException {
        List<String> all = new ArrayList<>(List.of("quantize", model, "-o", at(output), "--mix", "auto", "--json"));
        all.addAll(
                model.equals(BERT)
                        ? List.of("--data", samples)
                        : List.of("--data", TEXTS, "--samples", "4", "--max-length", "24"));
        all.addAll(List.of(more));
        CommandLine ran = CommandLine.run(all.toArray(String[]::new));
        assertEquals(code, ran.code(), ran.err());
        return JSON.readTree(ran.out());
    }

    private JsonNode evaluated(String model, String candidate) throws IOException {
        List<String> all = new ArrayList<>(List.of("evaluate", model, at(candidate), "--no-layers", "--json"));
        all.addAll(
                model.equals(BERT)
                        ? List.of("--data", samples)
                        : List.of("--data", TEXTS, "--samples", "4", "--max-length", "24"));
        CommandLine ran = CommandLine.run(all.toArray(String[]::new));
        assertEquals(ExitCode.OK, ran.code(), ran.err());
        return JSON.readTree(ran.out()).get("comparison");
    }

    private static Map<String, String> formats(JsonNode mix) {
        Map<String, String> formats = new TreeMap<>();
        mix.get("formats")
                .forEach(f ->
                        formats.put(f.get("weight").asText(), f.get("format").asText()));
        return formats;
    }

    private static void refused(ExitCode code, String what, String fix, String... words) {
        CommandLine ran = CommandLine.run(words);
        assertEquals(code, ran.code(), ran.err() + ran.out());
        assertTrue(ran.err().contains(what), ran.err());
        assertTrue(ran.err().contains(fix), ran.err());
    }

    @ParameterizedTest
    @ValueSource(strings = {"compressed-tensors", "modelopt"})
    void a_checkpoint_gets_two_formats_within_the_bits_that_its_readers_find_again(String target) throws IOException {
        JsonNode mix = mixed(ExitCode.OK, LLAMA, "mixed", "--bits", "6.0", "--target", target);
        Map<String, String> formats = formats(mix);
        assertEquals(14, formats.size());
        assertTrue(mix.get("bits").asDouble() <= 6, mix.toString());
        String eight = target.equals("modelopt") ? "mxfp8" : "fp8-dynamic"; // vLLM mixes no others there
        assertEquals(
                List.of(eight, "nvfp4"),
                formats.values().stream().distinct().sorted().toList());
        for (int layer = 0; layer < 2; layer++) {
            String at = "model.layers." + layer;
            assertEquals(formats.get(at + ".self_attn.q_proj.weight"), formats.get(at + ".self_attn.k_proj.weight"));
            assertEquals(formats.get(at + ".self_attn.q_proj.weight"), formats.get(at + ".self_attn.v_proj.weight"));
            assertEquals(formats.get(at + ".mlp.gate_proj.weight"), formats.get(at + ".mlp.up_proj.weight"));
        }
        Map<String, String> read = new TreeMap<>();
        try (ModelFile written = ModelFile.open(folder.resolve("mixed"))) {
            formats.keySet()
                    .forEach(w -> read.put(
                            w,
                            written.model().tensors().containsKey(w + "_packed")
                                            || written.model().tensors().containsKey(w + "_scale_2")
                                    ? "nvfp4"
                                    : eight));
        }
        assertEquals(formats, read);
        // what evaluate measures of the file is what was said of it, and near to what was predicted
        JsonNode measured = mix.get("measured");
        assertEquals(
                1
                        - evaluated(LLAMA, "mixed")
                                .get("outputs")
                                .get(0)
                                .get("cosine_mean")
                                .asDouble(),
                measured.get("cosine").asDouble(),
                1e-9);
        assertEquals(
                mix.get("predicted").get("kl").asDouble(),
                measured.get("kl").asDouble(),
                0.3 * measured.get("kl").asDouble());
        CommandLine verified = CommandLine.run("verify", at("mixed"), "--for", "vllm");
        assertEquals(ExitCode.OK, verified.code(), verified.out());
        JsonNode config =
                JSON.readTree(folder.resolve("mixed/config.json").toFile()).get("quantization_config");
        assertEquals(
                target.equals("modelopt") ? "MIXED_PRECISION" : "mixed-precision",
                config.path("quant_algo").asText(config.path("format").asText()));
        Map<String, String> named = new TreeMap<>();
        config.get("config_groups")
                .forEach(group -> group.get("targets")
                        .forEach(module -> named.put(
                                module.asText() + ".weight",
                                group.get("weights").get("num_bits").asInt() == 4 ? "nvfp4" : eight)));
        assertEquals(formats, named);
    }

    @Test
    void the_same_request_writes_the_same_bytes_and_a_dry_run_none() throws IOException {
        JsonNode dry = mixed(ExitCode.OK, LLAMA, "a", "--bits", "6.5", "--dry-run");
        assertFalse(Files.exists(folder.resolve("a")));
        assertTrue(dry.get("measured").isNull());
        assertEquals(0, dry.get("attempts").asInt());
        JsonNode done = mixed(ExitCode.OK, LLAMA, "a", "--bits", "6.5");
        assertEquals(dry.get("formats"), done.get("formats"));
        assertEquals(
                dry.get("bytes").asDouble(),
                done.get("bytes").asDouble(),
                0.03 * done.get("bytes").asDouble());
        mixed(ExitCode.OK, LLAMA, "b", "--bits", "6.5");
        assertEquals(-1, Files.mismatch(folder.resolve("a/model.safetensors"), folder.resolve("b/model.safetensors")));
        assertEquals(-1, Files.mismatch(folder.resolve("a/config.json"), folder.resolve("b/config.json")));
    }

    @Test
    void an_ONNX_model_keeps_the_Linears_that_a_gate_needs_and_its_metadata_name_them() throws IOException {
        JsonNode all = mixed(ExitCode.OK, BERT, "all.onnx", "--bits", "9", "--rounding", "nearest");
        double loss = all.get("measured").get("cosine").asDouble();
        assertEquals(0, all.get("exclusion").get("weights").size());
        double limit = 1 - loss / 2;
        JsonNode mix = mixed(
                ExitCode.OK,
                BERT,
                "mix.onnx",
                "--gate",
                "cosine=" + limit,
                "--rounding",
                "nearest",
                "--report",
                at("r.html"));
        int kept = mix.get("counts").get("kept").asInt();
        assertTrue(kept > 0 && kept < 14, mix.get("counts").toString());
        assertTrue(mix.get("gate").get("passed").asBoolean());
        double worst = 1;
        for (JsonNode output : evaluated(BERT, "mix.onnx").get("outputs")) {
            worst = Math.min(worst, output.get("cosine_mean").asDouble());
        }
        assertTrue(worst >= limit, worst + " < " + limit);
        assertEquals(worst, mix.get("gate").get("value").asDouble(), 1e-6);
        List<String> weights = new ArrayList<>();
        mix.get("exclusion").get("weights").forEach(w -> weights.add(w.asText()));
        assertEquals(kept, weights.size());
        try (ModelFile written = ModelFile.open(folder.resolve("mix.onnx"))) {
            assertEquals(
                    String.join(",", weights),
                    written.model().graph().orElseThrow().metadata().get("octet.mix.kept"));
        }
        assertTrue(Files.readString(folder.resolve("r.html")).contains("left as it is by --mix auto"));
    }

    @Test
    void a_size_is_kept_by_the_file() throws IOException {
        long size = Files.size(TinyBert.MODEL) * 7 / 10;
        JsonNode mix = mixed(ExitCode.OK, BERT, "mix.onnx", "--size", size + "B");
        assertTrue(Files.size(folder.resolve("mix.onnx")) <= size, mix.toString());
        assertEquals(Files.size(folder.resolve("mix.onnx")), mix.get("bytes").asLong());
        assertTrue(mix.get("counts").get("kept").asInt() > 0);
    }

    @Test
    void heads_and_what_a_layout_cannot_hold_stay_as_they_are() throws IOException {
        String llama = TESTDATA.resolve("checkpoints/llama-128-small").toString();
        Path tokens = folder.resolve("samples.npz");
        List<String> words = List.of(
                "quantize",
                llama,
                "-o",
                at("block"),
                "--mix",
                "auto",
                "--bits",
                "9",
                "--target",
                "fp8",
                "--json",
                "--data",
                tokens.toString(),
                "--samples",
                "4");
        CommandLine ran = CommandLine.run(words.toArray(String[]::new));
        assertEquals(ExitCode.OK, ran.code(), ran.err());
        Map<String, String> formats = formats(JSON.readTree(ran.out()));
        assertFalse("fp8-block".equals(formats.get("lm_head.weight")));
        assertTrue(formats.containsValue("fp8-block"));
    }

    @Test
    void goals_out_of_reach_say_what_is_in_reach() {
        String[] bert = {"quantize", BERT, "-o", at("x.onnx"), "--data", samples, "--mix", "auto", "--quiet"};
        refused(ExitCode.USAGE, "has at most 6.0 bits per weight", "give --bits 8.", with(bert, "--bits", "6.0"));
        refused(
                ExitCode.USAGE,
                "makes the model 1000 bytes or smaller",
                "smallest takes about",
                with(bert, "--size", "1kB"));
        refused(ExitCode.USAGE, "every Linear would stay as it is", "32.00 bits", with(bert, "--bits", "32"));
        refused(
                ExitCode.USAGE,
                "every Linear would stay as it is",
                "relax the gate",
                with(bert, "--gate", "cosine=0.99999999999"));
        refused(ExitCode.USAGE, "no perplexity", "cosine", with(bert, "--gate", "perplexity-change=0.01"));
        assertFalse(Files.exists(folder.resolve("x.onnx")));
    }

    @Test
    void contradictions_are_refused_before_any_work() {
        String[] bert = {"quantize", BERT, "-o", at("x.onnx"), "--data", samples, "--mix", "auto"};
        refused(ExitCode.USAGE, "needs a goal", "--bits 6.0, --size 40MB, --gate cosine=0.998", bert);
        refused(ExitCode.USAGE, "--bits and --size", "give one", with(bert, "--bits", "9", "--size", "1MB"));
        refused(
                ExitCode.USAGE,
                "--recipe and --mix auto exclude each other",
                "--formats",
                with(bert, "--bits", "9", "--recipe", "fp8"));
        refused(ExitCode.USAGE, "no gate 'cosin'", "did you mean cosine?", with(bert, "--gate", "cosin=0.9"));
        refused(ExitCode.USAGE, "can never be kept", "below 1", with(bert, "--gate", "cosine=1.5"));
        refused(ExitCode.USAGE, "has no number", "cosine=0.998", with(bert, "--gate", "cosine"));
        refused(ExitCode.USAGE, "--size needs a size, got '40XB'", "40MB", with(bert, "--size", "40XB"));
        refused(ExitCode.USAGE, "unknown mix 'all'", "auto", "quantize", BERT, "-o", at("x.onnx"), "--mix", "all");
        refused(
                ExitCode.USAGE,
                "no recipe writes int4",
                "formats for it",
                with(bert, "--bits", "9", "--formats", "int4"));
        refused(
                ExitCode.USAGE,
                "one format for target onnxruntime",
                "eight bits",
                with(bert, "--bits", "9", "--formats", "fp8-per-channel,fp8-weight-only"));
        refused(
                ExitCode.USAGE,
                "is for checkpoints",
                "onnxruntime",
                with(bert, "--bits", "9", "--target", "compressed-tensors"));
        refused(
                ExitCode.USAGE,
                "--bits is for --mix auto",
                "--mix",
                "quantize",
                BERT,
                "-o",
                at("x.onnx"),
                "--bits",
                "6");
        refused(
                ExitCode.USAGE,
                "needs data",
                "--data FILE",
                "quantize",
                BERT,
                "-o",
                at("x.onnx"),
                "--mix",
                "auto",
                "--bits",
                "9");
        refused(
                ExitCode.USAGE,
                "layout fp8 describes one recipe",
                "compressed-tensors or modelopt",
                "quantize",
                LLAMA,
                "-o",
                at("x"),
                "--mix",
                "auto",
                "--bits",
                "9",
                "--data",
                TEXTS,
                "--target",
                "fp8",
                "--formats",
                "fp8-per-tensor,fp8-block");
        refused(
                ExitCode.USAGE,
                "know no modules of FP8_PER_CHANNEL_PER_TOKEN (fp8-dynamic)",
                "--target compressed-tensors",
                "quantize",
                LLAMA,
                "-o",
                at("x"),
                "--mix",
                "auto",
                "--bits",
                "9",
                "--data",
                TEXTS,
                "--target",
                "modelopt",
                "--formats",
                "fp8-dynamic,nvfp4");
    }

    private static String[] with(String[] words, String... more) {
        List<String> all = new ArrayList<>(List.of(words));
        all.addAll(List.of(more));
        return all.toArray(String[]::new);
    }
}
