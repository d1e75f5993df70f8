package dev.octet.trainer.hook;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Lines of Transformer Engine's statistics log. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class TransformerEngineLogTest {
    /** Right column: what printf of C prints. */
    @ParameterizedTest
    @CsvSource({
        "0, 0",
        "-0.0, 0",
        "1, 1",
        "-1.5, -1.5",
        "123456, 123456",
        "1234567, 1.23457e+06",
        "0.0001, 0.0001",
        "0.00001234567, 1.23457e-05",
        "999999.5, 1e+06",
        "0.1, 0.1",
        "448, 448",
        "1e-300, 1e-300",
        "3.4028234663852886e38, 3.40282e+38",
        "NaN, nan",
        "Infinity, inf",
        "-Infinity, -inf"
    })
    void numbers_are_printed_as_by_percent_g(double value, String printed) {
        assertEquals(printed, TransformerEngineLog.shortest(value));
    }

    @Test
    void in_parity_mode_they_have_four_decimals() {
        assertEquals(
                "layers.0.fc1_weight_mse \t\t\t\t iteration=000012 \t\t\t\t value=0.0000",
                TransformerEngineLog.line("layers.0.fc1_weight_mse", 12, 1e-6, true));
        assertEquals(
                "layers.0.fc1_weight_mse \t\t\t\t iteration=1234567 \t\t\t\t value=1e-06",
                TransformerEngineLog.line("layers.0.fc1_weight_mse", 1_234_567, 1e-6, false));
    }

    @Test
    void the_name_of_a_module_cannot_begin_another_line() {
        assertEquals(
                "a_b_max \t\t\t\t iteration=000001 \t\t\t\t value=2",
                TransformerEngineLog.line("a\nb_max", 1, 2, false));
    }
}
