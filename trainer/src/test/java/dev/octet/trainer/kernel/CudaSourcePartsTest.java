package dev.octet.trainer.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.trainer.op.fp8.Fp8Linear;
import dev.octet.trainer.op.gelu.Gelu;
import java.util.Map;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** Sources that are compiled in parts: a kernel's name says which. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CudaSourcePartsTest {
    private static final CudaSource FP8 = CudaSource.of(Fp8Linear.class, "fp8.cu");

    private static Map<String, String> macros(String kernel) {
        return FP8.part(kernel).defines();
    }

    @Test
    void the_types_in_a_kernels_name_are_those_of_its_part() {
        assertEquals(Map.of("PART_FLOAT", "bf16", "PART_CODE", "e4m3"), macros("cast_amax_bf16_e4m3"));
        assertEquals(Map.of("PART_FLOAT", "f32", "PART_CODE", "e5m2"), macros("decode_blocks_e5m2_f32"));
        assertEquals(Map.of("PART_FLOAT", "f16"), macros("whole_amax_f16"));
        assertEquals(Map.of("PART_REST", "1"), macros("amax_update"));
        assertEquals(Map.of("PART_REST", "1"), macros("transpose_codes"));
    }

    @Test
    void a_source_of_one_part_stays_as_it_is() {
        CudaSource gelu = CudaSource.of(Gelu.class, "gelu.cu");
        assertEquals(gelu, gelu.part("gelu_forward_bf16"));
        CudaSource part = FP8.part("amax_update");
        assertEquals(part, part.part("amax_update"));
    }
}
