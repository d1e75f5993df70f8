package dev.octet.converter.hf;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.ModelFile;
import dev.octet.formats.tensor.Tensor;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Set;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class DisentangledScoresTest {
    private static final Path GOLDEN =
            Path.of(System.getProperty("octet.testdata"), "golden/deberta/buckets.safetensors");
    /** Positions between a key and a query in the golden file, to both sides. */
    private static final int FARTHEST = 600;

    /** Oracle: transformers' buckets of 1201 distances, by {@code make/hf_encoders.py}. */
    @ParameterizedTest
    @CsvSource({"256, 512", "32, 128", "6, 12", "4, 16", "5, 40"})
    void every_distance_has_the_embedding_that_transformers_gives_it(int span, int farthest) throws IOException {
        long[] table = new DisentangledScores.Settings(Set.of(), span, farthest, true, false).table();
        int last = table.length / 2;
        try (ModelFile file = ModelFile.open(GOLDEN)) {
            Tensor places = file.model().tensor(span + "_" + farthest);
            for (int distance = -FARTHEST; distance <= FARTHEST; distance++) {
                long expected = places.bytes().get(Tensor.I64_LE, 8L * (distance + FARTHEST));
                assertEquals(
                        expected, table[Math.clamp(distance, -last, last) + last], "key " + distance + " in front");
            }
        }
    }
}
