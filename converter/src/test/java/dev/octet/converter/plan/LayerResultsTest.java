package dev.octet.converter.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.graph.Node;
import dev.octet.formats.tensor.Shape;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.Quantizer;
import dev.octet.quant.block.Granularity;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import dev.octet.quant.scale.QuantizedTensor;
import java.lang.foreign.Arena;
import java.util.List;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class LayerResultsTest {
    @Test
    void only_what_no_longer_rounds_to_the_largest_number_counts_as_saturated() {
        try (Arena arena = Arena.ofConfined()) {
            // 463 still rounds to 448, 465 lies nearer to the 480 that E4M3FN lacks; 2^-12 becomes zero
            Tensor w = Tensor.ofFloats(arena, "w", Shape.of(1, 4), 463, 465, 0x1p-12f, 0);
            QuantizedTensor q = Quantizer.sequential()
                    .quantize(
                            w,
                            Tensor.ofFloats(arena, "w_scale", Shape.SCALAR, 1),
                            new Granularity.PerTensor(),
                            Float8Format.E4M3FN,
                            Overflow.SATURATE,
                            arena);
            LayerResult r = LayerResults.of(Node.of("n", "Linear", List.of("x", "w"), List.of("y")), "w", w, q, false);
            assertEquals(1 / 4.0, r.saturatedShare());
            assertEquals(1 / 3.0, r.flushedShare());
            double signal = 463.0 * 463 + 465.0 * 465 + 0x1p-24;
            double noise = 15.0 * 15 + 17.0 * 17 + 0x1p-24;
            assertEquals(10 * Math.log10(signal / noise), r.weightSqnrDb(), 1e-9); // double arithmetic in another order
        }
    }
}
