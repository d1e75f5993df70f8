package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class NativeTrialTest {
    /** Ends as the property {@code how} says. */
    static final class Tried {
        private Tried() {}

        public static void main(String... words) throws Throwable {
            switch (System.getProperty("how")) {
                case "echo" -> System.out.write(System.in.readAllBytes());
                case "refuse" -> throw new IllegalStateException("not on this processor");
                case "hang" -> Thread.sleep(Duration.ofMinutes(5));
                default ->
                    Linker.nativeLinker()
                            .downcallHandle(
                                    Linker.nativeLinker().defaultLookup().findOrThrow("abort"),
                                    FunctionDescriptor.ofVoid())
                            .invokeExact();
            }
            System.out.flush();
        }
    }

    private static NativeTrial.Ended run(String how, Duration limit) throws IOException {
        return NativeTrial.run(Tried.class, Map.of("how", how), "input".getBytes(StandardCharsets.UTF_8), limit)
                .orElseThrow();
    }

    @Test
    void a_process_that_does_its_work_gives_its_output() throws IOException {
        NativeTrial.Ended ended = run("echo", Duration.ofMinutes(1));
        assertEquals(0, ended.exit(), ended.errors());
        assertEquals("input", ended.output());
        assertFalse(ended.crashed());
    }

    @Test
    void native_code_that_aborts_is_a_crash() throws IOException {
        NativeTrial.Ended ended = run("abort", Duration.ofMinutes(1));
        assertTrue(ended.crashed(), "exit " + ended.exit());
        assertTrue(ended.inTime());
    }

    @Test
    void an_exception_is_no_crash() throws IOException {
        NativeTrial.Ended ended = run("refuse", Duration.ofMinutes(1));
        assertEquals(1, ended.exit());
        assertFalse(ended.crashed());
        assertTrue(ended.errors().contains("not on this processor"), ended.errors());
    }

    @Test
    void a_process_that_does_not_end_is_ended() throws IOException {
        NativeTrial.Ended ended = run("hang", Duration.ofMillis(500));
        assertFalse(ended.inTime());
        assertFalse(ended.crashed());
    }
}
