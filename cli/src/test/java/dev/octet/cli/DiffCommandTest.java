package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DiffCommandTest {
    private static final Path CHECKPOINTS =
            Path.of(System.getProperty("octet.testdata")).resolve("checkpoints");
    private static final String ORIGINAL =
            CHECKPOINTS.resolve("llama-128-small").toString();
    private static final String FP8 =
            CHECKPOINTS.resolve("foreign/torchao-fp8-dynamic").toString();

    @TempDir
    Path folder;

    @Test
    void identical_models_say_so_and_exit_0() {
        CommandLine run = CommandLine.run("diff", FP8, FP8, "--quiet");
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(run.out().contains("The models are identical."), run.out());
    }

    @Test
    void the_table_has_the_worst_tensor_first_and_as_many_as_asked_for() throws IOException {
        CommandLine run = CommandLine.run("diff", ORIGINAL, FP8, "--quiet", "--top", "2");
        assertEquals(ExitCode.OK, run.code(), run.err());
        JsonNode tensors = json("diff", ORIGINAL, FP8).get("diff").get("tensors");
        assertTrue(
                run.out().indexOf(tensors.get(0).get("a").asText())
                        < run.out().indexOf(tensors.get(1).get("a").asText()),
                run.out());
        assertTrue(run.out().contains("and 5 more (--top 0 shows all)"), run.out());
    }

    @Test
    void a_gate_that_is_missed_exits_1() {
        assertEquals(
                ExitCode.CHECK_FAILED,
                CommandLine.run("diff", ORIGINAL, FP8, "--quiet", "--gate", "sqnr=60")
                        .code());
        assertEquals(
                ExitCode.OK,
                CommandLine.run("diff", ORIGINAL, FP8, "--quiet", "--gate", "sqnr=25", "--gate", "cosine=0.99")
                        .code());
    }

    @Test
    void a_tensor_that_cannot_be_compared_passes_no_gate() {
        String swizzled = CHECKPOINTS.resolve("foreign/torchao-mxfp8").toString();
        CommandLine run = CommandLine.run("diff", ORIGINAL, swizzled, "--quiet", "--gate", "sqnr=1");
        assertEquals(ExitCode.CHECK_FAILED, run.code(), run.out());
        assertTrue(run.out().contains("cannot be compared"), run.out());
    }

    @Test
    void wrong_usage_exits_2() {
        assertEquals(
                ExitCode.USAGE,
                CommandLine.run("diff", FP8, FP8, "--only", "nothing_like_it").code());
        assertEquals(
                ExitCode.USAGE, CommandLine.run("diff", FP8, FP8, "--only", "(").code());
        assertEquals(
                ExitCode.USAGE,
                CommandLine.run("diff", FP8, FP8, "--gate", "snr=1").code());
        assertEquals(
                ExitCode.USAGE,
                CommandLine.run("diff", FP8, FP8, "--gate", "sqnr=x").code());
        assertEquals(ExitCode.USAGE, CommandLine.run("diff", FP8).code());
    }

    @Test
    void models_with_nothing_in_common_exit_3() {
        String other = CHECKPOINTS
                .resolveSibling("golden/safetensors/scalar.safetensors")
                .toString();
        CommandLine run = CommandLine.run("diff", FP8, other, "--quiet");
        assertEquals(ExitCode.INPUT, run.code(), run.err());
        OctetTest.assertThreeLines(run);
    }

    @Test
    void a_file_that_is_not_there_exits_4() {
        CommandLine run = CommandLine.run("diff", FP8, folder.resolve("none").toString());
        assertEquals(ExitCode.IO, run.code());
        OctetTest.assertThreeLines(run);
    }

    @Test
    void a_report_is_written_and_not_overwritten() throws IOException {
        Path page = folder.resolve("diff.html");
        CommandLine run = CommandLine.run("diff", ORIGINAL, FP8, "--quiet", "--report", page.toString());
        assertEquals(ExitCode.OK, run.code(), run.err());
        assertTrue(Files.readString(page).contains("Octet comparison"));
        assertEquals(
                ExitCode.USAGE,
                CommandLine.run("diff", ORIGINAL, FP8, "--report", page.toString())
                        .code());
    }

    private static JsonNode json(String... words) throws IOException {
        String[] all = Arrays.copyOf(words, words.length + 2);
        all[words.length] = "--json";
        all[words.length + 1] = "--quiet";
        CommandLine run = CommandLine.run(all);
        assertEquals(ExitCode.OK, run.code(), run.err());
        return new ObjectMapper().readTree(run.out());
    }
}
