package dev.octet.quant.number;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.quant.recipe.Recipes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** The table of number formats in docs/numerics.md against the formats. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NumericsPageTest {
    private static final int COLUMNS = 9;

    private static Path page() {
        return Path.of(System.getProperty("octet.testdata")).resolveSibling("docs/numerics.md");
    }

    private static List<String> formatRows() throws IOException {
        return Files.readAllLines(page()).stream()
                .dropWhile(l -> !l.equals("## Number formats"))
                .skip(1)
                .takeWhile(l -> !l.startsWith("## "))
                .filter(l -> l.startsWith("| `"))
                .toList();
    }

    private static String number(float value) {
        int exponent = Math.getExponent(value);
        boolean power = value == Math.scalb(1f, exponent) || value < Float.MIN_NORMAL;
        boolean far = value < 0.5f || value > 1e6f;
        return power && far
                ? "2^" + Math.round(Math.log(value) / Math.log(2))
                : value == Math.rint(value) ? String.valueOf((long) value) : String.valueOf(value);
    }

    private static String row(Float8Format f) {
        int nans = 0;
        for (int code = 0; code < f.codeCount(); code++) {
            nans += Float.isNaN(f.decode(code)) ? 1 : 0;
        }
        return String.join(
                " | ",
                "| `" + f.name() + "`",
                f.exponentBits() + ", " + f.mantissaBits(),
                String.valueOf(f.bias()),
                number(f.maxValue()),
                number(f.minNormal()),
                number(f.minPositive()),
                f.hasInfinity() ? "yes" : "no",
                String.valueOf(nans));
    }

    @Test
    void every_recipe_has_its_formulas() throws IOException {
        String text = Files.readString(page());
        List<String> names = new ArrayList<>(Recipes.TRAINING.keySet());
        Recipes.GRAPH.forEach(r -> names.add(r.name()));
        Recipes.CHECKPOINT.forEach(r -> names.add(r.name()));
        names.removeIf(n -> Pattern.compile("(?m)^\\| (ONNX |checkpoint )?`" + n + "`")
                        .matcher(text)
                        .find()
                || text.contains("(`" + n + "`)"));
        assertEquals(List.of(), names);
    }

    @Test
    void every_number_format_has_its_numbers_in_the_table() throws IOException {
        List<String> expected =
                Arrays.stream(Float8Format.values()).map(NumericsPageTest::row).toList();
        List<String> rows = new ArrayList<>();
        for (String line : formatRows()) {
            String[] cells = line.split("(?<=.) \\| ", COLUMNS);
            rows.add(String.join(" | ", Arrays.copyOf(cells, COLUMNS - 1)));
        }
        assertEquals(expected, rows);
    }
}
