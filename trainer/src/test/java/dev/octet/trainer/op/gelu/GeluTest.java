package dev.octet.trainer.op.gelu;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.trainer.op.TwinTest;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class GeluTest extends TwinTest {
    @Override
    protected List<Case> cases() {
        return List.of(
                Case.normal("exact", new Gelu(f32(20, 13), false), f32(20, 13)),
                Case.normal("tanh", new Gelu(f32(20, 13), true), f32(20, 13)),
                Case.normal("exact, one", new Gelu(f32(), false), f32()),
                Case.normal("exact, many", new Gelu(f32(7, 1013), false), f32(7, 1013)),
                Case.normal("tanh, many", new Gelu(f32(7, 1013), true), f32(7, 1013)));
    }

    /** Values of scipy.stats.norm.cdf. */
    @ParameterizedTest
    @CsvSource({
        "0, 0.5",
        "1, 0.8413447460685429",
        "-1, 0.15865525393145707",
        "-3, 0.0013498980316300946",
        "2.5, 0.9937903346742238",
        "6, 0.9999999990134123"
    })
    void the_normal_distribution_has_the_published_values(double x, double expected) {
        assertEquals(expected, GeluReference.normalDistribution(x), 1e-15);
    }
}
