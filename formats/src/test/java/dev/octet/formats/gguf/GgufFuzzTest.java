package dev.octet.formats.gguf;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.MalformedModelException;
import dev.octet.formats.error.UnsupportedModelException;
import java.lang.foreign.MemorySegment;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;

/** Arbitrary bytes as a GGUF file: either tensors that lie within it, or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class GgufFuzzTest {
    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_a_header_or_refused(byte[] bytes) {
        try {
            MemorySegment file = MemorySegment.ofArray(bytes);
            GgufHeader header = GgufHeader.parse(file, "fuzz", GgufLimits.DEFAULT);
            header.entries().forEach(e -> file.asSlice(e.position(), e.tensor().byteSize()));
        } catch (MalformedModelException | UnsupportedModelException e) {
            Assertions.assertFalse(e.fix().isEmpty());
        }
    }
}
