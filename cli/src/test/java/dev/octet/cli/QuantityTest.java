package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QuantityTest {
    @Test
    void bytes_are_shown_with_one_decimal() {
        assertEquals("999 B", Quantity.bytes(999));
        assertEquals("1.0 kB", Quantity.bytes(1000));
        assertEquals("90.4 MB", Quantity.bytes(90_387_606));
        assertEquals("1.0 MB", Quantity.bytes(999_999));
        assertEquals("9.2 EB", Quantity.bytes(Long.MAX_VALUE));
    }

    @ParameterizedTest
    @CsvSource({
        "505434112, 505434112, bytes, 505.4 MB of 505.4 MB",
        "4196352, 252717056, elements, 4.2 M of 252.7 M elements",
        "0, 12, samples, 0 of 12 samples",
        "1250, 20000, samples, '1,250 of 20,000 samples'"
    })
    void a_part_of_a_whole_names_the_unit_once(long done, long total, String unit, String shown) {
        assertEquals(shown, Quantity.share(done, total, unit));
    }

    @ParameterizedTest
    @CsvSource({
        "280189019.6, bytes, 280 MB/s",
        "1836000000, bytes, 1.84 GB/s",
        "12, bytes, 12.0 B/s",
        "1359620.0, elements, 1.36 M elements/s",
        "12.345, samples, 12.3 samples/s",
        "345.67, samples, 346 samples/s"
    })
    void a_rate_has_its_unit_and_is_never_rounded_to_nothing(double rate, String unit, String shown) {
        assertEquals(shown, Quantity.rate(rate, unit));
    }

    @ParameterizedTest
    @CsvSource({"3.2, 4 s", "60, 1 min 0 s", "125, 2 min 5 s", "7500, 2 h 5 min", "273600, 3 d 4 h"})
    void a_time_to_come_is_shown_in_its_two_largest_units(double seconds, String shown) {
        assertEquals(shown, Quantity.remaining(seconds));
    }
}
