package dev.octet.formats.tensor;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Optional;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class FloatNameTest {
    @ParameterizedTest
    @CsvSource({
        "fp32, F32", "f32, F32", "float32, F32", "float, F32", "torch.float32, F32", "F32, F32", "bf16, BF16",
        "bfloat16, BF16", "torch.bfloat16, BF16", "BF16, BF16", "fp16, F16", "f16, F16", "half, F16", "torch.half, F16",
        "jnp.float16, F16"
    })
    void every_spelling_names_its_type(String typed, DType type) {
        assertEquals(Optional.of(type), FloatName.of(typed).map(FloatName::type));
        assertEquals(FloatName.of(type).orElseThrow().text(), FloatName.normal(typed));
    }

    @Test
    void other_words_stay_as_they_are() {
        assertEquals("fp8", FloatName.normal("fp8"));
        assertEquals(Optional.empty(), FloatName.of("float64"));
        assertEquals(Optional.empty(), FloatName.of(DType.F64));
    }
}
