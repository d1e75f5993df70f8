package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.commons.cli.Option;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class OctetTest {
    @Test
    void the_version_is_one_line_on_standard_output() {
        CommandLine run = CommandLine.run("--version");
        assertEquals(ExitCode.OK, run.code());
        assertTrue(run.out().matches("octet \\d+\\.\\d+\\.\\d+\\S*\\R"), run.out());
        assertEquals("", run.err());
    }

    @ParameterizedTest
    @ValueSource(strings = {"--help", "help", "-h"})
    void help_lists_every_verb_with_one_line(String word) {
        CommandLine run = CommandLine.run(word);
        assertEquals(ExitCode.OK, run.code());
        for (Command command : Octet.COMMANDS) {
            assertTrue(
                    run.out().lines().anyMatch(l -> l.startsWith("  " + command.name() + " ")), () -> command.name());
        }
    }

    @Test
    void no_word_at_all_shows_the_help_page() {
        assertEquals(CommandLine.run("--help"), CommandLine.run());
    }

    @Test
    void help_of_a_verb_shows_usage_and_every_option_and_two_examples() {
        for (Command command : Octet.COMMANDS) {
            CommandLine run = CommandLine.run(command.name(), "--help");
            assertEquals(ExitCode.OK, run.code());
            assertTrue(run.out().startsWith("usage: octet " + command.name()), run.out());
            for (Option option : Flags.of(command)) {
                assertTrue(run.out().contains("--" + option.getLongOpt()), option.getLongOpt());
            }
            assertTrue(command.examples().size() >= 2, command.name());
            assertEquals(run, CommandLine.run("help", command.name()));
        }
    }

    @Test
    void no_verb_has_two_options_of_one_name() {
        for (Command command : Octet.COMMANDS) {
            Set<String> names = new HashSet<>();
            Flags.of(command).forEach(o -> assertTrue(names.add(o.getLongOpt()), command.name() + " " + o));
        }
    }

    @Test
    void an_unknown_verb_is_answered_with_the_nearest_one() {
        CommandLine run = CommandLine.run("inspekt", "model.onnx");
        assertEquals(ExitCode.USAGE, run.code());
        assertThreeLines(run);
        assertTrue(run.err().contains("did you mean inspect?"), run.err());
    }

    @Test
    void an_unknown_option_is_answered_with_the_nearest_one() {
        CommandLine run = CommandLine.run("inspect", "model.onnx", "--jsno");
        assertEquals(ExitCode.USAGE, run.code());
        assertThreeLines(run);
        assertTrue(run.err().contains("did you mean --json?"), run.err());
    }

    @ParameterizedTest
    @CsvSource({
        "quantize, --exclude, did you mean --keep?",
        "quantize, --ignore, did you mean --keep?",
        "quantize, --dataset, 'did you mean --calibration, --data?'",
        "calibrate, --dataset, 'did you mean --calibration, --data?'",
        "evaluate, --dataset, 'did you mean --calibration, --data?'",
        "quantize, --scheme, did you mean --recipe?",
        "quantize, --seed, octet quantize --help lists the options",
        "quantize, --num_calibration_samples, did you mean --samples?",
        "verify, --tensor-parallel-size, did you mean --tp?",
        "inspect, --exclude, octet inspect --help lists the options"
    })
    void the_words_of_other_tools_are_answered_with_octets(String verb, String option, String fix) {
        CommandLine run = CommandLine.run(verb, "model", option, "x");
        assertEquals(ExitCode.USAGE, run.code());
        assertThreeLines(run);
        assertTrue(run.err().contains("fix:   " + fix), run.err());
    }

    @ParameterizedTest
    @CsvSource({
        "dequantize, --dtype, torch.float16",
        "dequantize, --dtype, fp16",
        "dequantize, --dtype, FP32",
        "export, --dtype, f16",
        "export, --dtype, bfloat16",
        "quantize, --scale-type, float32",
        "quantize, --scale-format, f32"
    })
    void a_float_type_is_known_in_all_its_spellings(String verb, String option, String spelling) {
        CommandLine run = CommandLine.run(verb, ".", "-o", "none", "--target", "modelopt", option, spelling);
        assertFalse(run.err().contains("unknown " + option.substring(2)), run.err());
    }

    @Test
    void every_word_suggested_is_an_option_or_a_verb() {
        Set<String> options = new HashSet<>();
        Octet.COMMANDS.forEach(c -> Flags.of(c).forEach(o -> options.add(o.getLongOpt())));
        List<String> verbs = Octet.COMMANDS.stream().map(Command::name).toList();
        FieldWords.VERBS.keySet().forEach(v -> assertTrue(verbs.contains(v), v));
        Set<String> words = new HashSet<>();
        FieldWords.OPTIONS.forEach((ours, theirs) -> {
            theirs.forEach(t -> assertTrue(words.add(t), () -> t + " is in two lines"));
            for (String word : ours.split(" ", -1)) {
                assertTrue(options.contains(word), word);
            }
            theirs.forEach(t -> assertFalse(ours.contains(" " + t) || ours.equals(t), t));
        });
    }

    @Test
    void options_are_not_completed_from_their_first_letters() {
        assertEquals(
                ExitCode.USAGE, CommandLine.run("inspect", "model.onnx", "--js").code());
    }

    @Test
    void a_missing_operand_is_named() {
        CommandLine run = CommandLine.run("inspect");
        assertEquals(ExitCode.USAGE, run.code());
        assertThreeLines(run);
        assertTrue(run.err().contains("missing MODEL"), run.err());
    }

    @Test
    void one_operand_too_many_is_named() {
        CommandLine run = CommandLine.run("inspect", "a.onnx", "b.onnx");
        assertEquals(ExitCode.USAGE, run.code());
        assertTrue(run.err().contains("'b.onnx'"), run.err());
    }

    @Test
    void a_progress_style_that_does_not_exist_is_answered_with_those_that_do() {
        CommandLine run = CommandLine.run("inspect", "model.onnx", "--progress", "jsom");
        assertEquals(ExitCode.USAGE, run.code());
        assertTrue(run.err().contains("did you mean json?"), run.err());
    }

    @Test
    void a_path_that_no_system_allows_is_wrong_usage() {
        assertEquals(ExitCode.USAGE, CommandLine.run("inspect", "a\0b").code());
    }

    /** What, where, fix; nothing on standard output; no stack trace. */
    static void assertThreeLines(CommandLine run) {
        assertEquals("", run.out());
        assertEquals(3, run.err().lines().count(), run.err());
        assertTrue(run.err().startsWith("octet: "), run.err());
        assertTrue(run.err().lines().toList().get(1).startsWith("  where: "), run.err());
        assertTrue(run.err().lines().toList().get(2).startsWith("  fix:   "), run.err());
        assertFalse(run.err().contains("\tat "), run.err());
    }
}
