package dev.octet.quant.cast;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class BestCastTest {
    /** What the other JVM runs. */
    public static final class PrintTwin {
        private PrintTwin() {}

        public static void main(String[] args) {
            System.out.println("twin: " + ElementCast.best().name());
        }
    }

    @Test
    void with_the_vector_module_the_twin_is_the_vector_one_where_vectors_are_wide() {
        assertEquals(ElementCastVector.fits(), ElementCast.best() instanceof ElementCastVector);
    }

    @Test
    void without_the_vector_module_the_compiler_makes_the_vectors_and_nothing_is_said() throws Exception {
        assertEquals("twin: arrays", runJava().strip());
    }

    private static String runJava() throws IOException, InterruptedException {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Process process = new ProcessBuilder(
                        java, "-cp", System.getProperty("java.class.path"), PrintTwin.class.getName())
                .redirectErrorStream(true)
                .start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
        return output;
    }
}
