package dev.octet.quant.statistics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.code_intelligence.jazzer.junit.FuzzTest;
import dev.octet.formats.error.InvalidDataException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.io.TempDir;

/** Arbitrary bytes as statistics: either some that survive writing, or refused. How to fuzz: docs/fuzzing.md. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
@Tag("fuzz")
class StatisticsFuzzTest {
    @TempDir
    static Path folder;

    @FuzzTest(maxDuration = "30m")
    void arbitrary_bytes_are_statistics_or_refused(byte[] bytes) throws IOException {
        Path file = Files.write(folder.resolve("fuzz.stats"), bytes);
        Statistics statistics;
        try {
            statistics = StatisticsFile.read(file);
        } catch (InvalidDataException e) {
            assertFalse(e.fix().isEmpty());
            return;
        }
        StatisticsFile.write(statistics, file);
        byte[] once = Files.readAllBytes(file);
        StatisticsFile.write(StatisticsFile.read(file), file);
        assertArrayEquals(once, Files.readAllBytes(file));
    }
}
