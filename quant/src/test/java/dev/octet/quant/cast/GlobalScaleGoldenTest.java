package dev.octet.quant.cast;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.block.ScaleRuns;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.scale.GlobalScale;
import dev.octet.quant.scale.GlobalScale.Direction;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Locale;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Both levels of NVFP4's scales against those that other code computed. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class GlobalScaleGoldenTest {
    private static Stream<BlockGolden> cases() {
        return BlockGolden.all().filter(c -> c.scheme().startsWith("nvfp4"));
    }

    private static Direction direction(BlockGolden golden) {
        return Direction.valueOf(golden.text("global").toUpperCase(Locale.ROOT));
    }

    private static GlobalScale global(BlockGolden golden, Tensor source) {
        return GlobalScale.of(
                ElementCast.best().amax(source.dtype(), source.bytes()), Float8Format.E2M1, direction(golden));
    }

    @ParameterizedTest
    @MethodSource("cases")
    void the_global_scale_is_the_expected_number(BlockGolden golden) {
        try (Arena arena = Arena.ofConfined()) {
            float expected = golden.tensor("global", arena).bytes().get(Tensor.F32_LE, 0);
            assertEquals(expected, global(golden, golden.source(arena)).value());
        }
    }

    @ParameterizedTest
    @MethodSource("cases")
    void block_scales_are_the_expected_codes_and_multipliers(BlockGolden golden) {
        try (Arena arena = Arena.ofConfined()) {
            Tensor source = golden.source(arena);
            MemorySegment codes = golden.tensor("scale", arena).bytes();
            MemorySegment multipliers = golden.tensor("multiplier", arena).bytes();
            ScaleRuns tile = golden.tile();
            MemorySegment scales = arena.allocate(tile.scaleCount() * Float.BYTES);
            MemorySegment stored = arena.allocate(tile.scaleCount());
            for (int t = 0; t < golden.tiles(); t++) {
                BlockCast.best().amax(source.dtype(), golden.part(source.bytes(), t), tile, scales);
                global(golden, source).blocks(scales, tile.scaleCount(), Float8Format.E2M1, stored);
                assertEquals(-1, stored.mismatch(golden.part(codes, t)), "codes of matrix " + t);
                assertEquals(-1, scales.mismatch(golden.part(multipliers, t)), "scales of matrix " + t);
            }
        }
    }
}
