package dev.octet.quant.gptq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.octet.formats.error.InvalidDataException;
import dev.octet.formats.error.OctetException;
import dev.octet.formats.safetensors.SafetensorsWriter;
import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.formats.tensor.TensorSpec;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class SecondMomentsTest {
    private static final Map<String, String> GOOD_METADATA =
            Map.of("moments.format", "octet.second-moments", "moments.version", "1", "moments.rows.x", "4");

    @TempDir
    Path folder;

    private Path file() {
        return folder.resolve("moments.safetensors");
    }

    private static SecondMoment named(SecondMoments moments, String name) {
        return Objects.requireNonNull(moments.byName().get(name));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 63, 64, 90})
    void a_resumed_run_ends_with_the_same_bits(int rowsBefore) throws IOException {
        float[][] rows = Samples.correlatedRows(150, 19, 1);
        SecondMoment before = Samples.moment(Arrays.copyOfRange(rows, 0, rowsBefore));
        SecondMoment other = Samples.moment(Samples.correlatedRows(3, 2, 1));
        new SecondMoments(Map.of("/layer/x", before, "y", other), Map.of("model", "abc")).write(file());

        SecondMoments read = SecondMoments.read(file());
        assertEquals(Map.of("model", "abc"), read.metadata());
        assertEquals(other.get(1, 0), named(read, "y").get(0, 1));
        SecondMoment resumed = named(read, "/layer/x");
        assertEquals(rowsBefore, resumed.rows());
        for (float[] row : Arrays.copyOfRange(rows, rowsBefore, rows.length)) {
            resumed.add(MemorySegment.ofArray(row));
        }
        SecondMoment whole = Samples.moment(rows);
        for (int i = 0; i < 19; i++) {
            for (int j = 0; j < 19; j++) {
                assertEquals(whole.get(i, j), resumed.get(i, j));
            }
        }
        assertEquals(150, resumed.rows());
    }

    @Test
    void the_triangle_lies_row_by_row() throws IOException {
        SecondMoment moment = Samples.moment(new float[][] {{1, 10, 100}, {2, 0, 0}});
        new SecondMoments(Map.of("x", moment), Map.of()).write(file());
        byte[] bytes = Files.readAllBytes(file());
        double[] last =
                MemorySegment.ofArray(bytes).asSlice(bytes.length - 48).toArray(Tensor.F64_LE.withByteAlignment(1));
        assertEquals("[5.0, 10.0, 100.0, 100.0, 1000.0, 10000.0]", Arrays.toString(last));
    }

    private void write(DType type, Map<String, String> metadata, double... values) throws IOException {
        try (Arena arena = Arena.ofConfined()) {
            Tensor tensor = Tensor.allocate(arena, new TensorSpec("x", type, Shape.of(values.length)));
            if (type == DType.F64) {
                MemorySegment.copy(values, 0, tensor.bytes(), Tensor.F64_LE, 0, values.length);
            }
            SafetensorsWriter.write(file(), Map.of("x", tensor), metadata);
        }
    }

    private void assertRefused(String what) {
        InvalidDataException e = assertThrows(InvalidDataException.class, () -> SecondMoments.read(file()));
        assertTrue(e.what().contains(what), e.what());
    }

    @Test
    void files_that_hold_something_else_are_refused() throws IOException {
        write(DType.F64, Map.of(), 1, 2, 3);
        assertRefused("not a file of second moments");
        write(DType.F32, GOOD_METADATA, 1, 2, 3);
        assertRefused("not F64");
        write(DType.F64, GOOD_METADATA, 1, 2);
        assertRefused("not a triangle");
        write(DType.F64, GOOD_METADATA);
        assertRefused("not a triangle");
        write(DType.F64, GOOD_METADATA, 1, 0, -1);
        assertRefused("sum of squares 1 is -1.0");
        write(DType.F64, GOOD_METADATA, 4, 2, 3);
        assertEquals(2, named(SecondMoments.read(file()), "x").get(0, 1));
        Files.writeString(file(), "no model");
        assertThrows(OctetException.class, () -> SecondMoments.read(file()));
    }

    @Test
    void metadata_that_does_not_fit_is_refused() throws IOException {
        Map<String, String> metadata = new HashMap<>(GOOD_METADATA);
        for (String rows : new String[] {"-1", "", "9999999999999999999", "four"}) {
            metadata.put("moments.rows.x", rows);
            write(DType.F64, metadata, 1);
            assertRefused("number of rows");
        }
        metadata.remove("moments.rows.x");
        write(DType.F64, metadata, 1);
        assertRefused("number of rows");
        metadata.put("moments.version", "2");
        write(DType.F64, metadata, 1);
        assertRefused("version 2");
        assertThrows(IllegalArgumentException.class, () -> new SecondMoments(Map.of(), Map.of("moments.version", "1")));
    }
}
