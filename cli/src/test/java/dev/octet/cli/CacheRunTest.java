package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CacheRunTest {
    /** One verb that fails would leave a cache without the classes of those after it, and nobody would see it. */
    @Test
    void every_verb_that_fills_the_cache_does_its_work() throws Exception {
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        try (PrintStream out = new PrintStream(new ByteArrayOutputStream(), false, StandardCharsets.UTF_8);
                PrintStream errors = new PrintStream(err, true, StandardCharsets.UTF_8)) {
            assertTrue(CacheRun.run(new Screen(out, errors, false, 0)), () -> err.toString(StandardCharsets.UTF_8));
        }
        assertEquals(
                List.of(),
                err.toString(StandardCharsets.UTF_8)
                        .lines()
                        .filter(l -> l.startsWith("octet:"))
                        .toList());
    }
}
