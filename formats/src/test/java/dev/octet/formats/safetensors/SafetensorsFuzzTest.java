package dev.octet.formats.safetensors;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.MalformedModelException;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;

/** Arbitrary bytes as a file: either a model that can be written again, or a named rule. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class SafetensorsFuzzTest {
    private static final List<String> RULE_IDS =
            Stream.of(SafetensorsRule.values()).map(SafetensorsRule::id).toList();

    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_a_model_or_break_a_named_rule(byte[] bytes) {
        parse(bytes);
    }

    /** Most arbitrary bytes fail at the length field; here it is right, and the fuzzer gets at the JSON. */
    @FuzzTest(maxDuration = "30m")
    void an_arbitrary_header_is_a_model_or_breaks_a_named_rule(byte[] header) {
        parse(new SafetensorsBytes(header.length, header, new byte[0]).toArray());
    }

    private static void parse(byte[] bytes) {
        SafetensorsHeader header;
        try {
            header = SafetensorsHeader.parse(MemorySegment.ofArray(bytes), "fuzz", HeaderLimits.DEFAULT);
        } catch (MalformedModelException e) {
            assertEquals(Optional.of(true), e.rule().map(RULE_IDS::contains), "a named rule");
            return;
        }
        assertEquals(bytes.length, header.fileBytes());
        // What was accepted can be written, and what was written is accepted and written the same.
        byte[] written = rewritten(header);
        SafetensorsHeader again = SafetensorsHeader.parse(padded(written, header), "again", HeaderLimits.DEFAULT);
        assertEquals(header.metadata(), again.metadata());
        assertEquals(header.dataBytes(), again.dataBytes());
        assertArrayEquals(written, rewritten(again));
    }

    private static byte[] rewritten(SafetensorsHeader header) {
        return SafetensorsHeader.layout(
                        header.entries().stream()
                                .map(SafetensorsHeader.Entry::spec)
                                .toList(),
                        header.metadata())
                .toBytes();
    }

    private static MemorySegment padded(byte[] head, SafetensorsHeader header) {
        byte[] file = Arrays.copyOf(head, Math.toIntExact(head.length + header.dataBytes()));
        return MemorySegment.ofArray(file);
    }
}
