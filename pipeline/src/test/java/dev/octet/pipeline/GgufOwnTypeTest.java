package dev.octet.pipeline;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.gguf.GgufType;
import dev.octet.formats.tensor.DType;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** The type of a GGUF file of which no type is asked for. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GgufOwnTypeTest {
    @Test
    void most_bytes_decide() {
        assertEquals(GgufType.F16, Convert.ownType(Map.of(DType.F32, 8L, DType.F16, 10L)));
        assertEquals(GgufType.F32, Convert.ownType(Map.of(DType.F32, 11L, DType.F16, 10L, DType.I8, 99L)));
    }

    @Test
    void of_as_many_bytes_the_wider_range_is_kept() {
        assertEquals(GgufType.F32, Convert.ownType(Map.of(DType.F16, 4L, DType.F32, 4L, DType.BF16, 4L)));
        assertEquals(GgufType.BF16, Convert.ownType(Map.of(DType.F16, 4L, DType.BF16, 4L)));
    }

    @Test
    void a_model_without_floats_is_written_in_BF16() {
        assertEquals(GgufType.BF16, Convert.ownType(Map.of(DType.I8, 4L)));
        assertEquals(GgufType.BF16, Convert.ownType(Map.of()));
    }
}
