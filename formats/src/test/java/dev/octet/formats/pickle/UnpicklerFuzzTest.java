package dev.octet.formats.pickle;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;

/** Arbitrary bytes as a pickle: a value, or the reason why not. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class UnpicklerFuzzTest {
    private static final PickleLimits LIMITS = new PickleLimits(1 << 20, 1 << 16, 64);

    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_a_value_or_are_refused(byte[] bytes) {
        try {
            Unpickler.Result result = Unpickler.read(bytes, 0, "fuzz", LIMITS);
            assertTrue(result.end() > 0 && result.end() <= bytes.length);
        } catch (MalformedModelException | UnsupportedModelException e) {
            assertTrue(!e.what().isBlank() && !e.fix().isBlank());
        }
    }
}
