package dev.octet.quant.cast;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.octet.formats.tensor.DType;
import dev.octet.formats.tensor.Tensor;
import dev.octet.quant.number.Float8Format;
import dev.octet.quant.number.Overflow;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** All 2^32 floats. Run with {@code mvn verify -Psweep}; uses all processors, a minute or two for each case on two. */
@Tag("sweep")
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class CastSweepTest {
    private static final int CHUNK = 1 << 20;
    private static final int CHUNKS = 1 << 12;

    record Mode(Float8Format format, Overflow overflow) {}

    static Stream<Mode> modes() {
        return Stream.of(
                        Float8Format.E4M3FN,
                        Float8Format.E5M2,
                        Float8Format.E4M3FNUZ,
                        Float8Format.E5M2FNUZ,
                        Float8Format.E2M1)
                .flatMap(f -> Stream.of(Overflow.values()).map(o -> new Mode(f, o)));
    }

    @ParameterizedTest
    @MethodSource("modes")
    void every_float_has_the_code_of_the_reference(Mode mode) {
        ElementCast reference = new ElementCastReference();
        ElementCast vector = new ElementCastVector();
        IntStream.range(0, CHUNKS).parallel().forEach(chunk -> {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment floats = arena.allocate(4L * CHUNK, 64);
                for (int i = 0; i < CHUNK; i++) {
                    floats.set(Tensor.I32_LE, 4L * i, chunk * CHUNK + i);
                }
                MemorySegment expected = arena.allocate(CHUNK, 64);
                MemorySegment actual = arena.allocate(CHUNK, 64);
                reference.encode(DType.F32, floats, 1, mode.format(), mode.overflow(), expected);
                vector.encode(DType.F32, floats, 1, mode.format(), mode.overflow(), actual);
                assertEquals(-1, expected.mismatch(actual), () -> mode + " from float bits " + chunk * CHUNK);
            }
        });
    }
}
