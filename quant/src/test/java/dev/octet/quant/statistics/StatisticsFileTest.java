package dev.octet.quant.statistics;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.SplittableRandom;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
final class StatisticsFileTest {
    @TempDir
    Path folder;

    private static TensorStatistics random(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] x = new float[3000];
        for (int i = 0; i < x.length; i++) {
            x[i] = i % 100 == 0
                    ? Float.NaN
                    : i % 7 == 0 ? 0 : (float) Math.scalb(random.nextDouble(-1, 1), i % 60 - 30);
        }
        StatisticsAccumulator a = new StatisticsAccumulator();
        a.add(FloatBuffer.wrap(x));
        return a.snapshot();
    }

    private static Statistics statistics(String model, String data, long done, Map<String, TensorStatistics> tensors) {
        return Statistics.of(model, new DataPart(data, data + ".jsonl", done, 256), tensors);
    }

    private static final Statistics ONE = statistics("aa", "bb", 256, Map.of("/layer/\"quoted\" é", random(1)));

    private String text(Statistics s) throws IOException {
        Path file = folder.resolve("s.json");
        StatisticsFile.write(s, file);
        return Files.readString(file);
    }

    private InvalidDataException refused(String text) throws IOException {
        Path file = Files.writeString(folder.resolve("broken.json"), text);
        InvalidDataException e = assertThrows(InvalidDataException.class, () -> StatisticsFile.read(file));
        assertTrue(e.where().contains("broken.json"), e.getMessage());
        return e;
    }

    @Test
    void what_is_written_comes_back_to_the_bit_and_is_written_the_same_again() throws IOException {
        Path a = folder.resolve("a.json");
        Path b = folder.resolve("b.json");
        StatisticsFile.write(ONE, a);
        Statistics read = StatisticsFile.read(a);
        assertEquals(ONE, read);
        StatisticsFile.write(read, b);
        assertArrayEquals(Files.readAllBytes(a), Files.readAllBytes(b));
    }

    private static TensorStatistics withChannels(long seed) {
        SplittableRandom random = new SplittableRandom(seed);
        float[] x = new float[3000];
        for (int i = 0; i < x.length; i++) {
            x[i] = (float) random.nextDouble(-2, 1);
        }
        BitSet rows = new BitSet();
        rows.set(0, 100);
        StatisticsAccumulator a = new StatisticsAccumulator();
        a.addWithChannels(MemorySegment.ofArray(x), 30, rows, 30);
        ChannelStatistics heads = withHeads(x);
        return a.snapshot().with(a.snapshot().channels(), heads);
    }

    private static ChannelStatistics withHeads(float[] x) {
        BitSet rows = new BitSet();
        rows.set(0, 300);
        StatisticsAccumulator a = new StatisticsAccumulator();
        a.addWithHeads(MemorySegment.ofArray(x), rows, new StatisticsAccumulator.HeadShape(3, 100, 10));
        return Objects.requireNonNull(a.snapshot().heads());
    }

    @Test
    void channels_and_heads_come_back_to_the_bit_and_equal_ones_are_written_once() throws IOException {
        Map<String, TensorStatistics> tensors = new LinkedHashMap<>();
        tensors.put("q_proj", withChannels(3));
        String alone = text(statistics("aa", "bb", 256, tensors));
        tensors.put("k_proj", withChannels(3)); // reads the same input
        Statistics both = statistics("aa", "bb", 256, tensors);
        String shared = text(both);
        assertEquals(both, StatisticsFile.read(folder.resolve("s.json")));
        assertEquals(2, shared.split("sumOfMagnitudes", -1).length - 1, "one object of channels and one of heads");
        assertEquals(2, alone.split("sumOfMagnitudes", -1).length - 1);
        assertTrue(refused(shared.replace("\"channels\":0", "\"channels\":9"))
                .what()
                .contains("'channels' is 9"));
        assertTrue(refused(shared.replaceFirst("\"sum\":\"........", "\"sum\":\""))
                .what()
                .contains("bytes, not whole numbers of 8"));
    }

    @Test
    void a_file_from_before_channels_were_taken_is_read_and_has_none() throws IOException {
        String text = text(ONE).replaceAll(",\"negativeBins\":\\[[0-9,]*]", "");
        Path file = Files.writeString(folder.resolve("old.json"), text);
        TensorStatistics old =
                StatisticsFile.read(file).tensors().values().iterator().next();
        assertNull(old.negatives());
        assertNull(old.positives());
        assertNull(old.channels());
        assertEquals(ONE.tensors().values().iterator().next().histogram(), old.histogram());
    }

    @Test
    void empty_statistics_and_the_order_of_tensors_come_back() throws IOException {
        Map<String, TensorStatistics> tensors = new java.util.LinkedHashMap<>();
        List.of("z", "a", "m").forEach(n -> tensors.put(n, TensorStatistics.EMPTY));
        Path file = folder.resolve("s.json");
        StatisticsFile.write(statistics("aa", "bb", 0, tensors), file);
        assertEquals(
                List.of("z", "a", "m"),
                List.copyOf(StatisticsFile.read(file).tensors().keySet()));
        assertFalse(StatisticsFile.read(file).complete());
    }

    @Test
    void an_existing_file_is_replaced_and_no_temporary_file_stays() throws IOException {
        text(ONE);
        text(ONE);
        try (var files = Files.list(folder)) {
            assertEquals(1, files.count());
        }
    }

    @ParameterizedTest
    @CsvSource(
            delimiter = '|',
            quoteCharacter = '`',
            value = {
                "\"format\":\"octet-statistics\" | \"format\":\"something\"     | 'format'",
                "\"version\":1                   | \"version\":2                | version 2",
                "\"version\":1                   | \"version\":0                | 'version'",
                "\"version\":1                   | \"version\":\"1\"            | VALUE_NUMBER_INT",
                "\"version\":1                   | \"vision\":1                 | 'version'",
                "\"count\":3000                  | \"count\":3001               | make 3000",
                "\"count\":3000                  | \"count\":-3000              | count is -3000",
                "\"count\":3000                  | \"count\":99999999999999999999 | range",
                "\"count\":3000                  | \"count\":3000,\"count\":3000 | Duplicate",
                "\"nans\":30                     | \"nans\":-30                 | negative",
                "\"infinities\":0                | \"infinities\":1             | make 3001",
                "\"binsPerOctave\":16            | \"binsPerOctave\":8          | 'binsPerOctave' is 8",
                "\"min\":                        | \"min\":NaN,\"x\":           | NaN",
                "\"max\":                        | \"max\":1e30,\"x\":          | greatest magnitude",
                "\"max\":                        | \"max\":1e300,\"x\":         | range",
                "\"max\":                        | \"maximum\":                 | 'max'",
                "\"sumOfSquares\":               | \"sumOfSquares\":-1,\"x\":   | sum of squares",
                "\"bins\":[                      | \"bins\":[4080,1,            | bin 4080",
                "\"bins\":[                      | \"bins\":[0,-1,              | count -1",
                "\"bins\":[                      | \"bins\":[0,9223372036854775807, | overflow",
                "\"bins\":[                      | \"bins\":[1,                 | 'bins'",
                "\"bins\":[                      | \"bins\":[\"a\",             | VALUE_NUMBER_INT",
                "\"samplesDone\":256             | \"samplesDone\":257          | 257 of 256",
                "\"samplesDone\":256             | \"samplesDone\":-1           | -1 of 256",
                "\"model\":\"aa\"                | \"model\":\"\"               | no model",
                "\"data\":[                      | \"data\":[1,                 | 'data'",
                "\"tensors\":{                   | \"tensors\":[{               | 'tensors'"
            })
    void a_broken_field_is_refused_with_its_reason(String good, String bad, String reason) throws IOException {
        String text = text(ONE);
        assertTrue(text.contains(good), good);
        InvalidDataException e = refused(text.replace(good, bad));
        assertTrue(e.what().contains(reason), e.what());
    }

    @Test
    void a_file_cut_anywhere_is_refused() throws IOException {
        String text = text(ONE).stripTrailing();
        for (int length = 0; length < text.length(); length += 97) {
            refused(text.substring(0, length));
        }
        refused(text.substring(0, text.length() - 1));
        refused(text + "{}");
        refused("[".repeat(100_000));
    }

    @Test
    void unknown_fields_are_skipped() throws IOException {
        String text = text(ONE).replace("\"zeros\":", "\"later\":{\"a\":[1,{}]},\"zeros\":");
        Path file = Files.writeString(folder.resolve("later.json"), text);
        assertEquals(ONE, StatisticsFile.read(file));
    }

    @Test
    void statistics_of_one_model_and_different_data_merge() {
        Statistics a = statistics("m", "x", 256, Map.of("t", random(1)));
        Statistics b = statistics("m", "y", 256, Map.of("t", random(2)));
        Statistics sum = a.merge(b);
        assertEquals(Map.of("t", random(1).merge(random(2))), sum.tensors());
        assertEquals(512, sum.samplesDone());
        assertEquals(
                List.of("x", "y"), sum.data().stream().map(DataPart::digest).toList());
    }

    @Test
    void statistics_that_do_not_belong_together_do_not_merge() {
        Statistics a = statistics("m", "x", 256, Map.of("t", random(1)));
        record Case(Statistics other, String reason) {}
        for (Case c : List.of(
                new Case(statistics("other", "y", 256, Map.of("t", random(2))), "two different models"),
                new Case(statistics("m", "x", 256, Map.of("t", random(2))), "count twice"),
                new Case(statistics("m", "y", 3, Map.of("t", random(2))), "interrupted"),
                new Case(statistics("m", "y", 256, Map.of("u", random(2))), "different tensors"),
                new Case(statistics("m", "y", 256, Map.of()), "different tensors"))) {
            InvalidDataException e = assertThrows(InvalidDataException.class, () -> a.merge(c.other));
            assertTrue(e.what().contains(c.reason), e.what());
            assertThrows(InvalidDataException.class, () -> c.other.merge(a));
        }
    }
}
