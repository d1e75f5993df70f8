package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.converter.ModelSource;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class HuggingFacePageTest {
    private static final Path PAGE = Path.of(System.getProperty("octet.testdata"), "../docs/huggingface.md");
    private static final Pattern ROW =
            Pattern.compile("^\\| `[\\w-]+` \\| (`\\w+`(?:, `\\w+`)*) \\|$", Pattern.MULTILINE);

    @Test
    void the_page_names_the_classes_that_have_a_graph() throws IOException {
        TreeSet<String> named = new TreeSet<>();
        ROW.matcher(Files.readString(PAGE))
                .results()
                .map(r -> r.group(1).replace("`", "").split(", "))
                .forEach(row -> named.addAll(List.of(row)));
        assertEquals(ModelSource.architectures(), List.copyOf(named));
    }

    @Test
    void the_readme_counts_the_model_types_of_the_page() throws IOException {
        long types = ROW.matcher(Files.readString(PAGE)).results().count();
        String readme = Files.readString(PAGE.resolveSibling("../README.md"));
        assertTrue(readme.contains("[" + types + " model types](docs/huggingface.md#architectures)"), types + " types");
    }
}
