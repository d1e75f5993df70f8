package dev.octet.formats.safetensors;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.MalformedModelException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary bytes as an index of shards: either one that survives writing, or a named rule. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class ShardIndexFuzzTest {
    @TempDir
    static Path folder;

    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_an_index_or_break_a_named_rule(byte[] bytes) throws IOException {
        Path file = Files.write(folder.resolve(ShardIndex.FILE_NAME), bytes);
        ShardIndex index;
        try {
            index = ShardIndex.read(file);
        } catch (MalformedModelException e) {
            assertTrue(e.rule().isPresent(), e.getMessage());
            return;
        }
        try {
            assertEquals(index.shardNames(), index.shardPaths(file).keySet());
        } catch (MalformedModelException e) {
            assertTrue(e.rule().isPresent(), e.getMessage()); // no such file, or outside of the folder
        }
        Path again = folder.resolve("again.json");
        index.write(again);
        ShardIndex read = ShardIndex.read(again);
        assertEquals(index, read);
        byte[] once = Files.readAllBytes(again);
        read.write(again);
        assertArrayEquals(once, Files.readAllBytes(again));
    }
}
