package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs with states in few bits, from the plan to the exported model. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class StatesFlowTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));

    @TempDir
    Path folder;

    private CommandLine train(String states, String more, String... words) throws IOException {
        Path config = folder.resolve("train.yaml");
        Files.writeString(config, """
            data: {train: '%s', pack: true, sequence: 32}
            loss: {type: causal-lm}
            batch_size: 2
            steps: 4
            optimizer: {lr: 1.0e-3, states: %s}
            precision: {mode: bf16}
            %s
            """.formatted(TESTDATA.resolve("text/train.jsonl"), states, more));
        List<String> all = new ArrayList<>(List.of(
                "train",
                TESTDATA.resolve("models/tiny-lm/gpt2").toString(),
                "--config",
                config.toString(),
                "-o",
                folder.resolve("run").toString()));
        all.addAll(List.of(words));
        return CommandLine.run(all.toArray(String[]::new));
    }

    @Test
    void a_dry_run_says_the_bytes_of_a_parameter_and_what_stays_in_F32() throws IOException {
        CommandLine line = train("{engine: torchao, bf16_stochastic_round: true}", "", "--dry-run");
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertTrue(
                line.out().contains("states      torchao (format: int8, bf16_stochastic_round: true)\n"), line.out());
        assertTrue(line.out().contains("bytes a parameter: weights 0.01, masters 2.00, gradients 4.00,"), line.out());
        assertTrue(line.out().contains("moments 2.07; 8.08 in all"), line.out());
        assertTrue(line.out().contains("elements, or that blocks do not divide, stay in F32: "), line.out());
        CommandLine json = train("{engine: torchao, bf16_stochastic_round: true}", "", "--dry-run", "--json");
        assertTrue(json.out().contains("\"engine\" : \"torchao (format: int8"), json.out());
    }

    @Test
    void a_model_trained_with_coded_states_is_exported_and_proven() throws IOException {
        CommandLine line = train("{engine: te, master_weight_dtype: fp16, exp_avg_dtype: fp8}", "");
        assertEquals(ExitCode.OK, line.code(), line.err());
        CommandLine export = CommandLine.run(
                "export",
                folder.resolve("run").toString(),
                "-o",
                folder.resolve("out").toString(),
                "--target",
                "huggingface",
                "--samples",
                "4");
        assertEquals(ExitCode.OK, export.code(), export.err() + export.out());
        assertTrue(export.out().contains("passed"), export.out());
    }

    @Test
    void an_adapter_is_trained_with_coded_states() throws IOException {
        CommandLine line =
                train("{engine: bf16, masters: bf16}", "adapter: {peft_type: LORA, r: 4, target_modules: [c_attn]}");
        assertEquals(ExitCode.OK, line.code(), line.err());
        assertTrue(line.out().contains("completed at step 4"), line.out());
    }

    @Test
    void another_engine_on_resume_is_refused_with_the_key_that_converts() throws IOException {
        assertEquals(ExitCode.OK, train("{engine: msamp}", "").code());
        CommandLine refused = train("{engine: torchao}", "", "--resume", "--set", "steps=6");
        assertEquals(ExitCode.USAGE, refused.code(), refused.err());
        assertTrue(refused.err().contains("--set optimizer.states.convert=true"), refused.err());
        CommandLine converted = train(
                "{engine: torchao}", "", "--resume", "--set", "steps=6", "--set", "optimizer.states.convert=true");
        assertEquals(ExitCode.OK, converted.code(), converted.err());
    }
}
