package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Who first reads of {@code --device cuda} reads there that no GPU has run it yet. To be removed when one has. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CudaStateTest {
    private static final Path ROOT = Path.of(System.getProperty("octet.testdata"))
            .toAbsolutePath()
            .normalize()
            .resolveSibling("");

    private static final Pattern MENTION = Pattern.compile("NVIDIA GPU|--device cuda|\\| CUDA \\|\n");
    private static final Pattern STATE = Pattern.compile("(?i)\\bno GPU (yet|has run)");

    static List<Path> pages() throws IOException {
        List<Path> pages = new ArrayList<>(List.of(ROOT.resolve("README.md")));
        try (Stream<Path> docs = Files.list(ROOT.resolve("docs"))) {
            docs.filter(p -> p.toString().endsWith(".md")).sorted().forEach(pages::add);
        }
        return pages;
    }

    @ParameterizedTest
    @MethodSource("pages")
    void the_first_mention_on_a_page_says_what_no_gpu_has_run(Path page) throws IOException {
        String text = Files.readString(page);
        Matcher mention = MENTION.matcher(text);
        if (mention.find()) {
            int end = text.indexOf("\n\n", mention.start());
            if (text.lastIndexOf("\n", mention.start()) + 1 == text.lastIndexOf("# ", mention.start())) {
                end = text.indexOf("\n\n", end + 2); // a title says it in the paragraph below
            }
            assertTrue(
                    STATE.matcher(text.substring(mention.start(), end).replace('\n', ' '))
                            .find(),
                    page.toString());
        }
    }

    @Test
    void the_help_of_train_says_it_too() {
        String help = CommandLine.run("train", "--help").out().replaceAll("\\s+", " ");
        assertTrue(STATE.matcher(help).find(), help);
    }
}
