package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.octet.quant.layout.Layout;
import dev.octet.quant.layout.Layouts;
import dev.octet.quant.recipe.Recipe;
import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The first table of README.md: which engine loads which recipe in which layout, by the rules of {@code octet verify}. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SupportMatrixTest {
    private static final Path TESTDATA = Path.of(System.getProperty("octet.testdata"));
    private static final Path MODEL = TESTDATA.resolve("checkpoints/llama-128");

    /** In the order of the table's columns. */
    private static final List<String> ENGINES = List.of("vllm", "sglang", "tensorrt-llm", "transformers");

    @TempDir
    Path folder;

    private static List<String> table() throws IOException {
        return Files.readAllLines(TESTDATA.resolveSibling("README.md")).stream()
                .dropWhile(l -> !l.startsWith("| recipe |"))
                .skip(2)
                .takeWhile(l -> l.startsWith("|"))
                .toList();
    }

    /** Whether the engine loads it without an error, and all of it: advice says that a method is supported in part. */
    private boolean loads(Path checkpoint, String engine) throws IOException {
        CommandLine line = CommandLine.run("verify", checkpoint.toString(), "--for", engine, "--json", "--quiet");
        JsonNode answer = new ObjectMapper().readTree(line.out());
        return answer.get("errors").asInt() == 0
                && !answer.get("findings").findValuesAsText("rule").contains("method-supported");
    }

    private String row(Recipe of) throws IOException {
        String recipe = of.name();
        List<List<String>> cells =
                ENGINES.stream().<List<String>>map(_ -> new ArrayList<>()).toList();
        for (Layout layout : Layouts.ALL) {
            String target = layout.name();
            Path output = folder.resolve(recipe + "-" + target);
            CommandLine line = CommandLine.run(
                    "quantize", MODEL.toString(), "--recipe", recipe, "--target", target, "-o", output.toString());
            for (int e = 0; line.code() == ExitCode.OK && e < ENGINES.size(); e++) {
                if (loads(output, ENGINES.get(e))) {
                    cells.get(e).add("`" + target + "`");
                }
            }
        }
        StringBuilder row = new StringBuilder("| `" + recipe + "`"
                + (of.equals(Recipes.CHECKPOINT_FP8) ? " (= `" + Recipes.FP8_PER_TENSOR.name() + "`)" : "") + " |");
        cells.forEach(c -> row.append(c.isEmpty() ? " |" : " " + String.join(", ", c) + " |"));
        return row.toString();
    }

    @Test
    void the_table_says_what_verify_finds() throws IOException {
        List<String> rows = new ArrayList<>();
        for (Recipe recipe : Recipes.CHECKPOINT) {
            rows.add(row(recipe));
        }
        assertEquals(String.join("\n", rows), String.join("\n", table()));
    }
}
