package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.commons.cli.Option;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Options that messages and pages speak of are there. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NamedOptionsTest {
    private static final Path ROOT = Path.of(System.getProperty("octet.root"));
    private static final List<String> MODULES =
            List.of("formats", "quant", "converter", "trainer", "pipeline", "spark", "cli");

    /** Of the JVM, of Maven and of what serves models, and a placeholder. */
    private static final Set<String> FOREIGN = Set.of(
            "--add-modules",
            "--enable-native-access",
            "--sun-misc-unsafe-memory-access",
            "--model-path",
            "--strongly", // of --stronglyTyped
            "--onnx",
            "--fmad", // of nvcc
            "--batch-mode",
            "--no-transfer-progress",
            "--name",
            "--conf", // of spark-submit
            "--host", // of mpirun, as the next two
            "--bind-to",
            "--map-by",
            "--no-python", // of torchrun, as the next three
            "--nproc-per-node",
            "--nnodes",
            "--node-rank",
            "--kv-cache-dtype",
            "--max-lora-rank", // of vLLM
            "--local-dir",
            "--gpus",
            "--gpu-architecture",
            "--list-gpu-arch",
            "--rm", // of docker, as the next two
            "--user",
            "--build-arg",
            "--tool");

    /** A text, with what is added to it. */
    private static final Pattern SENTENCE = Pattern.compile("\"[^\"\n]*+\"(?:[^,;{}\"]*+\"[^\"\n]*+\")*+");

    private static final Pattern NO_TEXT =
            Pattern.compile("(?m)^\\s*+(?://|/?\\*).*+$|\\\\\"|'\"'|(?s:\"\"\".*?\"\"\")");

    private static final Pattern VERB_OR_OPTION =
            Pattern.compile("\\boctet ([a-z]+)\\b|(?<![\\w-])(--[a-z][a-z-]*[a-z])");

    private final Map<String, Set<String>> byVerb = new HashMap<>();
    private final Set<String> all = new HashSet<>(Set.of("--help", "--version"));
    private final List<String> unknown = new ArrayList<>();
    private int named;

    NamedOptionsTest() {
        for (Command command : Octet.COMMANDS) {
            Set<String> options = new HashSet<>();
            for (Option option : Flags.of(command)) {
                options.add("--" + option.getLongOpt());
            }
            byVerb.put(command.name(), options);
            all.addAll(options);
        }
    }

    /** Checks the options in a text: against those of the verb before them, else against {@code usual}. */
    private void check(Path file, String text, Set<String> usual) {
        Set<String> options = usual;
        Matcher m = VERB_OR_OPTION.matcher(text);
        while (m.find()) {
            if (m.group(1) != null) {
                options = byVerb.getOrDefault(m.group(1), usual);
            } else if (!FOREIGN.contains(m.group(2))) {
                named++;
                if (!options.contains(m.group(2))) {
                    unknown.add(ROOT.relativize(file) + ": " + text.strip());
                }
            }
        }
    }

    private void checkAll() {
        assertEquals(List.of(), unknown);
        assertTrue(named > 30, "only " + named + " options found");
    }

    private static List<Path> files(Path folder, String ending) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(f -> f.toString().endsWith(ending)).toList();
        }
    }

    @Test
    void messages_name_options_that_are_there() throws IOException {
        Map<String, String> verbOf = new HashMap<>();
        Octet.COMMANDS.forEach(c -> verbOf.put(c.getClass().getSimpleName() + ".java", c.name()));
        for (String module : MODULES) {
            for (Path file : files(ROOT.resolve(module).resolve("src/main/java"), ".java")) {
                Set<String> usual = byVerb.getOrDefault(
                        verbOf.getOrDefault(file.getFileName().toString(), ""), all);
                String code = NO_TEXT.matcher(Files.readString(file)).replaceAll("");
                SENTENCE.matcher(code).results().forEach(m -> check(file, m.group(), usual));
            }
        }
        checkAll();
    }

    @Test
    void pages_name_options_that_are_there() throws IOException {
        List<Path> pages = new ArrayList<>(files(ROOT.resolve("docs"), ".md"));
        pages.add(ROOT.resolve("README.md"));
        for (Path page : pages) {
            for (String line : Files.readAllLines(page)) {
                if (line.contains("octet ")) {
                    check(page, line, all);
                }
            }
        }
        checkAll();
    }
}
